"""Karpenter's objects in the emulated cloud: their order. tests/cluster/test_karpenter.py runs the real core."""

from collections.abc import Callable
from typing import Any

import pytest

from sandbox.world import tokens
from tests.sandbox.karpenter_pieces import Karpenter
from tests.sandbox.world_pieces import NODE_POLICIES, TAINT, Account, meta, refused

WAITS = {"pulumi.com/waitFor": "condition=Ready"}


@pytest.fixture
def account() -> Karpenter:
    return Karpenter()


@pytest.fixture
def ready(account: Karpenter) -> Karpenter:
    """A pool of one node with two shares, which a model has brought."""
    account.node_class()
    account.pool()
    assert account.own == [], "no pod waits for a node"
    account.model()
    return account


def test_a_pool_has_a_node_with_all_of_its_resources(ready: Karpenter) -> None:
    [instance] = ready.of(tokens.INSTANCE, "karpenter")
    assert instance.owner == (tokens.NODE_POOL, "gpu")
    assert instance.inputs["instanceType"] == "g4dn.xlarge"
    [interface] = ready.of(tokens.INTERFACE, "karpenter")
    assert interface.inputs["instance"] == instance.id
    assert interface.inputs["securityGroups"] == ["sg-1"]
    [disk] = ready.of(tokens.VOLUME, "karpenter")
    assert disk.inputs["instance"] == instance.id
    [node] = ready.of(tokens.NODE, "karpenter")
    assert node.outputs["metadata"]["labels"]["tandem/pool"] == "gpu"
    assert node.inputs == {}
    assert node.outputs["spec"]["taints"] == [{**TAINT, "effect": "NoSchedule"}]
    [pod] = [one for one in ready.of(tokens.POD) if one.name == "m-0"]
    assert pod.outputs["node"] == node.id


def test_pods_bring_nodes_only_of_pools_on_which_they_may_stay(ready: Karpenter) -> None:
    template = ready.outputs(tokens.NODE_POOL, "gpu")["spec"]["template"]
    taint = {"key": "tandem/mode", "value": "mps", "effect": "NoExecute"}
    other = {**template, "spec": {**template["spec"], "taints": [*template["spec"]["taints"], taint]}}
    ready.drop(tokens.NODE_POOL, "gpu")
    ready.make(tokens.NODE_POOL, metadata=meta("gpu"), spec={"template": other, "limits": {"nodes": "1"}})
    assert ready.own == [], "the model's pod waits"
    values = ready.outputs(tokens.RELEASE, "default/m")["values"]
    ready.change(tokens.RELEASE, "default/m", values={**values, "tolerations": [{**taint, "operator": "Equal"}]})
    ready.drop(tokens.NODE_POOL, "gpu")
    assert ready.own == []
    ready.make(tokens.NODE_POOL, metadata=meta("gpu"), spec={"template": other, "limits": {"nodes": "1"}})
    assert len(ready.own) == 1, "no call waits, but a pod"


def test_a_pool_without_its_class_has_no_nodes(account: Karpenter) -> None:
    account.pool()
    with refused("Timeout", "node affinity"):
        account.model()
    account.node_class()
    account.model()
    assert len(account.own) == 1


def test_instances_of_a_pool_are_found_by_its_tag(ready: Karpenter) -> None:
    """Karpenter sets it on each (karpenter-provider-aws v1.14.1 pkg/apis/v1/labels.go)."""

    def found(pool: str) -> list[str]:
        args = {"instanceTags": {"karpenter.sh/nodepool": pool}}
        answer: dict[str, Any] = ready.world.invoke("aws:ec2/getInstances:getInstances", args, {})
        return list(answer["ids"])

    assert found("gpu") == ready.own
    assert found("other") == []


def without_controller(account: Karpenter) -> None:
    account.drop(tokens.RELEASE, account.controller)


def without_identity(account: Karpenter) -> None:
    account.drop(tokens.POD_IDENTITY, account.identity)


def in_another_namespace(account: Karpenter) -> None:
    account.drop(tokens.POD_IDENTITY, account.identity)
    who = {"clusterName": "c", "namespace": "other", "serviceAccount": "karpenter"}
    account.make(tokens.POD_IDENTITY, **who, roleArn=account.outputs(tokens.ROLE, "controller")["arn"])


def without_policy(part: str) -> Callable[[Karpenter], None]:
    return lambda account: account.drop(tokens.ATTACHED_POLICY, account.attached[part])


AGENT = "eks-pod-identity-agent"
LACKING: list[tuple[Callable[[Karpenter], None], str]] = [
    (without_controller, "Karpenter's controller is not installed"),
    (without_identity, "gets no credentials: no association for kube-system/karpenter"),
    (in_another_namespace, "gets no credentials: no association for kube-system/karpenter"),
    (lambda account: account.drop(tokens.ADDON, f"c:{AGENT}"), f"gets no credentials: the add-on {AGENT}"),
    (lambda account: account.drop(tokens.ADDON, "c:coredns"), "cannot resolve names: the add-on coredns"),
    (without_policy("nodes"), "not authorized to perform ec2:"),
    (without_policy("account"), "not authorized to perform iam:"),
]


@pytest.mark.parametrize(("take_away", "words"), LACKING)
def test_a_pool_launches_and_terminates_nodes_only_while_the_controller_can_work(
    ready: Karpenter, take_away: Any, words: str
) -> None:
    take_away(ready)
    with refused("Timeout", f"NodePool gpu is Terminating.*{words}"):
        ready.drop(tokens.NODE_POOL, "gpu")
    spec = ready.outputs(tokens.NODE_POOL, "gpu")["spec"]
    ready.change(tokens.NODE_POOL, "gpu", spec={**spec, "limits": {"nodes": "2"}})
    with refused("Timeout", "Insufficient nvidia.com/gpu"):
        ready.model("more", replicaCount=2)
    assert len(ready.own) == 1


