"""NVIDIA's real device plugin counts the shares of our configurations, and its feature discovery labels the node.

Build both from NVIDIA/k8s-device-plugin at the pinned version, `go build ./cmd/nvidia-device-plugin` and
`go build ./cmd/gpu-feature-discovery`, and put them on the PATH. No GPU is needed: the driver is a fake one with a T4.
Not shown here: MPS with equal shares, for which the plugin waits for its own MPS daemon, and MIG.
"""

from collections.abc import Callable
from pathlib import Path

import grpc  # type: ignore[import-untyped]
import pytest

from sandbox.graph import Graph
from sharing.hardware.gpus import gpus
from sharing.modes.base import GPU_RESOURCE
from sharing.sections.config import StackConfig
from tests.cluster.deployment import Deployment, Graphs, releases
from tests.cluster.device_plugin import build_driver, discovered, missing, plugin
from tests.cluster.nodes import nodes, offer
from tests.cluster.test_placement import GPU_NODE, NO_SHARE_LEFT, ids, third

MISSING = missing()
pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)
GPU = "GPU-the-only-one"


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nvml")
    build_driver(folder)
    return folder


def config_of(graph: Graph) -> str:
    """The configuration that a stack gives the plugin of its only pool."""
    [release] = releases(graph, "nvidia-device-plugin")
    config = release["values"]["config"]
    return str(config["map"][config["default"]])


@pytest.mark.parametrize(
    ("stack", "shares"),
    [
        ("exclusive", [GPU]),
        ("timeslice", [f"{GPU}::0", f"{GPU}::1"]),
        # As for time-slicing: the plugin only counts.
        ("mps-per-model", [f"{GPU}::0", f"{GPU}::1"]),
    ],
)
def test_the_plugin_offers_the_shares_of_the_plan(
    graphs: Graphs, setups: Callable[[str], StackConfig], driver: Path, tmp_path: Path, stack: str, shares: list[str]
) -> None:
    with plugin(tmp_path, driver, config_of(graphs(stack))) as running:
        assert sorted(running.devices()) == shares
    [pool] = setups(stack).pools
    assert [one.per_gpu for one in pool.offers] == [len(shares)]


@pytest.mark.real_world(
    behaviour="In time-slicing, the device plugin gives a container nothing of MPS, and refuses it two shares",
    source="k8s-device-plugin v0.20.0 internal/plugin/server.go, getAllocateResponse; internal/rm/rm.go; it was run",
)
def test_with_limits_per_model_the_plugin_gives_one_share_without_variables_and_mounts_of_mps(
    graphs: Graphs, driver: Path, tmp_path: Path
) -> None:
    with plugin(tmp_path, driver, config_of(graphs("mps-per-model"))) as running:
        assert running.allocate(f"{GPU}::1") == ({"NVIDIA_VISIBLE_DEVICES": GPU}, [])
        with pytest.raises(grpc.RpcError, match="maximum request size for shared resources is 1; found 2"):
            running.allocate(f"{GPU}::0", f"{GPU}::1")


@pytest.mark.parametrize(
    ("stack", "strategy", "replicas", "mps"),
    [
        ("exclusive", "none", "1", "false"),
        ("timeslice", "time-slicing", "2", "false"),
        ("mps", "mps", "2", "true"),
        ("mps-per-model", "time-slicing", "2", "false"),
    ],
)
def test_feature_discovery_writes_the_labels_that_the_proof_expects(
    graphs: Graphs,
    setups: Callable[[str], StackConfig],
    driver: Path,
    tmp_path: Path,
    stack: str,
    strategy: str,
    replicas: str,
    mps: str,
) -> None:
    expected = {
        f"{GPU_RESOURCE}.sharing-strategy": strategy,
        f"{GPU_RESOURCE}.replicas": replicas,
        "nvidia.com/mps.capable": mps,
    }
    labels = discovered(tmp_path, driver, config_of(graphs(stack)))
    assert {name: labels[name] for name in expected} == expected
    [pool] = setups(stack).pools
    assert pool.sharing.discovered_labels(gpus()["t4"]) == expected


def test_on_a_node_with_the_plugins_own_count_and_labels_both_models_run_without_the_plugins_mps_daemon(
    cluster: Deployment, graphs: Graphs, driver: Path, tmp_path: Path
) -> None:
    graph = graphs("mps-per-model")
    cluster.deploy(graph, nodes_desired=0)
    [node] = [one for one in nodes(graph) if one["metadata"]["name"] == GPU_NODE]
    offer(node, {GPU_RESOURCE: 0})
    cluster.join(node)
    for model in ids(graph):
        cluster.wait_until_refused(model, NO_SHARE_LEFT)
    cluster.relabel(GPU_NODE, discovered(tmp_path, driver, config_of(graph)))
    with plugin(tmp_path, driver, config_of(graph)) as running:
        cluster.offer(GPU_NODE, GPU_RESOURCE, len(running.devices()))
    assert set(cluster.wait_for_models(*ids(graph)).values()) == {GPU_NODE}
    cluster.wait_for_daemons("nvidia-device-plugin-gpu", {GPU_NODE})
    cluster.wait_for_daemons("nvidia-device-plugin-gpu-mps-control-daemon", set())
    cluster.install(third(graph))
    cluster.wait_until_refused("third", NO_SHARE_LEFT)
