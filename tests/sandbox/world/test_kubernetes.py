"""Kubernetes and Helm: reachable API servers, pods that wait for shares, and deletions that wait for a controller."""

import json
import threading
from typing import Any

import pytest

from sandbox.cloud.eks.kubeconfig import kubeconfig
from sandbox.world import CloudError, IncompleteError, tokens
from sandbox.world.controllers.nodes import gpu_count
from sandbox.world.controllers.plugin import advertised
from tests.sandbox.outside import Outside
from tests.sandbox.world_pieces import GPU_LABELS, SHARED, TAINT, Account, meta, refused

TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists"}


# Reachable API servers, and namespaces.


def test_no_server_answers_before_the_cluster_exists() -> None:
    with refused("Unreachable"):
        Account().make(tokens.NAMESPACE, metadata=meta("n"))


def test_no_server_answers_after_the_cluster_is_deleted_and_a_new_one_is_different(account: Account) -> None:
    old, namespace = account.provider, account.make(tokens.NAMESPACE, metadata=meta("n"))
    account.drop(tokens.NODE_GROUP, "c:system")
    before = account.outputs(tokens.CLUSTER, "c")
    account.drop(tokens.CLUSTER, "c")
    for call in (
        lambda: account.drop(tokens.NAMESPACE, namespace),
        lambda: account.world.read(tokens.NAMESPACE, namespace),
        lambda: account.world.update(tokens.NAMESPACE, namespace, {}),
        lambda: account.make(tokens.NAMESPACE, metadata=meta("m")),
    ):
        with refused("Unreachable"):
            call()
    account.make(tokens.CLUSTER, name="c", roleArn=before["roleArn"], vpcConfig={"subnetIds": account.subnets})
    after = account.outputs(tokens.CLUSTER, "c")
    assert before["vpcConfig"]["clusterSecurityGroupId"] != after["vpcConfig"]["clusterSecurityGroupId"]
    with pytest.raises(CloudError, match="unreachable"):
        account.world.create(tokens.NAMESPACE, "n", {"metadata": meta("n")}, old)
    account.provider = {"kubeconfig": json.dumps(kubeconfig(after))}
    account.make(tokens.NAMESPACE, metadata=meta("n"))
    account.drop(tokens.NAMESPACE, namespace)


def test_deleting_a_namespace_deletes_its_contents(account: Account) -> None:
    account.make(tokens.NAMESPACE, metadata=meta("n"))
    account.make(tokens.CONFIG_MAP, metadata=meta("a", namespace="n"))
    release = account.make(tokens.RELEASE, name="r", namespace="n", chart="gpu-operator")
    account.drop(tokens.NAMESPACE, "n")
    assert account.of(tokens.POD) == []
    assert not [one for one in account.world.entities() if one.namespace == "n"]
    with refused("NotFound", "release: not found"):
        account.drop(tokens.RELEASE, release)


# Scheduling.


def test_a_release_whose_pods_find_no_node_times_out(account: Account) -> None:
    with refused("Timeout", "node affinity"):
        account.model()
    account.gpu_nodes()
    with refused("Timeout", "Insufficient nvidia.com/gpu"):
        account.model()


@pytest.mark.real_world(
    behaviour="A Helm release that times out exists and has failed, and the next update repairs it",
    source="pulumi-kubernetes provider/pkg/provider/helm_release.go (partialError)",
)
def test_a_release_that_times_out_exists_and_later_gets_a_free_share(ready: Account) -> None:
    ready.model("a")
    ready.model("b")
    values = ready.of(tokens.RELEASE)[-1].inputs["values"]
    given = {"name": "c", "namespace": "default", "chart": "ollama", "values": values}
    with pytest.raises(IncompleteError, match="1 Insufficient"):
        ready.make(tokens.RELEASE, "c", **given)
    with pytest.raises(IncompleteError, match="Insufficient"):
        ready.world.update(tokens.RELEASE, "default/c", given)
    ready.drop(tokens.RELEASE, "default/a")
    assert all(one.outputs["node"] for one in ready.of(tokens.POD) if one.owner == (tokens.RELEASE, "default/c"))
    ready.world.update(tokens.RELEASE, "default/c", given)


