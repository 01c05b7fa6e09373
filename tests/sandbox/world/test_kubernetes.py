"""Rules of Kubernetes and Helm: each refuses a call only while its reason exists."""

import json
import threading
from typing import Any

import pytest

from sandbox.world import CloudError, IncompleteError, tokens
from tests.sandbox.outside import Outside
from tests.sandbox.world_pieces import GPU_LABELS, SHARED, TAINT, Account, meta, refused

TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists"}


# Reachable API servers.


def test_no_server_answers_before_the_cluster_exists() -> None:
    account = Account()
    with refused("Unreachable"):
        account.make(tokens.NAMESPACE, metadata=meta("n"))
    account.cluster()
    account.make(tokens.NAMESPACE, metadata=meta("n"))


def test_no_server_answers_after_the_cluster_is_deleted(account: Account) -> None:
    namespace = account.make(tokens.NAMESPACE, metadata=meta("n"))
    account.drop(tokens.NODE_GROUP, "c:system")
    account.drop(tokens.CLUSTER, "c")
    for call in (
        lambda: account.drop(tokens.NAMESPACE, namespace),
        lambda: account.world.read(tokens.NAMESPACE, namespace),
        lambda: account.world.update(tokens.NAMESPACE, namespace, {}),
        lambda: account.make(tokens.NAMESPACE, metadata=meta("m")),
    ):
        with refused("Unreachable"):
            call()


def test_a_new_cluster_with_the_same_name_is_a_different_one(account: Account) -> None:
    old = account.provider
    account.drop(tokens.NODE_GROUP, "c:system")
    arn = account.outputs(tokens.CLUSTER, "c")["roleArn"]
    before = account.outputs(tokens.CLUSTER, "c")
    account.drop(tokens.CLUSTER, "c")
    account.make(tokens.CLUSTER, name="c", roleArn=arn, vpcConfig={"subnetIds": account.subnets})
    after = account.outputs(tokens.CLUSTER, "c")
    assert before["endpoint"] != after["endpoint"]
    assert before["vpcConfig"]["clusterSecurityGroupId"] != after["vpcConfig"]["clusterSecurityGroupId"]
    with pytest.raises(CloudError, match="unreachable"):
        account.world.create(tokens.NAMESPACE, "n", {"metadata": meta("n")}, old)


# Objects.


def test_objects_and_releases_need_their_namespace(account: Account) -> None:
    with refused("NotFound", "namespaces"):
        account.make("kubernetes:core/v1:ConfigMap", metadata=meta("a", namespace="n"))
    with refused("NotFound", "namespaces"):
        account.make(tokens.RELEASE, name="r", namespace="n", chart="some")
    account.make(tokens.NAMESPACE, metadata=meta("n"))
    account.make(tokens.RELEASE, name="r", namespace="n", chart="some")
    account.make("kubernetes:core/v1:ConfigMap", metadata=meta("a", namespace="n"))


def test_a_name_is_unique_in_its_namespace(account: Account) -> None:
    account.make(tokens.NAMESPACE, metadata=meta("n"))
    for token, inputs in (
        ("kubernetes:core/v1:ConfigMap", {"metadata": meta("a")}),
        (tokens.RELEASE, {"name": "a", "chart": "some"}),
    ):
        account.make(token, **inputs)
        with refused("AlreadyExists"):
            account.make(token, **inputs)
    account.make("kubernetes:core/v1:ConfigMap", metadata=meta("a", namespace="n"))
    account.make(tokens.RELEASE, name="a", namespace="n", chart="some")


def test_deleting_a_namespace_deletes_its_contents(account: Account) -> None:
    account.make(tokens.NAMESPACE, metadata=meta("n"))
    account.make("kubernetes:core/v1:ConfigMap", metadata=meta("a", namespace="n"))
    release = account.make(tokens.RELEASE, name="r", namespace="n", chart="gpu-operator")
    account.drop(tokens.NAMESPACE, "n")
    assert account.of(tokens.POD) == []
    assert not [one for one in account.world.entities() if one.namespace == "n"]
    with refused("NotFound", "release: not found"):
        account.drop(tokens.RELEASE, release)


