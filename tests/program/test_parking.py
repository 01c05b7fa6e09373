"""The output by which the next `up` knows whether anything has changed since the stack was deployed."""

import re
from typing import Any

import pulumi_aws as aws
import pytest

from sandbox.graph import Graph
from sandbox.preview.program import run
from sharing import versions
from sharing.names import PROJECT
from stacks.asleep_pools import Parking, _read_last, digest, find_parking, record
from stacks.models import describe_model
from stacks.outputs import ParkingOutputs
from tests.program.conftest import StrictCloud, judge_with, plan_of

GPU: dict[str, Any] = {"labels": {"tandem/pool": "gpu"}}
OTHER: dict[str, Any] = {"labels": {}}
AWAKE, ASLEEP, BEFORE = (
    Parking(asleep=frozenset(), unchanged=False),
    Parking(asleep=frozenset({"gpu"}), unchanged=False),
    Parking(asleep=frozenset({"gpu"}), unchanged=True),
)


class Account:
    """An account with the stack's cluster, its node groups and instances, and the outputs of its last `up`."""

    def __init__(self, plan: Any, last: Any = None, groups: Any = (), instances: Any = ()) -> None:
        self.plan = plan
        self.asked: list[Any] = []
        """Arguments of each search for instances."""
        outputs = {} if last is None else {"parking": {"plan": last[0], "parked": last[1]}}
        self.answers = {
            "pulumi:pulumi:readStackOutputs": lambda asked: {"outputs": outputs},
            "aws:eks/getClusters:getClusters": lambda asked: {"names": [f"tandem-{plan.stack}"]},
            "aws:eks/getNodeGroups:getNodeGroups": lambda asked: {"names": [str(one) for one in range(len(groups))]},
            "aws:eks/getNodeGroup:getNodeGroup": lambda asked: groups[int(asked.args["nodeGroupName"])],
            "aws:ec2/getInstances:getInstances": self.instances,
        }
        self.ids = [*instances]

    def instances(self, asked: Any) -> dict[str, Any]:
        self.asked.append(asked.args)
        return {"ids": self.ids}

    def find(self) -> tuple[Parking, Graph]:
        found: list[Parking] = []
        graph = run(
            lambda: found.append(find_parking(self.plan, aws.Provider("p", region="us-east-1"))),
            project=PROJECT,
            stack=self.plan.stack,
            cloud=StrictCloud(answers=self.answers),
        )
        return found[0], graph


def group(nodes: int, labels: dict[str, Any] = GPU) -> dict[str, Any]:
    return {**labels, "scalingConfigs": [{"desiredSize": nodes, "maxSize": 1, "minSize": 0}]}


@pytest.mark.parametrize(
    ("last", "groups", "expected"),
    [
        (None, [group(0)], AWAKE),
        (("same", []), [group(1)], Parking(unchanged=True)),
        (("same", []), [group(0)], Parking(unchanged=True)),
        (("other", []), [group(0)], ASLEEP),
        (("other", []), [group(1)], AWAKE),
        (("same", ["gpu"]), [group(0)], BEFORE),
        (("same", ["gpu"]), [group(1)], AWAKE),
        (("other", ["gpu"]), [group(0), group(0)], ASLEEP),
        (("other", ["gpu"]), [group(0), group(1)], AWAKE),
        (("other", ["gpu"]), [group(1), group(0)], AWAKE),
        (("other", ["gpu"]), [group(0), group(1, OTHER)], ASLEEP),
    ],
)
def test_a_pool_is_asleep_while_none_of_its_node_groups_has_a_node(last: Any, groups: Any, expected: Parking) -> None:
    plan = plan_of("scheduled")
    if last:
        last = (digest(plan) if last[0] == "same" else "other", last[1])
    assert Account(plan, last, groups).find()[0] == expected


def test_a_stack_whose_cluster_is_missing_is_deployed_as_awake() -> None:
    account = Account(plan_of("scheduled"), ("other", ["gpu"]), [group(0)])
    account.answers["aws:eks/getClusters:getClusters"] = lambda asked: {"names": ["another"]}
    assert account.find()[0] == AWAKE