def test_a_taint_keeps_out_pods_that_neither_tolerate_nor_request(ready: Account) -> None:
    none: dict[str, Any] = {"ollama": {"gpu": {"enabled": False}}}
    with refused("Timeout", "untolerated taint"):
        ready.model(**none)
    ready.model("tolerates", **none, tolerations=[TOLERATION])
    ready.model("requests")


def test_a_model_runs_only_on_nodes_that_meet_a_term_of_its_affinity(ready: Account) -> None:
    def of(*pools: str) -> dict[str, Any]:
        terms = [{"matchExpressions": [{"key": "tandem/pool", "operator": "In", "values": [one]}]} for one in pools]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        return {"nodeSelector": {}, "affinity": {"nodeAffinity": required}}

    with refused("Timeout", "node affinity/selector"):
        ready.model(**of("other"))
    ready.model(**of("other", "gpu"))


@pytest.mark.parametrize("chart", ["gpu-operator", "node-feature-discovery"])
def test_a_chart_without_tolerations_needs_a_node_without_taints(chart: str) -> None:
    account = Account()
    account.cluster()
    account.gpu_nodes()
    with pytest.raises(IncompleteError, match="untolerated taint"):
        account.release("some", chart)


def test_an_upgrade_may_use_the_share_of_the_pod_that_it_replaces(ready: Account) -> None:
    ready.model("a")
    ready.model("b")
    outputs = ready.change(tokens.RELEASE, "default/a", version="2")
    assert outputs["status"]["revision"] == 2
    with refused("Timeout"):
        ready.change(tokens.RELEASE, "default/a", values={**outputs["values"], "replicaCount": 2})


def test_an_upgrade_to_fewer_replicas_frees_a_share(ready: Account) -> None:
    release = ready.model("a", replicaCount=2)
    ready.change(
        tokens.RELEASE, release, values={**ready.outputs(tokens.RELEASE, release)["values"], "replicaCount": 1}
    )
    ready.model("b")


def test_a_release_waits_for_shares_that_appear_later(monkeypatch: pytest.MonkeyPatch) -> None:
    account = Account(Outside(patience=5.0))
    account.cluster()
    account.nodes()
    account.gpu_nodes()
    made: list[str] = []
    # Patience begins with the call, and not with the cloud.
    monkeypatch.setattr("sandbox.world.world.time.monotonic", lambda: 1e9)
    waiting = threading.Thread(target=lambda: made.append(account.model()))
    waiting.start()
    waiting.join(0.2)
    assert waiting.is_alive()
    account.device_plugin()
    waiting.join(4)
    assert made == ["default/m"]


# Shares of a node.


def offered(account: Account) -> dict[str, int]:
    """The resources that the only GPU node offers."""
    with account.world.changing() as entities:
        [node] = [one for one in entities.of(tokens.NODE) if gpu_count(one)]
        return {name: offer.count for name, offer in advertised(entities, node).items() if offer.count}


CONFIGS = {
    "shared": SHARED,
    "exclusive": {"version": "v1"},
    "mps": {"sharing": {"mps": {"resources": [{"name": "nvidia.com/gpu", "replicas": 3}]}}},
    "mig": {"flags": {"migStrategy": "single"}},
}


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
        ("shared", "unknown", {}, 0),
        ("unknown", None, {}, 0),
    ],
)
def test_a_node_offers_the_shares_of_the_plugins_default_and_none_if_its_label_names_another(
    account: Account, default: str, label: str | None, values: dict[str, Any], shares: int
) -> None:
    labels = {key: value for key, value in GPU_LABELS.items() if "config" not in key}
    account.gpu_nodes(labels={**labels, **({"nvidia.com/device-plugin.config": label} if label else {})})
    texts = {key: json.dumps(config) for key, config in CONFIGS.items()}
    account.device_plugin(config={"default": default, "map": texts}, **values)
    assert offered(account) == ({"nvidia.com/gpu": shares} if shares else {})


