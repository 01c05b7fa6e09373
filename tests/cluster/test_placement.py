"""The real scheduler places pods as the plan says, on nodes as our node groups make them."""

from collections.abc import Callable
from typing import Any

import pytest

from sandbox.graph import Graph, plain
from sharing.modes.base import GPU_RESOURCE, LAYOUT_STATE_LABEL
from sharing.names import MPS_DAEMON_LABEL, tolerations
from sharing.sections.config import StackConfig
from tests.cluster.deployment import Deployment, Graphs, instance_of, is_ready, manifests, releases
from tests.cluster.nodes import ZONES, advertised, node, node_groups, nodes, taints

GPU_NODE = "tandem-gpu-group-0"
NO_SHARE_LEFT = f"Insufficient {GPU_RESOURCE}"
MPS_CAPABLE = {"nvidia.com/mps.capable": "true"}
"""The label that feature discovery gives a node when the plugin's config says MPS."""


def ids(graph: Graph) -> list[str]:
    return [release["name"] for release in releases(graph, "ollama")]


def third(graph: Graph) -> dict[str, Any]:
    """One model more than planned, with the values of the first."""
    first = releases(graph, "ollama")[0]
    values = {**first["values"], "fullnameOverride": "third"}
    return {**first, "name": "third", "values": values}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "pause", "resources": spec.pop("resources", {})}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def place_of(cluster: Deployment, name: str) -> str:
    """The node on which a pod of our own runs, once it does."""

    def place() -> str:
        found = cluster.api.get("v1", "Pod", name) or {}
        return str(found["spec"]["nodeName"]) if is_ready(found) else ""

    return cluster.wait_for(f"{name} ran", place)


def test_every_model_runs_on_a_share_as_planned(
    cluster: Deployment, graphs: Graphs, setups: Callable[[str], StackConfig], any_stack: str
) -> None:
    graph, setup = graphs(any_stack), setups(any_stack)
    awake = [pool for pool in setup.pools if pool.desired]
    home = {served.id: f"tandem-{pool.name}-group" for pool in awake for served in setup.models_of(pool)}
    cluster.deploy(graph)
    if not awake:
        cluster.wait_for_deployments(*ids(graph))
        assert cluster.allocatable(GPU_RESOURCE) == 0
        assert not cluster.pods("ollama")
        return
    offered = {shares.resource for pool in awake for shares in pool.offers}
    assert sum(cluster.allocatable(name) for name in offered) == sum(pool.total_shares for pool in awake)
    placed = cluster.wait_for_models(*home)
    assert {id: place.rpartition("-")[0] for id, place in placed.items()} == home
    assert len(set(placed.values())) == sum(pool.desired for pool in awake)


@pytest.mark.parametrize("stack", ["timeslice", "mps"])
def test_two_models_share_a_node_and_a_third_waits_for_a_share(cluster: Deployment, graphs: Graphs, stack: str) -> None:
    graph = graphs(stack)
    cluster.deploy(graph)
    both = cluster.wait_for_models(*ids(graph))
    assert set(both.values()) == {GPU_NODE}
    cluster.install(third(graph))
    cluster.wait_until_refused("third", NO_SHARE_LEFT)
    assert cluster.models() == both


@pytest.mark.parametrize(
    ("stack", "label", "full"),
    [
        # The GPU is cut.
        ("mig-mixed", LAYOUT_STATE_LABEL, "Insufficient nvidia.com/mig-2g.48gb"),
        # The node has an MPS daemon of its own. All else is right here: the taint, and two shares.
        ("mps-per-model", MPS_DAEMON_LABEL, NO_SHARE_LEFT),
    ],
)
def test_models_wait_for_a_node_that_says_it_is_made_for_their_mode_and_then_get_the_shares_of_the_plan(
    cluster: Deployment, graphs: Graphs, stack: str, label: str, full: str
) -> None:
    graph = graphs(stack)
    cluster.deploy(graph, nodes_desired=0)
    [gpu_node] = [one for one in nodes(graph) if one["metadata"]["name"] == GPU_NODE]
    said = gpu_node["metadata"]["labels"].pop(label)
    cluster.join(gpu_node)
    every = len(list(nodes(graph)))
    for model in ids(graph):
        cluster.wait_until_refused(model, f"{every} node(s) didn't match Pod's node affinity/selector")
    cluster.relabel(GPU_NODE, {label: said})
    assert set(cluster.wait_for_models(*ids(graph)).values()) == {GPU_NODE}
    cluster.install(third(graph))
    cluster.wait_until_refused("third", full)


