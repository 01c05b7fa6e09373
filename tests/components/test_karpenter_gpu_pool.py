"""KarpenterGpuPool: permissions as in the official documents, manifests that Karpenter takes as they are meant."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pulumi
import pytest

from components.karpenter_gpu_pool import KarpenterPool, values
from components.karpenter_gpu_pool.manifests import check, node_class, node_overlays, node_pool
from components.karpenter_gpu_pool.permissions import PARTS, Scope, document, queue_statements
from sandbox.graph import Graph
from sandbox.preview.program import run
from sharing import versions
from sharing.modes import Mps, TimeSlicing

Builder = Callable[[str, pulumi.ResourceOptions | None], pulumi.ComponentResource]
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
    """A statement in which one and a list of one are the same, and no list has an order."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        return sorted(value if isinstance(value, list) else [value])

    return {key: value if key in ("Sid", "Effect") else plain(value) for key, value in statement.items()}


def official(here: Scope) -> dict[str, dict[str, Any]]:
    """Every statement of the official policies, by its name, for a cluster."""
    text = OFFICIAL.read_text(encoding="utf-8")
    for placeholder, value in {
        "${AWS::Partition}": here.partition,
        "${AWS::Region}": here.region,
        "${AWS::AccountId}": here.account,
        "${ClusterName}": here.cluster,
        "${KarpenterNodeRole.Arn}": here.node_role_arn,
        "${KarpenterInterruptionQueue.Arn}": here.queue_arn,
    }.items():
        text = text.replace(placeholder, value)
    assert "${" not in text
    policies = json.loads(text)["policies"].values()
    return {one["Sid"]: listed(one) for policy in policies for one in policy["Statement"]}


@pytest.mark.parametrize(("partition", "region"), PLACES)
def test_the_controller_may_do_what_the_official_documents_allow_and_nothing_else(partition: str, region: str) -> None:
    here = scope(partition, region)
    ours = [listed(one) for part in PARTS.values() for one in part(here)]
    assert {one["Sid"]: one for one in ours} == official(here)
    assert len(ours) == len(official(here)) == 18


def test_each_policy_keeps_within_iams_size_with_the_longest_names() -> None:
    here = scope("aws-us-gov", "us-gov-west-1", "c" * 48)
    for part, statements in PARTS.items():
        text = document(statements(here))
        assert " " not in text.replace("EKS ", ""), part
        assert len(text) <= 6144, part


def test_only_eventbridge_writes_to_the_queue_for_our_rules_and_nobody_in_the_clear() -> None:
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


# Overlays.


def test_there_is_an_overlay_for_each_number_of_gpus_scoped_to_its_pool_and_types() -> None:
    pool = replace(ONE, instance_types=("g4dn.12xlarge", "g4dn.xlarge", "g4dn.metal", "g4dn.2xlarge"))
    overlays = node_overlays(pool, first_weight=7)
    assert [one["metadata"]["name"] for one in overlays] == ["gpu-1-gpu", "gpu-4-gpu", "gpu-8-gpu"]
    assert [one["spec"]["weight"] for one in overlays] == [7, 8, 9]
    assert [one["spec"]["capacity"]["nvidia.com/gpu"] for one in overlays] == ["4", "16", "32"]
    types = [["g4dn.xlarge", "g4dn.2xlarge"], ["g4dn.12xlarge"], ["g4dn.metal"]]
    for overlay, names in zip(overlays, types, strict=True):
        assert overlay["spec"]["requirements"] == [
            {"key": "karpenter.sh/nodepool", "operator": "In", "values": ["gpu"]},
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": names},
        ]


# NodePool.


def requirements(pool: KarpenterPool) -> dict[str, list[str]]:
    found = node_pool(pool)["spec"]["template"]["spec"]["requirements"]
    assert {one["operator"] for one in found} == {"In"}
    return {one["key"]: one["values"] for one in found}


@pytest.mark.real_world(
    behaviour="Karpenter buys on-demand where it is allowed and spot is not to be had, with no more than an event.",
    source="karpenter-provider-aws 1.14.1, pkg/providers/instance/instance.go (MarkCapacityTypeUnavailable)",
)
def test_a_pool_takes_its_types_alone_and_buys_on_demand_only_where_that_is_allowed() -> None:
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


def test_a_slice_of_a_card_is_asked_for_by_the_count_that_ec2_reports() -> None:
    assert requirements(replace(ONE, instance_types=("g6f.large",)))["karpenter.k8s.aws/instance-gpu-count"] == ["0"]


def test_a_pool_with_a_volume_stays_in_its_zone() -> None:
    assert "topology.kubernetes.io/zone" not in requirements(ONE)
    assert requirements(replace(ONE, zone="us-east-1a"))["topology.kubernetes.io/zone"] == ["us-east-1a"]