def test_lost_shares_come_back_with_the_next_pod_of_the_plugin_and_not_with_the_label(account: Account) -> None:
    """NVIDIA/k8s-device-plugin#1645: the kubelet waits for a new registration."""
    group, plugin = account.gpu_nodes(), account.device_plugin()
    for config in ("exclusive", "shared"):
        account.change(tokens.NODE_GROUP, group, labels={**GPU_LABELS, "nvidia.com/device-plugin.config": config})
        assert offered(account) == {}
    values = account.outputs(tokens.RELEASE, plugin)["values"]
    account.change(tokens.RELEASE, plugin, values={**values, "podAnnotations": {"a": "b"}})
    assert offered(account) == {"nvidia.com/gpu": 2}


def cut_nodes(account: Account, layout: str = "cut") -> None:
    """A node whose GPU the MIG manager partitions by a layout."""
    account.world.sell("g7e.2xlarge", ["us-east-1a", "us-east-1b"])
    account.gpu_nodes(instanceTypes=["g7e.2xlarge"], labels={**GPU_LABELS, "nvidia.com/mig.config": layout})


SINGLE = {"flags": {"migStrategy": "single"}}
MIXED = {"flags": {"migStrategy": "mixed"}}
TURNS = {**MIXED, "sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/mig-2g.48gb", "replicas": 3}]}}}
PLAIN = "nvidia.com/gpu"
LARGE, SMALL = "nvidia.com/mig-2g.48gb", "nvidia.com/mig-1g.24gb"


@pytest.mark.parametrize(
    ("layout", "config", "values", "resources"),
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
    resources: dict[str, int],
) -> None:
    cut_nodes(account)
    account.gpu_operator(layout, config, **(values or {}))
    if values is None:
        account.drop(tokens.RELEASE, account.discovery())
    assert offered(account) == resources


def test_an_unknown_layout_leaves_the_gpu_unpartitioned_and_its_node_not_ready(account: Account) -> None:
    cut_nodes(account, "odd")
    account.gpu_operator({"1g.24gb": 4}, SINGLE)
    ready = {"tandem/pool": "gpu", "nvidia.com/mig.config.state": "success"}
    with refused("Timeout", "node affinity/selector"):
        account.model(nodeSelector=ready)
    account.change(tokens.NODE_GROUP, "c:gpu", labels={**GPU_LABELS, "nvidia.com/mig.config": "cut"})
    account.model(nodeSelector=ready)


# Storage.


def with_claim(name: str) -> dict[str, Any]:
    return {"volumes": [{"name": "models", "persistentVolumeClaim": {"claimName": name}}]}


@pytest.mark.real_world(
    behaviour="A volume claim stays while a pod uses it, and a volume while a claim is bound to it",
    source="kubernetes.io/docs/concepts/storage/persistent-volumes/#storage-object-in-use-protection",
)
def test_a_claim_stays_while_a_pod_uses_it_and_a_volume_while_a_claim_is_bound_to_it(ready: Account) -> None:
    disk, volume, claim = ready.volume()
    release = ready.model(persistentVolume={"enabled": True, "existingClaim": "d"})
    with refused("Timeout", "pvc-protection"):
        ready.drop(tokens.CLAIM, claim)
    with refused("Timeout", "pv-protection"):
        ready.drop(tokens.PERSISTENT_VOLUME, volume)
    with refused("VolumeInUse"):
        ready.drop(tokens.VOLUME, disk)
    ready.drop(tokens.RELEASE, release)
    ready.drop(tokens.CLAIM, claim)
    ready.drop(tokens.PERSISTENT_VOLUME, volume)
    assert ready.world.read(tokens.VOLUME, disk), "a volume with Retain outlives its claim"
    ready.drop(tokens.VOLUME, disk)


