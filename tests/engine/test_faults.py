"""One call goes wrong: an error, or an answer that is lost. For every resource type, on create and on delete.

On demand, the full matrix over every resource: `TANDEM_EVERY_FAULT=1 python -m pytest tests/engine/test_faults.py`.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from typing import Any

import pytest

from sandbox.graph import PROVIDER_TYPE_PREFIX
from sandbox.world import Fault, World
from stacks.config import load_file
from tandem.command import main
from tandem.plan import program_graph
from tests.engine.emulated import ROOT, STACKS, Raise, Stack

STACK = "timeslice"
EVERY_TYPE: dict[str, Any] = {
    "cluster": {"logs": True},
    "models": [{"name": "llama2:7b", "context": 2048, "cache": "volume"}, {"name": "mistral:7b", "context": 2048}],
}
"""Sections with which the stack has a resource of every type."""
TYPES = (
    "aws:cloudwatch/logGroup:LogGroup",
    "aws:ebs/volume:Volume",
    "aws:ec2/eip:Eip",
    "aws:ec2/internetGateway:InternetGateway",
    "aws:ec2/launchTemplate:LaunchTemplate",
    "aws:ec2/natGateway:NatGateway",
    "aws:ec2/route:Route",
    "aws:ec2/routeTable:RouteTable",
    "aws:ec2/routeTableAssociation:RouteTableAssociation",
    "aws:ec2/subnet:Subnet",
    "aws:ec2/vpc:Vpc",
    "aws:ec2/vpcEndpoint:VpcEndpoint",
    "aws:eks/addon:Addon",
    "aws:eks/cluster:Cluster",
    "aws:eks/nodeGroup:NodeGroup",
    "aws:iam/role:Role",
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
    "kubernetes:core/v1:Namespace",
    "kubernetes:core/v1:PersistentVolume",
    "kubernetes:core/v1:PersistentVolumeClaim",
    "kubernetes:helm.sh/v3:Release",
    "kubernetes:storage.k8s.io/v1:StorageClass",
)
RELEASE = "kubernetes:helm.sh/v3:Release"
MATRIX = "TANDEM_EVERY_FAULT" in os.environ


def managed(stack: str, file: Any = None) -> dict[str, str]:
    """Type by logical name of everything that exists in the cloud."""
    graph = program_graph(load_file(file or ROOT / f"Pulumi.{stack}.yaml"), stack)
    return {
        f"{one.type} {one.name}": one.type
        for one in graph
        if one.custom and not one.type.startswith(PROVIDER_TYPE_PREFIX)
    }


def doubled(stack: Stack) -> list[tuple[str, str]]:
    """What exists twice under one logical name."""
    found: list[Counter[tuple[str, str]]] = []
    stack.behind(lambda world: found.append(counted(world)))
    return [key for key, count in found[0].items() if count > 1]


def counted(world: World) -> Counter[tuple[str, str]]:
    return Counter((thing.type, thing.name) for thing in world.things() if thing.made_by == "pulumi")


@pytest.fixture(params=TYPES)
def token(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_every_type_of_every_stack_is_tried(nothing: Raise) -> None:
    tried = managed(STACK, nothing(STACK, EVERY_TYPE).place.stack_file)
    assert set(tried.values()) == set(TYPES)
    assert {token for stack in STACKS for token in managed(stack).values()} <= set(TYPES)


def test_after_an_error_on_create_one_plain_up_finishes(nothing: Raise, token: str) -> None:
    stack = nothing(STACK, EVERY_TYPE)
    failed = stack.up(faults=(Fault(type=token, operation="create", kind="error"),))
    assert (failed.code != 0, stack.fired) == (True, 1)
    assert any("an injected fault" in error for error in failed.errors)
    run = stack.up()
    assert run.code == 0, run.errors
    assert stack.findings().agree
    assert doubled(stack) == []


def test_after_an_error_on_delete_one_plain_destroy_finishes(raised: Raise, token: str) -> None:
    stack = raised(STACK, EVERY_TYPE)
    failed = stack.destroy(faults=(Fault(type=token, operation="delete", kind="error"),))
    if stack.fired:
        assert failed.code != 0
        assert any("an injected fault" in error for error in failed.errors)
        run = stack.destroy()
        assert run.code == 0, run.errors
    found = stack.findings()
    assert (found.resources, found.things) == (0, 0)


def test_after_a_lost_answer_on_create_status_names_the_one_command(
    nothing: Raise, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = nothing(STACK, EVERY_TYPE)
    failed = stack.up(faults=(Fault(type=token, operation="create", kind="lost"),))
    assert (failed.code != 0, stack.fired) == (True, 1)
    [orphan] = stack.findings().orphans
    assert orphan.thing.type == token
    command, *arguments = shlex.split(orphan.repair)
    assert command == "tandem"
    monkeypatch.chdir(stack.folder)
    assert main(arguments) == 0
    run = stack.up()
    assert run.code == 0, run.errors
    assert stack.findings().agree
    assert doubled(stack) == []


@pytest.mark.parametrize(
    "lost", ["aws:iam/role:Role", "aws:eks/cluster:Cluster", "kubernetes:core/v1:PersistentVolumeClaim", RELEASE]
)
def test_after_a_lost_answer_on_delete_one_destroy_that_refreshes_finishes(raised: Raise, lost: str) -> None:
    # A plain one is enough but for releases: Helm calls it an error when there is nothing to uninstall.
    stack = raised(STACK, EVERY_TYPE)
    failed = stack.destroy(faults=(Fault(type=lost, operation="delete", kind="lost"),))
    assert (failed.code != 0, stack.fired) == (True, 1)
    assert [one.type for one in stack.findings().missing] == [lost]
    run = stack.destroy(*(["--refresh"] if lost == RELEASE else []))
    assert run.code == 0, run.errors
    found = stack.findings()
    assert (found.resources, found.things) == (0, 0)


@pytest.mark.skipif(not MATRIX, reason="the full matrix is run on demand: TANDEM_EVERY_FAULT=1")
def test_every_resource_survives_a_fault_on_create_and_on_delete(nothing: Raise, raised: Raise) -> None:
    fired = 0
    for key, token in managed(STACK, nothing(STACK, EVERY_TYPE).place.stack_file).items():
        name = key.removeprefix(f"{token} ")
        stack = nothing(STACK, EVERY_TYPE)
        stack.up(faults=(Fault(type=token, operation="create", kind="error", name=name),))
        assert stack.up().code == 0, key
        assert (stack.findings().agree, doubled(stack)) == (True, []), key
        stack.destroy(faults=(Fault(type=token, operation="delete", kind="error", name=name),))
        assert stack.destroy().code == 0, key
        assert stack.findings().things == 0, key
        fired += stack.fired
    print(f"{fired} faults tried")