@pytest.mark.parametrize(("instances", "expected"), [([], ASLEEP), (["i-1"], AWAKE)])
def test_a_pool_of_karpenter_is_asleep_while_it_has_no_instance(instances: list[str], expected: Parking) -> None:
    account = Account(plan_of("karpenter-scheduled"), ("other", []), instances=instances)
    assert account.find()[0] == expected
    [asked] = account.asked
    tags = {"karpenter.sh/nodepool": "gpu", "kubernetes.io/cluster/tandem-karpenter": "owned"}
    assert (asked["instanceTags"], asked["instanceStateNames"]) == (tags, ["pending", "running"])


@pytest.mark.parametrize(
    ("stack", "groups", "before", "warning"),
    [
        ("timeslice", [group(0)], [], "no schedule wakes it any more: .* run `pulumi up --refresh`"),
        ("timeslice", [group(0)], ["gpu"], ""),
        ("timeslice", [group(1)], [], ""),
        ("karpenter", [], [], "kubectl --namespace ollama scale deployment llama2-7b mistral-7b --replicas=1`"),
        ("karpenter", [], ["gpu"], ""),
    ],
)
def test_a_pool_that_was_asleep_and_lost_its_schedule_is_named_unless_this_up_starts_it(
    stack: str, groups: Any, before: list[str], warning: str
) -> None:
    found, graph = Account(plan_of(stack), ("other", before), groups).find()
    assert found == AWAKE
    assert len(graph.logs) == bool(warning)
    for log in graph.logs:
        assert re.search(warning, log.message)


def test_the_digest_changes_with_the_stack_file_and_with_a_version_and_with_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = plan_of("scheduled")
    first = digest(plan)
    assert record(plan, BEFORE)["plan"] == first == digest(judge_with("scheduled", {}).plan())
    models = [{"name": "llama2:7b", "context": 2048}, {"name": "mistral:7b"}]
    assert digest(judge_with("scheduled", {"models": models}).plan()) != first
    monkeypatch.setattr(versions, "__file__", "elsewhere")
    assert digest(plan) == first
    monkeypatch.setattr(versions, "PROBER_IMAGE", "python:next")
    assert digest(plan) != first


@pytest.mark.parametrize(
    ("provisioner", "capacity", "importance", "is_packed", "runs_asleep"),
    [
        # Karpenter removes a node that has become empty, and on-demand nodes cost the most.
        ("karpenter", "on-demand", "high", True, False),
        ("karpenter", "on-demand", None, False, False),
        ("karpenter", "spot", "high", False, False),
        # A wake starts nodes of a node group, and the Deployments of Karpenter's pools.
        ("node-group", "on-demand", "high", False, True),
    ],
)
def test_a_model_follows_the_provisioner_of_its_nodes(
    provisioner: str, capacity: str, importance: str | None, is_packed: bool, runs_asleep: bool
) -> None:
    sections = {
        "budget": {},
        "gpu-nodes": {"provisioner": provisioner, "capacity": capacity},
        "models": [{"name": "llama2:7b", "context": 2048, "importance": importance}],
    }
    plan = judge_with("timeslice", sections).plan()
    [fit] = plan.verdict.fits
    awake, asleep = (describe_model(fit, plan, {}, pools) for pools in ([], ["gpu"]))
    assert (awake.packed, awake.running, asleep.running) == (is_packed, True, runs_asleep)


@pytest.mark.parametrize("is_scheduled", [True, False])
def test_outputs_that_cannot_be_read_matter_only_with_a_schedule(
    is_scheduled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(token: str, args: object) -> None:
        raise RuntimeError("no outputs")

    said: list[str] = []
    monkeypatch.setattr("pulumi.runtime.invoke", refuse)
    monkeypatch.setattr("pulumi.log.warn", said.append)
    found = _read_last(is_scheduled=is_scheduled)
    assert found == (ParkingOutputs(plan="", parked=()) if is_scheduled else None)
    assert said == ["the outputs of the last `up` are unknown: no outputs"] * is_scheduled
