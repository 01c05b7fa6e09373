"""Calls fail with an error or a lost answer, for every resource type, on create and on delete.

Faults follow each other on one stack: each command continues until the next fault. `make test-faults` has one for every
single resource, not only for the first of each type.
"""

import os
import shlex
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from sandbox.graph import IN_STATE_ALONE, Graph
from sandbox.world import World
from tandem.main import main
from tests.engine.emulated import EVERY_TYPE, Raise, Stack
from tests.sandbox.faults import Fault, Kind, Operation
from tests.shipped import STACKS

STACK = "timeslice"
KARPENTER = "karpenter"
EVERY_RESOURCE = "TANDEM_EVERY_FAULT" in os.environ
LOSING = (STACK, KARPENTER) if EVERY_RESOURCE else (STACK,)
"""Stacks on which answers are lost."""
SECTIONS: dict[str, Mapping[str, Any]] = {STACK: EVERY_TYPE, KARPENTER: {}}
RELEASE = "kubernetes:helm.sh/v3:Release"


def in_the_cloud(graph: Graph) -> list[tuple[str, str]]:
    """Type and logical name of everything that exists in the cloud."""
    return [
        (resource.type, resource.name)
        for resource in graph
        if resource.custom and not resource.type.startswith(IN_STATE_ALONE)
    ]


def types(name: str, sections: Mapping[str, Any] | None = None) -> set[str]:
    """The types of the resources that the stack file of that name has in the cloud."""
    with TemporaryDirectory() as folder:
        return {token for token, _ in in_the_cloud(Stack.new(Path(folder), name, sections or {}).graph)}


@cache
def failing(name: str) -> list[str]:
    """Types that fail on a stack: all types of the first, and the additional types of the second."""
    of_all = types(STACK, EVERY_TYPE)
    return sorted(of_all if name == STACK else types(name) - of_all)


def doubled(stack: Stack) -> list[tuple[str, str]]:
    """Resources that exist twice under one logical name."""
    made = Counter((entity.type, entity.name) for entity in stack.behind(World.entities) if entity.made_by == "pulumi")
    return [key for key, count in made.items() if count > 1]


def faults(stack: Stack, operation: Operation, kind: Kind = "error") -> tuple[Fault, ...]:
    """One fault for each type, or for each resource with `make test-faults`."""
    tokens = failing(stack.name)
    if not EVERY_RESOURCE:
        return tuple(Fault(type=token, operation=operation, kind=kind) for token in tokens)
    there = [(token, name) for token, name in in_the_cloud(stack.graph) if token in tokens]
    return tuple(Fault(type=token, operation=operation, kind=kind, name=name) for token, name in there)


def is_whole(stack: Stack) -> None:
    stack.comes_up()
    assert stack.findings().agree
    assert doubled(stack) == []


def is_deleted(stack: Stack) -> None:
    findings = stack.findings()
    assert (findings.resources, findings.entities) == (0, 0)


def test_every_type_of_every_stack_is_tried() -> None:
    tried = {*failing(STACK), *failing(KARPENTER)}
    assert tried == set().union(*map(types, STACKS), types(STACK, EVERY_TYPE))
    assert (len(failing(STACK)), len(failing(KARPENTER))) == (31, 9)


@pytest.mark.parametrize("name", SECTIONS)
def test_after_an_error_on_create_the_next_up_goes_on_whatever_failed(nothing: Raise, name: str) -> None:
    stack = nothing(name, SECTIONS[name])
    every = left = faults(stack, "create")
    while left:
        failed = stack.up(faults=left)
        assert failed.code != 0, f"these were never created: {left}"
        assert any("an injected fault" in error for error in failed.errors), failed.errors
        left = stack.unfired
    assert stack.fired == len(every)
    is_whole(stack)


@pytest.mark.parametrize("name", SECTIONS)
def test_after_an_error_on_delete_the_next_destroy_goes_on_whatever_failed(raised: Raise, name: str) -> None:
    stack = raised(name, SECTIONS[name])
    left = faults(stack, "delete")
    while (run := stack.destroy(faults=left)).code != 0:
        assert any("an injected fault" in error for error in run.errors), run.errors
        left = stack.unfired
    assert not left, "these are never deleted"
    is_deleted(stack)


@pytest.mark.parametrize("name", LOSING)
def test_after_a_lost_answer_on_create_status_names_the_one_command_whatever_it_was(
    nothing: Raise, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    stack = nothing(name, SECTIONS[name])
    monkeypatch.chdir(stack.folder)
    left = faults(stack, "create", "lost")
    while left:
        assert stack.up(faults=left).code != 0, f"these were never created: {left}"
        lost = Counter(fault.type for fault in left) - Counter(fault.type for fault in stack.unfired)
        orphans = stack.findings().orphans
        assert Counter(orphan.entity.type for orphan in orphans) == lost
        for orphan in orphans:
            command, *arguments = shlex.split(orphan.repair)
            assert command == "tandem"
            assert main(arguments) == 0
        assert not stack.findings().orphans
        left = stack.unfired
    is_whole(stack)


@pytest.mark.parametrize("name", LOSING)
def test_after_a_lost_answer_on_delete_the_next_destroy_finishes_and_after_that_of_a_release_one_that_refreshes(
    raised: Raise, name: str
) -> None:
    # Helm calls it an error when there is nothing to uninstall.
    stack = raised(name, SECTIONS[name])
    left = faults(stack, "delete", "lost")
    options: list[str] = []
    while (run := stack.destroy(*options, faults=left)).code != 0:
        lost = Counter(fault.type for fault in left) - Counter(fault.type for fault in stack.unfired)
        # Earlier lost ones are still missing from the cloud if this destroy has not reached them.
        assert lost <= Counter(resource.type for resource in stack.findings().missing), run.errors
        options = ["--refresh"] if RELEASE in lost else []
        left = stack.unfired
    assert not left, "these are never deleted"
    is_deleted(stack)