def test_without_a_controller_nothing_is_ready_and_neither_a_class_nor_the_crds_can_be_deleted(
    account: Karpenter,
) -> None:
    account.node_class()
    without_controller(account)
    for token in (tokens.NODE_CLASS, tokens.NODE_POOL, tokens.NODE_OVERLAY):
        with refused("Timeout", "waiting for the condition Ready: Karpenter's controller is not installed"):
            account.make(token, metadata=meta("later", annotations=WAITS), spec={})
        assert account.world.read(token, "later") is None
    with refused("Timeout", "EC2NodeClass gpu is Terminating: its finalizer waits"):
        account.drop(tokens.NODE_CLASS, "gpu")
    with refused("Timeout", "holds the CRD"):
        account.drop(tokens.RELEASE, account.crds)
    with refused("NotFound", "release: not found"):
        account.drop(tokens.RELEASE, account.crds)
    assert account.of(tokens.CRD), "the record is deleted, but the CRDs stay"


@pytest.mark.real_world(
    behaviour="Deleting a NodePool deletes its nodes", source="karpenter.sh/docs/concepts/disruption/#manual-methods"
)
def test_deleting_a_pool_deletes_its_nodes_and_without_nodes_needs_no_controller(ready: Karpenter) -> None:
    ready.drop(tokens.NODE_POOL, "gpu")
    for token in (tokens.INSTANCE, tokens.INTERFACE, tokens.VOLUME):
        assert ready.of(token, "karpenter") == []
    without_controller(ready)
    ready.pool()
    ready.drop(tokens.NODE_POOL, "gpu")


def test_instances_outlive_a_cluster_that_is_deleted_first(ready: Karpenter) -> None:
    ready.drop(tokens.NODE_GROUP, "c:system")
    ready.drop(tokens.CLUSTER, "c")
    left = {one.type for one in ready.world.leftovers([]) if one.made_by == "karpenter"}
    assert left == {tokens.INSTANCE, tokens.INTERFACE, tokens.VOLUME, tokens.PROFILE}


def test_a_class_makes_an_instance_profile_that_holds_the_role(account: Karpenter) -> None:
    without_controller(account)
    account.node_class()
    account.make(tokens.NODE_CLASS, metadata=meta("of-no-role"), spec={"role": "absent"})
    assert account.of(tokens.PROFILE) == []
    account.controllers()
    [profile] = account.of(tokens.PROFILE)
    account.drop(tokens.NODE_CLASS, "of-no-role")
    assert profile.inputs["role"] == "karpenters-nodes"
    for policy in NODE_POLICIES:
        account.drop(tokens.ATTACHED_POLICY, f"karpenters-nodes/arn:aws:iam::aws:policy/{policy}")
    with refused("DeleteConflict", "instance profile"):
        account.drop(tokens.ROLE, "karpenters-nodes")
    account.drop(tokens.NODE_CLASS, "gpu")
    assert account.of(tokens.PROFILE) == []
    account.drop(tokens.ROLE, "karpenters-nodes")


def test_a_class_waits_for_the_last_node_of_its_pools(ready: Karpenter) -> None:
    with refused("Timeout", "waits for the nodes of gpu"):
        ready.drop(tokens.NODE_CLASS, "gpu")
    other = ready.make(tokens.NODE_CLASS, metadata=meta("other"), spec={})
    ready.drop(tokens.NODE_CLASS, other)
    ready.drop(tokens.NODE_POOL, "gpu")
    ready.drop(tokens.NODE_CLASS, "gpu")


@pytest.mark.real_world(
    behaviour="Deleting a CRD deletes every object of its kind",
    source="kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/",
)
def test_deleting_crds_deletes_all_objects_of_their_kinds(ready: Karpenter) -> None:
    ready.drop(tokens.RELEASE, ready.crds)
    left = [ready.of(token) for token in (tokens.NODE_POOL, tokens.NODE_CLASS, tokens.PROFILE, tokens.CRD)]
    assert (ready.own, [crd.name for crd in left.pop()], left) == ([], NFD, [[], [], []])


@pytest.mark.parametrize(
    ("chart", "kinds", "left"),
    # Helm deletes CRDs that are templates, and keeps those in `crds/` (helm.sh/docs, custom_resource_definitions).
    [
        ("karpenter-crd", {"NodePool", "NodeOverlay", "EC2NodeClass"}, 0),
        ("keda", {"ScaledObject"}, 0),
        ("keda-add-ons-http", {"InterceptorRoute"}, 0),
        ("gpu-operator", {"ClusterPolicy", "NVIDIADriver"}, 2),
    ],
)
def test_a_chart_brings_the_kinds_that_its_documentation_names(chart: str, kinds: set[str], left: int) -> None:
    account = Account()
    account.cluster()
    account.nodes(count=2)
    account.discovery()
    if chart == "keda-add-ons-http":
        account.release("keda", "keda")
    before = {crd.id for crd in account.of(tokens.CRD)}
    release = account.release("some", chart)
    brought = [crd for crd in account.of(tokens.CRD) if crd.id not in before]
    assert {crd.inputs["spec"]["names"]["kind"] for crd in brought} == kinds
    account.drop(tokens.RELEASE, release)
    assert len(account.of(tokens.CRD)) == len(before) + left


NFD = [f"{kind}.nfd.k8s-sigs.io" for kind in ("nodefeatures", "nodefeaturegroups", "nodefeaturerules")]
