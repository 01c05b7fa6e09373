"""One call goes wrong: an error, or an answer that is lost. For every resource type, on create and on delete.

Errors of all types come one after the other, on one stack: the next command goes on until it meets the next. On demand
each fault has a stack of its own, for every resource, by `make test-faults`: the number of tests is that of the faults.
"""

from __future__ import annotations

import json
import os
import shlex
from collections import Counter
from typing import Any, cast

import pytest
import yaml

from sandbox.graph import IN_STATE_ALONE, Graph
from sandbox.world import Fault, World
from stacks.config import StackConfig, load_file
from tandem.command import main
from tandem.plan import program_graph
from tandem.sandbox.state import Orphan
from tests.engine.emulated import ROOT, STACKS, Raise, Stack

STACK = "timeslice"
EVERY_TYPE: dict[str, Any] = {
    "cluster": {"logs": True},
    "models": [{"name": "llama2:7b", "context": 2048, "cache": "volume"}, {"name": "mistral:7b", "context": 2048}],
}
"""Sections with which the stack has a resource of every type, but for those of Karpenter."""
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
    "kubernetes:batch/v1:Job",
    "kubernetes:core/v1:ConfigMap",
    "kubernetes:core/v1:Namespace",
    "kubernetes:core/v1:PersistentVolume",
    "kubernetes:core/v1:PersistentVolumeClaim",
    "kubernetes:core/v1:Service",
    "kubernetes:core/v1:ServiceAccount",
    "kubernetes:helm.sh/v3:Release",
    "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole",
    "kubernetes:rbac.authorization.k8s.io/v1:ClusterRoleBinding",
    "kubernetes:storage.k8s.io/v1:StorageClass",
)
KARPENTER = "karpenter"
BY_KARPENTER = (
    "aws:cloudwatch/eventRule:EventRule",
    "aws:cloudwatch/eventTarget:EventTarget",
    "aws:eks/accessEntry:AccessEntry",
    "aws:eks/podIdentityAssociation:PodIdentityAssociation",
    "aws:iam/policy:Policy",
    "aws:sqs/queue:Queue",
    "aws:sqs/queuePolicy:QueuePolicy",
    "kubernetes:karpenter.k8s.aws/v1:EC2NodeClass",
    "kubernetes:karpenter.sh/v1:NodePool",
    "kubernetes:karpenter.sh/v1alpha1:NodeOverlay",
)
"""Types that only this stack has."""
SECTIONS: dict[str, dict[str, Any]] = {STACK: EVERY_TYPE, KARPENTER: {}}
RELEASE = "kubernetes:helm.sh/v3:Release"


def in_the_cloud(graph: Graph) -> dict[str, str]:
    """Type of everything that exists in the cloud, by type and logical name."""
    managed = [one for one in graph if one.custom and not one.type.startswith(IN_STATE_ALONE)]
    return {f"{one.type} {one.name}": one.type for one in managed}


def doubled(stack: Stack) -> list[tuple[str, str]]:
    """What exists twice under one logical name."""
    found: list[Counter[tuple[str, str]]] = []
    stack.behind(lambda world: found.append(counted(world)))
    return [key for key, count in found[0].items() if count > 1]


def counted(world: World) -> Counter[tuple[str, str]]:
    return Counter((thing.type, thing.name) for thing in world.things() if thing.made_by == "pulumi")


def fails_and_finishes(stack: Stack, token: str, name: str = "") -> None:
    """An error on create: one plain `up` finishes the job, and nothing is doubled."""
    failed = stack.up(faults=(Fault(type=token, operation="create", kind="error", name=name),))
    assert (failed.code != 0, stack.fired) == (True, 1)
    assert any("an injected fault" in error for error in failed.errors)
    is_whole(stack)


def loses_and_repairs(stack: Stack, monkeypatch: pytest.MonkeyPatch, token: str, name: str = "") -> None:
    """A lost answer on create: the one command that `status` names, then `up`."""
    failed = stack.up(faults=(Fault(type=token, operation="create", kind="lost", name=name),))
    assert (failed.code != 0, stack.fired) == (True, 1)
    [orphan] = stack.findings().orphans
    assert orphan.thing.type == token
    repair(stack, monkeypatch, orphan)
    is_whole(stack)


def repair(stack: Stack, monkeypatch: pytest.MonkeyPatch, *orphans: Orphan) -> None:
    """Runs the command that `status` names for each."""
    monkeypatch.chdir(stack.folder)
    for orphan in orphans:
        command, *arguments = shlex.split(orphan.repair)
        assert command == "tandem"
        assert main(arguments) == 0


def is_whole(stack: Stack) -> None:
    run = stack.up()
    assert run.code == 0, run.errors
    assert stack.findings().agree
    assert doubled(stack) == []


def fails_and_goes(stack: Stack, token: str, name: str = "") -> None:
    """An error on delete: one plain `destroy` finishes the job."""
    failed = stack.destroy(faults=(Fault(type=token, operation="delete", kind="error", name=name),))
    if stack.fired:
        assert failed.code != 0
        assert any("an injected fault" in error for error in failed.errors)
        run = stack.destroy()
        assert run.code == 0, run.errors
    is_gone(stack)


