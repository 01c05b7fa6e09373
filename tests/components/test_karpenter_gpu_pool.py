"""KarpenterGpuPool: permissions as in the official template, and manifests that Karpenter handles as intended."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.iam import document
from components.karpenter_gpu_pool import KarpenterPool
from components.karpenter_gpu_pool.manifests import check, node_pool
from components.karpenter_gpu_pool.permissions import PARTS, Scope, queue_statements
from sharing.modes.modes import Mig, Mps, TimeSlicing

OFFICIAL = Path(__file__).parent / "karpenter-iam-1.14.1.json"
PLACES = [("aws", "us-east-1"), ("aws-us-gov", "us-gov-west-1"), ("aws-cn", "cn-north-1")]
ONE = KarpenterPool(name="gpu", sharing=TimeSlicing(replicas=4))


def scope(partition: str, region: str, cluster: str = "demo") -> Scope:
    return Scope(
        cluster=cluster,
        node_role_arn=f"arn:{partition}:iam::123456789012:role/nodes",
        queue_arn=f"arn:{partition}:sqs:{region}:123456789012:interruptions",
    )


def listed(statement: dict[str, Any]) -> dict[str, Any]:
    """A statement in which a value equals a list with this value, and the order of lists does not matter."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        return sorted(value if isinstance(value, list) else [value])

    return {key: value if key in ("Sid", "Effect") else plain(value) for key, value in statement.items()}


def official(partition: str, region: str) -> dict[str, dict[str, Any]]:
    """Every statement of the official policies for a cluster, by its Sid."""
    text, here = OFFICIAL.read_text(encoding="utf-8"), scope(partition, region)
    for placeholder, value in {
        "${AWS::Partition}": partition,
        "${AWS::Region}": region,
        "${AWS::AccountId}": "123456789012",
        "${ClusterName}": here.cluster,
        "${KarpenterNodeRole.Arn}": here.node_role_arn,
        "${KarpenterInterruptionQueue.Arn}": here.queue_arn,
    }.items():
        text = text.replace(placeholder, value)
    assert "${" not in text
    policies = json.loads(text)["policies"].values()
    return {one["Sid"]: listed(one) for policy in policies for one in policy["Statement"]}


@pytest.mark.parametrize(("partition", "region"), PLACES)
def test_the_controller_has_exactly_the_permissions_of_the_official_template(partition: str, region: str) -> None:
    ours = [listed(one) for part in PARTS.values() for one in part(scope(partition, region))]
    assert {one["Sid"]: one for one in ours} == official(partition, region)
    assert len(ours) == 18


def test_each_policy_fits_iams_limit_with_the_longest_names() -> None:
    here = scope("aws-us-gov", "us-gov-west-1", "c" * 48)
    for part, statements in PARTS.items():
        text = document(statements(here))
        assert " " not in text.replace("EKS ", ""), part
        assert len(text) <= 6144, part


def test_only_eventbridge_can_send_to_the_queue_for_our_rules_and_over_tls() -> None:
    rules = ["arn:aws:events:us-east-1:123456789012:rule/spot", "arn:aws:events:us-east-1:123456789012:rule/state"]
    allowed, denied = queue_statements("arn:aws:sqs:us-east-1:123456789012:q", rules)
    assert (allowed["Effect"], allowed["Action"]) == ("Allow", "sqs:SendMessage")
    assert allowed["Principal"] == {"Service": "events.amazonaws.com"}
    assert allowed["Condition"] == {
        "StringEquals": {"aws:SourceAccount": "123456789012"},
        "ArnEquals": {"aws:SourceArn": rules},
    }
    assert (denied["Effect"], denied["Principal"], denied["Action"]) == ("Deny", "*", "sqs:*")
    assert denied["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert {one["Resource"] for one in (allowed, denied)} == {"arn:aws:sqs:us-east-1:123456789012:q"}


def requirements(pool: KarpenterPool) -> dict[str, list[str]]:
    found = node_pool(pool)["spec"]["template"]["spec"]["requirements"]
    assert {one["operator"] for one in found} == {"In"}
    return {one["key"]: one["values"] for one in found}


@pytest.mark.real_world(
    behaviour="Karpenter launches on-demand nodes if allowed and spot is unavailable. It only records an event.",
    source="karpenter-provider-aws 1.14.1, pkg/providers/instance/instance.go (MarkCapacityTypeUnavailable)",
)
def test_a_pool_launches_only_its_types_and_on_demand_only_if_that_is_allowed() -> None:
    pool = replace(ONE, instance_types=("g4dn.xlarge", "g4dn.12xlarge"))
    assert requirements(pool) == {
        "kubernetes.io/os": ["linux"],
        "kubernetes.io/arch": ["amd64"],
        "karpenter.sh/capacity-type": ["spot"],
        "node.kubernetes.io/instance-type": ["g4dn.xlarge", "g4dn.12xlarge"],
        "karpenter.k8s.aws/instance-gpu-count": ["1", "4"],
    }
    for pool, bought in (
        (replace(ONE, on_demand_fallback=True), ["spot", "on-demand"]),
        (replace(ONE, capacity="on-demand"), ["on-demand"]),
        (replace(ONE, capacity="on-demand", on_demand_fallback=True), ["on-demand"]),
    ):
        assert requirements(pool)["karpenter.sh/capacity-type"] == bought
    assert requirements(replace(ONE, instance_types=("g5g.xlarge",)))["kubernetes.io/arch"] == ["arm64"]


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        (replace(ONE, sharing=Mig()), "MIG may leave nodes of Karpenter unready"),
        (replace(ONE, sharing=Mps(replicas=17), instance_types=("p3.2xlarge",)), "'gpu': .*at most 16 for MPS"),
    ],
)
def test_settings_that_karpenter_would_silently_ignore_are_refused(pool: KarpenterPool, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check([pool])