def test_kubernetes_keeps_its_own_namespaces(account: Account) -> None:
    account.make(tokens.NAMESPACE, metadata=meta("kube-system"))
    with refused("Forbidden"):
        account.drop(tokens.NAMESPACE, "kube-system")


# Scheduling.


def test_a_release_whose_pods_find_no_node_times_out(account: Account) -> None:
    with refused("Timeout", "node affinity"):
        account.model()
    account.gpu_nodes()
    with refused("Timeout", "Insufficient nvidia.com/gpu"):
        account.model()
    account.device_plugin()
    account.model()


def test_a_release_without_a_free_share_times_out(ready: Account) -> None:
    ready.model("a")
    ready.model("b")
    with refused("Timeout", "1 Insufficient nvidia.com/gpu"):
        ready.model("c")
    ready.drop(tokens.RELEASE, "default/a")
    ready.model("c")


@pytest.mark.real_world(
    behaviour="A Helm release that times out exists and has failed, and the next update repairs it",
    source="pulumi-kubernetes provider/pkg/provider/helm_release.go (partialError)",
)
def test_a_release_that_times_out_exists_and_later_gets_a_free_share(ready: Account) -> None:
    ready.model("a")
    ready.model("b")
    given = {
        "name": "c",
        "namespace": "default",
        "chart": "ollama",
        "values": ready.of(tokens.RELEASE)[-1].inputs["values"],
    }
    with pytest.raises(IncompleteError, match="Insufficient"):
        ready.make(tokens.RELEASE, "c", **given)
    with pytest.raises(IncompleteError, match="Insufficient"):
        ready.world.update(tokens.RELEASE, "default/c", given)
    ready.drop(tokens.RELEASE, "default/a")
    assert all(one.outputs["node"] for one in ready.of(tokens.POD) if one.owner == (tokens.RELEASE, "default/c"))
    ready.world.update(tokens.RELEASE, "default/c", given)
    ready.drop(tokens.RELEASE, "default/c")
    assert not [one for one in ready.of(tokens.POD) if one.owner == (tokens.RELEASE, "default/c")]


def test_a_taint_keeps_out_pods_that_neither_tolerate_nor_request(ready: Account) -> None:
    none: dict[str, Any] = {"ollama": {"gpu": {"enabled": False}}}
    with refused("Timeout", "untolerated taint"):
        ready.model(**none)
    ready.model("tolerates", **none, tolerations=[TOLERATION])
    ready.model("requests")


@pytest.mark.real_world(
    behaviour="A node whose label names another configuration than the plugin's default starts in the default, is "
    "switched by signals, and advertises 0 shares.",
    source="k8s-device-plugin v0.20.0, cmd/config-manager/main.go, SyncableConfig.Get; "
    "NVIDIA/k8s-device-plugin issue 1645; kubelet pkg/kubelet/cm/devicemanager/manager.go, PluginDisconnected",
)
@pytest.mark.parametrize(
    ("default", "label", "values", "shares"),
    [
        ("shared", None, {}, 2),
        ("shared", "shared", {}, 2),
        ("exclusive", None, {}, 1),
        ("mps", None, {}, 3),
        ("mps", "mps", {}, 3),
        ("mps", None, {"gfd": {"enabled": False}}, 0),
        ("mig", None, {}, 1),
        ("shared", "exclusive", {}, 0),
        ("exclusive", "shared", {}, 0),
        ("exclusive", "mps", {}, 0),
        ("shared", "unknown", {}, 0),
        ("unknown", None, {}, 0),
    ],
)
def test_a_node_offers_the_shares_of_the_plugins_default_and_none_if_its_label_names_another(
    account: Account, default: str, label: str | None, values: dict[str, Any], shares: int
) -> None:
    labels = {key: value for key, value in GPU_LABELS.items() if "config" not in key}
    account.gpu_nodes(labels={**labels, **({"nvidia.com/device-plugin.config": label} if label else {})})
    configs = {
        "shared": SHARED,
        "exclusive": {"version": "v1"},
        "mps": {"sharing": {"mps": {"resources": [{"name": "nvidia.com/gpu", "replicas": 3}]}}},
        "mig": {"flags": {"migStrategy": "single"}},
    }
    texts = {key: json.dumps(config) for key, config in configs.items()}
    account.device_plugin(config={"default": default, "map": texts}, **values)
    count = 0
    while count < 9:
        try:
            account.model(f"m{count}")
        except CloudError:
            break
        count += 1
    assert count == shares