def loses_and_goes(stack: Stack, token: str, name: str = "") -> None:
    """A lost answer on delete: one `destroy` finishes; for releases one that refreshes.

    Helm calls it an error when there is nothing to uninstall.
    """
    failed = stack.destroy(faults=(Fault(type=token, operation="delete", kind="lost", name=name),))
    if stack.fired:
        assert failed.code != 0
        assert [one.type for one in stack.findings().missing] == [token]
        run = stack.destroy(*(["--refresh"] if token == RELEASE else []))
        assert run.code == 0, run.errors
    is_gone(stack)


def is_gone(stack: Stack) -> None:
    found = stack.findings()
    assert (found.resources, found.things) == (0, 0)


def test_every_type_of_every_stack_is_tried(nothing: Raise) -> None:
    assert set(in_the_cloud(nothing(STACK, EVERY_TYPE).graph).values()) == set(TYPES)
    found: set[str] = set()
    for stack in STACKS:
        config = load_file(ROOT / f"Pulumi.{stack}.yaml")
        found |= set(in_the_cloud(program_graph(config, stack)).values())
    assert found - set(TYPES) == set(BY_KARPENTER)


FAILING = {STACK: TYPES, KARPENTER: BY_KARPENTER}
"""Types that fail on each stack."""


@pytest.mark.parametrize("name", FAILING)
def test_after_an_error_on_create_the_next_up_goes_on_whatever_type_failed(nothing: Raise, name: str) -> None:
    stack = nothing(name, SECTIONS[name])
    left = tuple(Fault(type=token, operation="create") for token in FAILING[name])
    while left:
        failed = stack.up(faults=left)
        assert failed.code != 0, f"these were never created: {left}"
        assert any("an injected fault" in error for error in failed.errors), failed.errors
        left = stack.unfired
    assert stack.fired == len(FAILING[name])
    is_whole(stack)


@pytest.mark.parametrize("name", FAILING)
def test_after_an_error_on_delete_the_next_destroy_goes_on_whatever_type_failed(raised: Raise, name: str) -> None:
    stack = raised(name, SECTIONS[name])
    left = tuple(Fault(type=token, operation="delete") for token in FAILING[name])
    while (run := stack.destroy(faults=left)).code != 0:
        assert any("an injected fault" in error for error in run.errors), run.errors
        left = stack.unfired
    assert not left, "some types are never asked to go"
    is_gone(stack)


@pytest.mark.parametrize("package", ["aws", "kubernetes"])
def test_after_a_lost_answer_on_create_status_names_the_one_command_for_whatever_type(
    nothing: Raise, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    stack = nothing(STACK, EVERY_TYPE)
    types = [token for token in TYPES if token.startswith(f"{package}:")]
    left = tuple(Fault(type=token, operation="create", kind="lost") for token in types)
    while left:
        assert stack.up(faults=left).code != 0, f"these were never created: {left}"
        lost = {fault.type for fault in left} - {fault.type for fault in stack.unfired}
        orphans = stack.findings().orphans
        assert {one.thing.type for one in orphans} == lost
        repair(stack, monkeypatch, *orphans)
        assert not stack.findings().orphans
        left = stack.unfired
    is_whole(stack)


@pytest.mark.parametrize(
    "lost", ["aws:iam/role:Role", "aws:eks/cluster:Cluster", "kubernetes:core/v1:PersistentVolumeClaim", RELEASE]
)
def test_after_a_lost_answer_on_delete_one_destroy_finishes(raised: Raise, lost: str) -> None:
    loses_and_goes(raised(STACK, EVERY_TYPE), lost)


def every_resource() -> list[tuple[str, str, str]]:
    """Stack, type and logical name of everything that two stacks with every type have; empty unless it is asked for."""
    if "TANDEM_EVERY_FAULT" not in os.environ:
        return []
    found = []
    for stack in (STACK, KARPENTER):
        values = yaml.safe_load((ROOT / f"Pulumi.{stack}.yaml").read_text(encoding="utf-8"))["config"]
        raw = {key.removeprefix("tandem:"): value for key, value in values.items()} | SECTIONS[stack]
        graph = in_the_cloud(program_graph(StackConfig.model_validate_json(json.dumps(raw)), stack))
        wanted = TYPES if stack == STACK else BY_KARPENTER
        found += [(stack, token, key.removeprefix(f"{token} ")) for key, token in graph.items() if token in wanted]
    return sorted(found)


@pytest.fixture(params=every_resource(), ids=" ".join)
def one(request: pytest.FixtureRequest) -> tuple[str, str, str]:
    return cast("tuple[str, str, str]", request.param)


def test_every_resource_survives_an_error_on_create(nothing: Raise, one: tuple[str, str, str]) -> None:
    fails_and_finishes(nothing(one[0], SECTIONS[one[0]]), *one[1:])


def test_every_resource_survives_a_lost_answer_on_create(
    nothing: Raise, one: tuple[str, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    loses_and_repairs(nothing(one[0], SECTIONS[one[0]]), monkeypatch, *one[1:])


def test_every_resource_survives_an_error_on_delete(raised: Raise, one: tuple[str, str, str]) -> None:
    fails_and_goes(raised(one[0], SECTIONS[one[0]]), *one[1:])


def test_every_resource_survives_a_lost_answer_on_delete(raised: Raise, one: tuple[str, str, str]) -> None:
    loses_and_goes(raised(one[0], SECTIONS[one[0]]), *one[1:])
