"""Whole stacks under the emulated cloud's rules: created in the program's order, deleted in the worst order."""

import pytest

from tests.program.unlucky import again, all_needed, cloud_resources, down, up
from tests.sandbox.outside import Outside
from tests.shipped import STACKS

pytestmark = pytest.mark.slow

EVERY = pytest.mark.parametrize(
    "variant", [*STACKS, "volumes", "logs", "parked", "karpenter-volumes", "everything", "two-pools"]
)
ORDERS = pytest.mark.parametrize(
    "variant", ["dev", "everything", "karpenter-volumes", "mig-mixed", "per-model", "two-pools"]
)
"""Together they have every dependency of the other stacks, which differ only in values or in one more zone."""


@EVERY
def test_a_stack_is_created_and_deleted_without_leftovers(variant: str) -> None:
    world = Outside(patience=0.0)
    graph = up(variant, world)
    ids = {one.urn: one.id for one in cloud_resources(graph)}
    assert world.leftovers([(graph[urn].type, identity) for urn, identity in ids.items()]) == []
    down(graph, world, all_needed(graph), ids)
    assert [one.key for one in world.leftovers([])] == []


@ORDERS
def test_a_stack_is_deleted_without_leftovers_whatever_is_deleted_first(variant: str) -> None:
    made = Outside(patience=0.0)
    graph = up(variant, made)
    ids = {one.urn: one.id for one in cloud_resources(graph)}
    needs = all_needed(graph)
    for urn in ids:
        before = {urn}
        while more := {one for one in needs if before & needs[one]} - before:
            before |= more
        world = made.copied()
        down(graph, world, needs, ids, before)
        assert [one.key for one in world.leftovers([])] == [], graph[urn].name


@ORDERS
def test_a_stack_is_created_whatever_is_created_last(variant: str) -> None:
    graph = up(variant, Outside(patience=0.0))
    needs = all_needed(graph)
    for urn in needs:
        world = Outside(patience=0.0)
        ids = again(graph, world, needs, urn)
        known = [(graph[one].type, identity) for one, identity in ids.items()]
        assert world.leftovers(known) == [], graph[urn].name