def cut_nodes(account: Account, layout: str = "cut") -> None:
    """A node whose GPU the MIG manager partitions by a layout."""
    account.world.sell("g7e.2xlarge", ["us-east-1a", "us-east-1b"])
    account.gpu_nodes(instanceTypes=["g7e.2xlarge"], labels={**GPU_LABELS, "nvidia.com/mig.config": layout})


SINGLE = {"flags": {"migStrategy": "single"}}
MIXED = {"flags": {"migStrategy": "mixed"}}
TURNS = {
    "flags": {"migStrategy": "mixed"},
    "sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/mig-2g.48gb", "replicas": 3}]}},
}
PLAIN = "nvidia.com/gpu"
LARGE, SMALL = "nvidia.com/mig-2g.48gb", "nvidia.com/mig-1g.24gb"


@pytest.mark.parametrize(
    ("layout", "config", "values", "offered"),
    [
        ({"1g.24gb": 4}, SINGLE, {}, {PLAIN: 4}),
        ({"2g.48gb": 1, "1g.24gb": 2}, MIXED, {}, {LARGE: 1, SMALL: 2}),
        ({"2g.48gb": 1, "1g.24gb": 2}, TURNS, {}, {LARGE: 3, SMALL: 2}),
        ({"1g.24gb+me": 1}, MIXED, {}, {"nvidia.com/mig-1g.24gb.me": 1}),
        ({"2g.48gb": 1, "1g.24gb": 2}, SINGLE, {}, {}),  # several profiles under `single`
        ({"1g.24gb": 4}, {"flags": {"migStrategy": "none"}}, {}, {PLAIN: 1}),
        ({"1g.24gb": 4}, SINGLE, {"mig": {"strategy": "mixed"}}, {SMALL: 4}),  # the environment overrides the config
        ({"1g.24gb": 4}, SHARED, {}, {PLAIN: 2}),
        ({"1g.24gb": 4}, {**SINGLE, "sharing": {"mps": {"resources": [{"name": PLAIN, "replicas": 2}]}}}, {}, {}),
        ({"1g.24gb": 4}, SINGLE, None, {}),  # without feature discovery the operator has nothing to do
        ({"1g.24gb": 4}, SINGLE, {"devicePlugin": {"enabled": False}}, {}),
        ({"1g.24gb": 4}, SINGLE, {"migManager": {"enabled": False}}, {PLAIN: 1}),
    ],
)
def test_a_node_offers_the_slices_of_its_layout(
    account: Account,
    layout: dict[str, int],
    config: dict[str, Any],
    values: dict[str, Any] | None,
    offered: dict[str, int],
) -> None:
    cut_nodes(account)
    account.gpu_operator(layout, config, **(values or {}))
    if values is None:
        account.drop(tokens.RELEASE, account.discovery())
    for resource in {PLAIN, LARGE, SMALL, *offered}:
        gpu = {"gpu": {"enabled": True, "number": 1, "nvidiaResource": resource}}
        tolerations = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
        for number in range(offered.get(resource, 0)):
            account.model(f"m{number}{resource[-3:]}", ollama=gpu, tolerations=tolerations)
        with refused("Timeout", f"Insufficient {resource}"):
            account.model("more", ollama=gpu, tolerations=tolerations)


def test_an_unknown_layout_leaves_the_gpu_unpartitioned_and_its_node_not_ready(account: Account) -> None:
    cut_nodes(account, "odd")
    account.gpu_operator({"1g.24gb": 4}, SINGLE)
    ready = {"tandem/pool": "gpu", "nvidia.com/mig.config.state": "success"}
    with refused("Timeout", "node affinity/selector"):
        account.model(nodeSelector=ready)
    account.change(tokens.NODE_GROUP, "c:gpu", labels={**GPU_LABELS, "nvidia.com/mig.config": "cut"})
    account.model(nodeSelector=ready)


def test_two_device_plugins_at_a_time_offer_no_reliable_shares(account: Account) -> None:
    cut_nodes(account)
    account.gpu_operator({"1g.24gb": 4}, SINGLE)
    account.device_plugin()
    with refused("Timeout", "Insufficient nvidia.com/gpu"):
        account.model()
    account.drop(tokens.RELEASE, "kube-system/plugin")
    account.model()