def test_pods_with_volumes_wait_for_the_driver_its_agent_and_its_policy(account: Account) -> None:
    account.gpu_nodes()
    account.device_plugin()
    account.volume()
    with refused("Timeout", 'persistentvolumeclaim "e" not found'):
        account.model(**with_claim("e"))
    with refused("Timeout", "FailedAttachVolume"):
        account.model(**with_claim("d"))
    account.driver()
    attached = next(one for one in account.of(tokens.ATTACHED_POLICY) if "CSI" in one.id)
    account.drop(tokens.ATTACHED_POLICY, attached.id)
    with refused("Timeout", "UnauthorizedOperation"):
        account.model(**with_claim("d"))
    account.make(tokens.ATTACHED_POLICY, **attached.inputs)
    account.drop(tokens.ADDON, "c:eks-pod-identity-agent")
    with refused("Timeout", "eks-pod-identity-agent"):
        account.model(**with_claim("d"))


@pytest.mark.real_world(
    behaviour="A claim on a directory of the node needs no storage driver; like every "
    "claim it stays while a pod uses it",
    source="kubernetes.io/docs/concepts/storage/volumes/#hostpath and "
    "docs/concepts/storage/persistent-volumes/#storage-object-in-use-protection",
)
def test_a_claim_on_a_directory_of_the_node_needs_no_driver_and_stays_while_a_pod_uses_it(account: Account) -> None:
    account.gpu_nodes()
    account.device_plugin()
    _, _, claim = account.volume(hostPath={"path": "/models", "type": "DirectoryOrCreate"})
    account.model(**with_claim("d"))
    assert account.of(tokens.ATTACHMENT) == []
    with refused("Timeout", "pvc-protection"):
        account.drop(tokens.CLAIM, claim)


def test_a_volume_stays_attached_if_the_drivers_node_is_deleted_first(ready: Account) -> None:
    """The same without the driver's add-on, agent or policy: tests/program/test_edges.py."""
    disk, _, _ = ready.volume()
    release = ready.model(**with_claim("d"))
    ready.drop(tokens.NODE_GROUP, "c:system")
    ready.drop(tokens.RELEASE, release)
    with refused("VolumeInUse"):
        ready.drop(tokens.VOLUME, disk)
    ready.drop(tokens.NODE_GROUP, "c:gpu")
    ready.drop(tokens.VOLUME, disk)


# Deletion of releases.


def test_the_next_release_takes_over_the_definitions_that_an_uninstall_leaves(account: Account) -> None:
    account.drop(tokens.RELEASE, account.discovery())
    assert {crd.owner for crd in account.of(tokens.CRD)} == {None}
    account.discovery()
    assert {crd.owner for crd in account.of(tokens.CRD)} == {(tokens.RELEASE, "kube-system/nfd")}


def test_the_operators_hook_needs_a_node_before_the_uninstall(account: Account) -> None:
    release = account.release("r", "gpu-operator")
    account.change(tokens.NODE_GROUP, "c:system", taints=[TAINT])
    with refused("Timeout", "pre-delete"):
        account.drop(tokens.RELEASE, release)
    assert account.outputs(tokens.RELEASE, release)["status"]["status"] == "uninstalling"
    account.change(tokens.NODE_GROUP, "c:system", taints=[])
    account.drop(tokens.RELEASE, release)


@pytest.mark.real_world(
    behaviour="Only KEDA's operator removes the finalizer of a ScaledObject",
    source="keda v2.20.2 controllers/keda/scaledobject_finalizer.go",
)
def test_without_keda_nothing_that_it_scales_can_be_deleted(account: Account) -> None:
    operator, add_on = account.release("keda", "keda"), "keda-add-ons-http"
    scaled = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "small"}}
    model = account.release("m", "ollama", replicaCount=0, extraObjects=[scaled])
    held = {account.release(add_on, add_on): f"{add_on}-interceptor", model: "small"}
    plain = account.release("plain", "ollama", replicaCount=0)
    account.drop(tokens.RELEASE, operator)
    for release, name in held.items():
        with refused("Timeout", f"ScaledObject {name} is Terminating: no KEDA removes its finalizer"):
            account.drop(tokens.RELEASE, release)
    account.drop(tokens.RELEASE, plain)
    account.release("keda", "keda")
    for release in held:
        account.drop(tokens.RELEASE, release)