def test_nodes_are_limited_by_number_and_a_loaded_model_is_left_alone() -> None:
    spec = node_pool(replace(ONE, max_nodes=3))["spec"]
    assert spec["limits"] == {"nodes": "3", "nvidia.com/gpu": "12"}
    assert spec["disruption"] == {
        "consolidationPolicy": "WhenEmpty",
        "consolidateAfter": "10m",
        "budgets": [{"nodes": "1"}],
    }
    assert spec["template"]["spec"]["expireAfter"] == "720h"
    assert spec["template"]["spec"]["terminationGracePeriod"] == "10m"


def test_nodes_have_the_labels_and_taints_of_a_node_groups() -> None:
    template = node_pool(ONE)["spec"]["template"]
    assert template["metadata"]["labels"] == {
        "tandem/pool": "gpu",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.deploy.operands": "false",
    }
    assert template["spec"]["taints"] == [
        {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
        {"key": "tandem/mode", "value": "timeslice-4", "effect": "NoExecute"},
    ]


def test_the_mps_daemon_finds_its_label_on_a_new_node() -> None:
    labels = node_pool(replace(ONE, sharing=Mps()))["spec"]["template"]["metadata"]["labels"]
    assert labels["nvidia.com/mps.capable"] == "true"


# EC2NodeClass.


def spec_of(pool: KarpenterPool) -> dict[str, Any]:
    manifest = node_class(
        pool, role="nodes", subnet_ids=["subnet-1", "subnet-2"], security_group_id="sg-1", tags={"team": "ml"}
    )
    spec: dict[str, Any] = manifest["spec"]
    return spec


def test_the_image_is_pinned_and_everything_is_named_by_its_id() -> None:
    spec = spec_of(ONE)
    assert spec["role"] == "nodes"
    assert spec["amiSelectorTerms"] == [{"alias": f"al2023@v{versions.AMI_DATE}"}]
    assert len(spec["amiSelectorTerms"][0]["alias"]) <= 30
    assert spec["subnetSelectorTerms"] == [{"id": "subnet-1"}, {"id": "subnet-2"}]
    assert spec["securityGroupSelectorTerms"] == [{"id": "sg-1"}]
    assert spec["tags"] == {"team": "ml"}


def test_the_disk_is_encrypted_and_the_metadata_is_out_of_reach_of_pods() -> None:
    spec = spec_of(replace(ONE, volume_gib=150))
    [disk] = spec["blockDeviceMappings"]
    assert disk["deviceName"] == "/dev/xvda"
    assert disk["ebs"] == {"volumeSize": "150Gi", "volumeType": "gp3", "encrypted": True, "deleteOnTermination": True}
    assert spec["metadataOptions"] == {
        "httpEndpoint": "enabled",
        "httpTokens": "required",
        "httpPutResponseHopLimit": 1,
    }


@pytest.mark.parametrize(
    ("types", "policy"), [(("g4dn.xlarge", "g4dn.metal"), "RAID0"), (("g5g.xlarge",), None), (("p3.2xlarge",), None)]
)
def test_local_disks_are_used_where_every_type_has_them(types: tuple[str, ...], policy: str | None) -> None:
    assert spec_of(replace(ONE, instance_types=types)).get("instanceStorePolicy") == policy


@pytest.mark.parametrize("kind", [node_pool, lambda pool: node_overlays(pool)[0]])
def test_pulumi_waits_until_karpenter_has_taken_an_object_in(kind: Callable[[KarpenterPool], dict[str, Any]]) -> None:
    assert kind(ONE)["metadata"]["annotations"] == {"pulumi.com/waitFor": "condition=Ready"}


# Refused.


class Partitioned(TimeSlicing):
    """A mode that needs its cards cut."""

    needs_mig_manager: ClassVar[bool] = True


@pytest.mark.parametrize(
    ("pools", "tags", "message"),
    [
        ([], {}, "at least one pool"),
        ([ONE, replace(ONE, capacity="on-demand")], {}, r"different names.*\['gpu', 'gpu'\]"),
        ([ONE], {"karpenter.sh/nodepool": "x"}, "the tag 'karpenter.sh/nodepool' is Karpenter's own"),
        ([ONE], {"kubernetes.io/cluster/demo": "owned"}, "is Karpenter's own"),
        ([replace(ONE, sharing=Partitioned())], {}, "are not partitioned"),
        (
            [replace(ONE, sharing=Mps(replicas=17), instance_types=("p3.2xlarge",))],
            {},
            "'gpu': .*at most 16 MPS clients",
        ),
    ],
)
def test_what_karpenter_would_take_in_silence_is_refused(
    pools: list[KarpenterPool], tags: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        check(pools, tags)


# The component.


@pytest.fixture
def graph(builders: dict[str, Builder]) -> Graph:
    return run(lambda: builders["KarpenterGpuPool"]("k", None), project="test", stack="test")


def test_several_pools_have_overlays_of_different_weights(graph: Graph) -> None:
    overlays = graph.of_type("kubernetes:karpenter.sh/v1alpha1:NodeOverlay")
    assert sorted(one.inputs["spec"]["weight"] for one in overlays) == [1, 2, 3]
    assert {one.inputs["metadata"]["name"] for one in overlays} == {"spot-1-gpu", "spot-4-gpu", "sure-1-gpu"}


def test_the_gate_is_on_and_controllers_may_stand_in_one_zone() -> None:
    told = values("demo", "interruptions", "eu-west-1", 1)
    assert told["replicas"] == 1
    assert told["settings"]["featureGates"] == {"nodeOverlay": True}
    assert told["settings"]["interruptionQueue"] == "interruptions"
    assert told["controller"]["env"] == [{"name": "AWS_REGION", "value": "eu-west-1"}]
    assert [one["whenUnsatisfiable"] for one in told["topologySpreadConstraints"]] == ["ScheduleAnyway"]


def test_the_controller_learns_region_queue_and_cluster_from_what_was_made(graph: Graph) -> None:
    release = graph.named("k-controller", "kubernetes:helm.sh/v3:Release").inputs
    assert release["values"]["settings"]["clusterName"] == "cluster"
    assert release["values"]["settings"]["interruptionQueue"] == graph.named("k-interruptions").outputs["name"]
    assert release["values"]["controller"]["env"] == [{"name": "AWS_REGION", "value": "us-east-1"}]
    assert (release["name"], release["namespace"], release["skipCrds"]) == ("karpenter", "kube-system", True)
    identity = graph.named("k-controller-identity").inputs
    assert (identity["namespace"], identity["serviceAccount"]) == ("kube-system", "karpenter")


def test_five_kinds_of_event_reach_the_queue(graph: Graph) -> None:
    rules = {
        one.inputs["eventPattern"]: one.outputs["name"] for one in graph.of_type("aws:cloudwatch/eventRule:EventRule")
    }
    kinds = {detail for text in rules for detail in json.loads(text)["detail-type"]}
    assert kinds == {
        "AWS Health Event",
        "EC2 Spot Instance Interruption Warning",
        "EC2 Instance Rebalance Recommendation",
        "EC2 Instance State-change Notification",
        "EC2 Capacity Reservation Instance Interruption Warning",
    }
    targets = graph.of_type("aws:cloudwatch/eventTarget:EventTarget")
    assert {one.inputs["rule"] for one in targets} == set(rules.values())
    assert {one.inputs["arn"] for one in targets} == {graph.named("k-interruptions").outputs["arn"]}
    policy = json.loads(graph.named("k-interruptions-policy").inputs["policy"])
    may_write = policy["Statement"][0]["Condition"]["ArnEquals"]["aws:SourceArn"]
    assert sorted(may_write) == sorted(
        one.outputs["arn"] for one in graph.of_type("aws:cloudwatch/eventRule:EventRule")
    )


def test_nodes_join_with_a_role_of_their_own(graph: Graph) -> None:
    role = graph.named("k-nodes", "aws:iam/role:Role")
    entry = graph.named("k-nodes-entry").inputs
    assert (entry["principalArn"], entry["type"]) == (role.outputs["arn"], "EC2_LINUX")
    for kind in graph.of_type("kubernetes:karpenter.k8s.aws/v1:EC2NodeClass"):
        assert kind.inputs["spec"]["role"] == role.outputs["name"]
        assert kind.inputs["spec"]["subnetSelectorTerms"] == [{"id": "subnet-1"}]


BEFORE = [
    ("k-controller", "k-crds"),
    ("k-controller", "k-controller-identity"),
    ("k-controller", "k-controller-nodes-attached"),
    ("k-controller", "k-controller-account-attached"),
    ("k-spot-class", "k-controller"),
    ("k-spot-class", "k-nodes-entry"),
    ("k-spot-1-gpu", "k-controller"),
    ("k-spot-pool", "k-controller"),
    ("k-spot-pool", "k-spot-class"),
    ("k-spot-pool", "k-spot-1-gpu"),
    ("k-spot-pool", "k-spot-4-gpu"),
    ("k-spot-pool", "k-nodes-entry"),
    ("k-spot-pool", "k-nodes-AmazonEKSWorkerNodePolicy"),
]


@pytest.mark.parametrize(("later", "earlier"), BEFORE)
def test_what_goes_first_comes_last(graph: Graph, later: str, earlier: str) -> None:
    before: set[str] = {*graph.named(later).dependencies}
    while more := {one for urn in before for one in graph[urn].dependencies} - before:
        before |= more
    assert graph.named(earlier).urn in before


def test_a_pool_has_the_time_that_its_nodes_need_to_go(graph: Graph) -> None:
    for pool in graph.of_type("kubernetes:karpenter.sh/v1:NodePool"):
        assert pool.options["customTimeouts"]["delete"] == "30m"