def test_an_upgrade_may_use_the_share_of_the_pod_that_it_replaces(ready: Account) -> None:
    ready.model("a")
    ready.model("b")
    outputs = ready.change(tokens.RELEASE, "default/a", version="2")
    assert outputs["status"]["revision"] == 2
    with refused("Timeout"):
        ready.change(tokens.RELEASE, "default/a", values={**outputs["values"], "replicaCount": 2})


def test_pods_of_a_lost_node_restart_on_the_next_one(ready: Account) -> None:
    ready.model()
    before = [one.outputs["node"] for one in ready.of(tokens.POD) if one.name == "m-0"]
    ready.change(tokens.NODE_GROUP, "c:gpu", releaseVersion="later")
    after = [one.outputs["node"] for one in ready.of(tokens.POD) if one.name == "m-0"]
    assert before != after
    assert all(after)


def test_a_release_waits_for_shares_that_appear_later() -> None:
    account = Account(Outside(patience=5.0))
    account.cluster()
    account.nodes()
    account.gpu_nodes()
    made: list[str] = []
    waiting = threading.Thread(target=lambda: made.append(account.model()))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    account.device_plugin()
    waiting.join(4)
    assert made == ["default/m"]


# Deletion of releases.


def test_a_prune_job_without_a_node_fails_the_uninstall_and_stays(account: Account) -> None:
    release = account.release("r", "node-feature-discovery")
    account.change(tokens.NODE_GROUP, "c:system", taints=[TAINT])
    with refused("Timeout", "prune Job"):
        account.drop(tokens.RELEASE, release)
    assert [one.id for one in account.of(tokens.JOB)] == ["kube-system/r-node-feature-discovery-prune"]
    with refused("NotFound", "release: not found"):
        account.drop(tokens.RELEASE, release)


def test_the_operators_hook_needs_a_node_before_the_uninstall(account: Account) -> None:
    release = account.release("r", "gpu-operator")
    account.change(tokens.NODE_GROUP, "c:system", taints=[TAINT])
    with refused("Timeout", "pre-delete"):
        account.drop(tokens.RELEASE, release)
    assert account.outputs(tokens.RELEASE, release)["status"]["status"] == "uninstalling"
    account.change(tokens.NODE_GROUP, "c:system", taints=[])
    account.drop(tokens.RELEASE, release)
    assert account.of(tokens.RELEASE) == []


def karpenter(account: Account) -> tuple[str, str]:
    return account.release("crds", "karpenter-crd"), account.release("k", "karpenter")


def test_custom_resources_need_their_crd(account: Account) -> None:
    with refused("NotFound", "no matches for kind"):
        account.make(tokens.NODE_POOL, metadata=meta("p"))
    karpenter(account)
    account.make(tokens.NODE_POOL, metadata=meta("p"))
    account.make("kubernetes:storage.k8s.io/v1:CSIDriver", metadata=meta("own"))


def test_a_finalizer_needs_its_controller(account: Account) -> None:
    crds, controller = karpenter(account)
    kind = account.make(tokens.NODE_CLASS, metadata=meta("k"))
    account.drop(tokens.RELEASE, controller)
    with refused("Timeout", "finalizer"):
        account.drop(tokens.NODE_CLASS, kind)
    with refused("Timeout", "holds the CRD"):
        account.drop(tokens.RELEASE, crds)
    with refused("NotFound", "release: not found"):
        account.drop(tokens.RELEASE, crds)
    assert account.of(tokens.CRD), "the record is deleted, but the CRDs stay"


@pytest.mark.real_world(
    behaviour="Helm does not delete the CRDs in a chart's crds/ folder on uninstall",
    source="helm.sh/docs/chart_best_practices/custom_resource_definitions/",
)
def test_crds_of_other_charts_outlive_their_releases(account: Account) -> None:
    account.drop(tokens.RELEASE, account.discovery())
    assert {one.inputs["spec"]["group"] for one in account.of(tokens.CRD)} == {"nfd.k8s-sigs.io"}
    assert account.world.leftovers([])