@pytest.mark.real_world(
    behaviour="One ReadWriteOnce claim on a hostPath PersistentVolume serves pods on several nodes",
    source="kubernetes v1.36 pkg/volume/hostpath/host_path.go, which attaches nothing; it was run",
)
def test_pods_on_several_nodes_use_one_claim_on_the_directory_of_the_mps_daemon(
    cluster: Deployment, graphs: Graphs
) -> None:
    graph = graphs("mps-per-model")
    cluster.deploy(graph, nodes_desired=2)
    cluster.install(third(graph))
    # A node has two shares.
    assert len(set(cluster.wait_for_models(*ids(graph), "third").values())) == 2
    for one in cluster.pods("ollama"):
        claimed = {"name": "mps-daemon", "persistentVolumeClaim": {"claimName": "mps-daemon"}}
        assert claimed in one["spec"]["volumes"]
        assert {"name": "mps-daemon", "mountPath": "/run/tandem-mps"} in one["spec"]["containers"][0]["volumeMounts"]

    def bound() -> dict[str, str]:
        claims = cluster.api.list("v1", "PersistentVolumeClaim")
        daemons = [one for one in claims if one["metadata"]["name"] == "mps-daemon"]
        return {one["metadata"]["namespace"]: one["status"]["phase"] for one in daemons}

    expected = {"ollama": "Bound", "share-proof-gpu": "Bound"}
    cluster.wait_for("each namespace had its claim", lambda: bound() == expected)


def switch(cluster: Deployment, to: Graph) -> None:
    """Switches the node's mode: EKS sets its taints, and the pool's plugin gets its new configuration."""
    group = plain(node_groups(to)["tandem-gpu-group"].inputs)
    cluster.taint(GPU_NODE, taints(group))
    cluster.relabel(GPU_NODE, group["labels"])
    for release in releases(to, "nvidia-device-plugin"):
        cluster.install(release)
    cluster.offer(GPU_NODE, GPU_RESOURCE, advertised(to, group["labels"], gpus=1)[GPU_RESOURCE])


def update(cluster: Deployment, to: Graph) -> None:
    """Updates the models, as the switch does once the shares are proved."""
    for release in releases(to, "ollama"):
        cluster.install(release)


def test_a_switch_from_timeslice_to_mps_stops_every_model_until_it_is_updated_and_brings_the_mps_daemon(
    cluster: Deployment, graphs: Graphs
) -> None:
    cluster.deploy(graphs("timeslice"))
    cluster.wait_for_models(*ids(graphs("timeslice")))
    before = {one["metadata"]["uid"] for one in cluster.pods("ollama")}
    cluster.wait_for_daemons("nvidia-device-plugin-gpu", {GPU_NODE})
    cluster.wait_for_daemons("nvidia-device-plugin-gpu-mps-control-daemon", set())
    switch(cluster, graphs("mps"))
    for model in ids(graphs("timeslice")):
        cluster.wait_until_refused(model, "untolerated taint")
    assert not before & {one["metadata"]["uid"] for one in cluster.pods("ollama")}
    cluster.relabel(GPU_NODE, MPS_CAPABLE)
    cluster.wait_for_daemons("nvidia-device-plugin-gpu-mps-control-daemon", {GPU_NODE})
    update(cluster, graphs("mps"))
    assert set(cluster.wait_for_models(*ids(graphs("mps"))).values()) == {GPU_NODE}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("mps", "mps-per-model"),
        ("timeslice", "mps-per-model"),
        ("mps-per-model", "mps"),
        ("mps-per-model", "timeslice"),
    ],
)
def test_after_a_switch_to_or_from_limits_per_model_no_updated_model_starts_on_the_old_node(
    cluster: Deployment, graphs: Graphs, before: str, after: str
) -> None:
    """The switch replaces the node group. The old one keeps its labels and taints, and is there to the end."""
    cluster.deploy(graphs(before))
    models = ids(graphs(before))
    cluster.wait_for_models(*models)
    # As if the new node was lost.
    cluster.deploy(graphs(after), with_nodes=False)
    for model in models:
        cluster.wait_until_refused(model, "untolerated taint")
    group = plain(node_groups(graphs(after))["tandem-gpu-group"].inputs)
    cluster.join(node("new", graphs(after), group, ZONES[0]))
    assert cluster.wait_for_models(*models) == dict.fromkeys(models, "new")


