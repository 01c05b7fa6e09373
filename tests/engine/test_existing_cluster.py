"""Stacks of ours in a cluster that another team made with a program of its own: what is theirs stays, byte for byte."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sandbox.world import tokens
from sandbox.world.foreign import found_vpc
from sandbox.world.providers.callers import Callers
from sharing.files import lock
from sharing.sections.existing import ExistingVpc
from tests.engine.api_server import answering
from tests.engine.foreign import NAME, Guest, Platform, Snapshot
from tests.program.conftest import VARIANTS
from tests.sandbox.outside import Outside

MODELS = {"tandem-ollama-llama2-7b", "tandem-ollama-mistral-7b"}
EVERYTHING: dict[str, Any] = {
    "gpu-nodes": {"instance-types": ["g4dn.xlarge"], "max": 1},
    "models": [{"name": "llama2:7b", "context": 2048, "cache": "volume"}, {"name": "mistral:7b", "context": 2048}],
    "park": VARIANTS["scheduled"][1]["park"],
    "ui": VARIANTS["ui"][1]["ui"],
    "monitoring": {"store": "builtin"},
    "budget": {},
}
"""Sections of a stack with a node group and most optional parts."""
LEFT_BY_HELM = {f"{kind}.nfd.k8s-sigs.io" for kind in ("nodefeatures", "nodefeaturegroups", "nodefeaturerules")}
"""Definitions in a chart's folder `crds/`, which Helm never deletes (helm.sh/docs/chart_best_practices/)."""
Host = Callable[..., Platform]


@pytest.fixture(autouse=True)
def api_servers() -> Iterator[None]:
    """A stack looks what is in the cluster."""
    with answering():
        yield


@pytest.fixture(scope="session")
def host(pulumi: None, tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Host:
    """The other team's cluster with these extras: one worker makes it, and nobody changes it."""
    workers = tmp_path_factory.getbasetemp()
    shared = workers if worker_id == "master" else workers.parent

    def make(*extras: str) -> Platform:
        folder = shared / "-".join(("platform", *extras))
        with lock(folder.with_suffix(".lock"), wait=True):
            if not folder.is_dir():
                making = tmp_path_factory.mktemp(NAME)
                Platform.made(making, extras)
                making.rename(folder)
        return Platform(folder, NAME)

    return make


def kinds(snapshot: Snapshot) -> set[str]:
    return {token for token, _ in snapshot}


def test_a_stack_comes_stays_changes_and_goes_and_the_cluster_is_as_it_was(host: Host, tmp_path: Path) -> None:
    stack = Guest.inside(tmp_path, host(), "timeslice", **EVERYTHING)
    before = stack.everything()
    stack.comes_up()
    added = stack.adds_to(before)
    assert {tokens.NODE_GROUP, tokens.SCHEDULE, tokens.VOLUME, tokens.RELEASE} <= kinds(added)
    # Nothing of a cluster or its network is ours.
    assert not {tokens.CLUSTER, tokens.VPC, tokens.SUBNET, tokens.NAT, tokens.ADDON} & kinds(added)
    assert stack.comes_up().changed == {}
    stack.configure({"sharing": {"mode": "mps", "replicas": 2}})
    changed = stack.comes_up().changed
    assert {"tandem-sharing-gpu-plugin", "tandem-gpu-group", *MODELS} <= changed["update"]
    assert changed.keys() == {"update", "replace"}
    assert stack.comes_up("--refresh").changed == {}
    stack.adds_to(before)
    assert stack.destroy().code == 0
    assert {identity for _, identity in stack.adds_to(before)} == LEFT_BY_HELM
    host().copied_to(tmp_path / NAME).finds_nothing_to_do(stack.cloud)


def test_a_killed_up_and_destroy_leave_the_cluster_as_it_was(host: Host, tmp_path: Path) -> None:
    stack = Guest.inside(tmp_path, host(), "timeslice")
    before = stack.everything()
    stack.is_killed_during_up(tokens.NODE_GROUP)
    assert tokens.NODE_GROUP in kinds(stack.adds_to(before))
    stack.recovers()
    assert stack.destroy().code == 0
    assert {identity for _, identity in stack.adds_to(before)} <= LEFT_BY_HELM


def test_karpenter_and_keda_of_ours_come_and_go_beside_the_discovery_of_others(host: Host, tmp_path: Path) -> None:
    stack = Guest.inside(tmp_path, host("discovery"), "karpenter", **VARIANTS["karpenter-idle"][1])
    before = stack.everything()
    stack.comes_up()
    names = [entity.name for entity in stack.entities(tokens.RELEASE)]
    assert "tandem-karpenter-controller" in names
    assert "tandem-sharing-discovery" not in names
    assert stack.comes_up().changed == {}
    assert stack.destroy().code == 0
    assert stack.adds_to(before) == {}


def refusal(stack: Guest) -> str:
    """The error of `up`, which must change nothing in the cloud."""
    before = stack.everything()
    run = stack.up()
    assert run.code != 0
    assert stack.everything() == before
    return " ".join(run.errors[0].split())


def test_all_conflicts_are_reported_before_anything_is_created(host: Host, tmp_path: Path) -> None:
    stack = Guest.inside(tmp_path, host("plugin", "karpenter", "namespace"), "karpenter")
    said = refusal(stack)
    for words in (
        "plugin of DaemonSet kube-system/nvidia-device-plugin-daemonset would also run on the stack's GPU nodes",
        "installs Karpenter, and the cluster has one: Deployment kube-system/karpenter",
        "the namespace 'ollama' exists",
    ):
        assert words in said


def older(stack: Guest) -> None:
    stack.behind(lambda world: world.tamper(tokens.CLUSTER, NAME, lambda one: one.outputs.update(version="1.31")))


def missing(stack: Guest) -> None:
    stack.configure({"cluster": {"existing": {"name": "other"}}})


def not_allowed(stack: Guest) -> None:
    stack.callers = Callers(forbidden=frozenset({"eks:DescribeCluster"}))


def not_admitted(stack: Guest) -> None:
    stack.callers = Callers(ambient="arn:aws:iam::123456789012:role/stranger")


def other_subnets(stack: Guest) -> None:
    """One in another VPC, and one that does not exist."""
    other = ExistingVpc(id="vpc-0a1b2c3d", subnets=["subnet-0000000a"])

    def add(world: Outside) -> None:
        with world.changing() as entities:
            found_vpc(entities, "us-east-1", other)

    stack.behind(add)
    chosen = ["subnet-0000000a", "subnet-0000000b"]
    stack.configure({"cluster": {"existing": {"name": NAME, "node-subnets": chosen}}})


@pytest.mark.parametrize(
    ("make_it_so", "words"),
    [
        (missing, ["'other' is no EKS cluster of this account in us-east-1"]),
        (not_allowed, ["is not authorized to perform: eks:DescribeCluster"]),
        (not_admitted, ["does not admit you (401 for /apis/apps/v1/daemonsets)"]),
        (
            other_subnets,
            [
                "node-subnets[0]: subnet-0000000a is in vpc-0a1b2c3d, not in vpc-",
                "node-subnets[1]: 'subnet-0000000b' does not exist in us-east-1 of this account",
            ],
        ),
        (older, ["does not match the control plane of 'platform', which has 1.31"]),
    ],
)
def test_a_cluster_that_does_not_suit_is_refused_before_anything_is_created(
    host: Host, tmp_path: Path, make_it_so: Callable[[Guest], None], words: list[str]
) -> None:
    stack = Guest.inside(tmp_path, host(), "timeslice")
    make_it_so(stack)
    said = refusal(stack)
    assert [each for each in words if each not in said] == [], said