def test_a_model_with_a_volume_runs_in_the_volumes_zone_and_nowhere_else(cluster: Deployment, graphs: Graphs) -> None:
    graph = graphs("volumes")
    [volume] = [one for one in manifests(graph) if one["kind"] == "PersistentVolume" and "csi" in one["spec"]]
    [planned] = [one for one in nodes(graph) if one["metadata"]["name"] == GPU_NODE]
    zone = planned["metadata"]["labels"]["topology.kubernetes.io/zone"]
    terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert terms[0]["matchExpressions"][0]["values"] == [zone]

    group = plain(node_groups(graph)["tandem-gpu-group"].inputs)
    [elsewhere] = set(ZONES) - {zone}
    cluster.join(node("elsewhere", graph, group, elsewhere))
    cluster.deploy(graph, with_nodes=False)
    assert cluster.wait_for_models("mistral-7b") == {"mistral-7b": "elsewhere"}
    cluster.wait_until_refused("llama2-7b", "didn't match PersistentVolume's node affinity")
    cluster.join(planned)
    assert cluster.wait_for_models("llama2-7b", "mistral-7b")["llama2-7b"] == GPU_NODE

    for kind in ("PersistentVolume", "PersistentVolumeClaim"):
        found = cluster.api.list("v1", kind)
        assert [one["status"]["phase"] for one in found] == ["Bound", "Bound"]
    [running] = [one for one in cluster.pods("ollama") if instance_of(one) == "llama2-7b"]
    assert {"name": "ollama-data", "persistentVolumeClaim": {"claimName": "llama2-7b-models"}} in running["spec"][
        "volumes"
    ]


def test_a_pod_that_asks_for_no_gpu_never_lands_on_a_gpu_node(cluster: Deployment, graphs: Graphs) -> None:
    every = {one["metadata"]["name"]: one for one in nodes(graphs("timeslice"))}
    cluster.join(every.pop(GPU_NODE))
    cluster.wait_for_nodes(GPU_NODE)
    cluster.api.apply(pod("stranger"))
    why = cluster.wait_until_unplaced("default", lambda one: one["metadata"]["name"] == "stranger")
    assert "untolerated taint" in why
    for system in every.values():
        cluster.join(system)
    assert place_of(cluster, "stranger") in every


def test_a_pod_that_asks_for_a_gpu_needs_to_tolerate_nothing_but_the_mode(cluster: Deployment, graphs: Graphs) -> None:
    for one in nodes(graphs("timeslice")):
        cluster.join(one)
    [_, taint] = plain(node_groups(graphs("timeslice"))["tandem-gpu-group"].inputs)["taints"]
    asks = {"limits": {GPU_RESOURCE: "1"}}
    made = cluster.api.apply(pod("guest", resources=asks, tolerations=tolerations(taint["value"])[1:]))
    assert GPU_RESOURCE in {toleration["key"] for toleration in made["spec"]["tolerations"]}
    assert place_of(cluster, "guest") == GPU_NODE
    cluster.api.apply(pod("other", resources=asks, tolerations=tolerations("mps-2")))
    why = cluster.wait_until_unplaced("default", lambda one: one["metadata"]["name"] == "other")
    assert "untolerated taint" in why


def changed(release: dict[str, Any], strategy: str, context: str) -> dict[str, Any]:
    entry = {"name": "OLLAMA_CONTEXT_LENGTH", "value": context}
    values = {**release["values"], "updateStrategy": {"type": strategy}, "extraEnv": [entry]}
    return {**release, "values": values}


def test_a_changed_model_is_recreated_while_all_shares_are_taken(cluster: Deployment, graphs: Graphs) -> None:
    graph = graphs("timeslice")
    cluster.deploy(graph)
    cluster.wait_for_models(*ids(graph))
    before = {instance_of(one): one["metadata"]["uid"] for one in cluster.pods("ollama")}
    release = dict(releases(graph, "ollama")[0])
    cluster.install(changed(release, release["values"]["updateStrategy"]["type"], "1024"))

    def renewed() -> bool:
        now = {instance_of(one): one["metadata"]["uid"] for one in cluster.pods("ollama") if is_ready(one)}
        return set(now) == set(before) and now[release["name"]] != before[release["name"]]

    cluster.wait_for("the changed model ran again", renewed)
    [other] = set(before) - {release["name"]}
    assert before[other] in {one["metadata"]["uid"] for one in cluster.pods("ollama")}


def test_the_plugins_daemons_run_where_they_are_needed(cluster: Deployment, graphs: Graphs) -> None:
    graph = graphs("exclusive")
    cluster.deploy(graph)
    every = {one["metadata"]["name"] for one in nodes(graph)}
    gpu = {name for name in every if name.startswith("tandem-gpu-group")}
    cluster.wait_for_daemons("nvidia-device-plugin-gpu", gpu)
    cluster.wait_for_daemons("nvidia-device-plugin-gpu-gpu-feature-discovery", gpu)
    cluster.wait_for_daemons("nvidia-device-plugin-gpu-mps-control-daemon", set())
    cluster.wait_for_daemons("node-feature-discovery-worker", every, "node-feature-discovery")

    def of_system() -> set[str]:
        return {
            one["spec"]["nodeName"]
            for one in cluster.pods("node-feature-discovery")
            if one["metadata"]["labels"].get("role") in ("master", "gc") and is_ready(one)
        }

    cluster.wait_for("feature discovery's own parts ran", lambda: bool(of_system()))
    assert of_system() <= every - gpu
