"""The components in users' own tests: Pulumi's stock mocks, which answer invokes with nothing and make no children."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi
import pytest

from components import (
    DevicePluginSharing,
    GpuCluster,
    GpuClusterArgs,
    KarpenterGpuPool,
    OllamaPair,
    ShareProof,
    SpotGpuNodeGroup,
)
from stacks.deploy import deploy
from stacks.stack_file.judge import judge_file
from tests.components.conftest import Mocks

ROOT = Path(__file__).resolve().parent.parent.parent
Builder = Callable[[str, pulumi.ResourceOptions | None], pulumi.ComponentResource]
made: list[tuple[str, str, dict[str, Any]]] = []


@pytest.fixture(autouse=True)
def mocks() -> None:
    stock = Mocks()
    stock.made = made
    made.clear()
    pulumi.runtime.set_mocks(stock, project="theirs", stack="test")


def of(kind: str) -> list[dict[str, Any]]:
    return [inputs for typ, _, inputs in made if typ == kind]


@pulumi.runtime.test
def test_gpu_cluster(builders: dict[str, Builder]) -> pulumi.Output[None]:
    cluster = builders["GpuCluster"]("theirs", None)
    assert isinstance(cluster, GpuCluster)

    def check(values: list[Any]) -> None:
        name, subnets, zones, nodes = values
        assert name == "theirs-cluster"
        assert subnets == ["theirs-private-0-id", "theirs-private-1-id"]
        assert zones == ["zone-0", "zone-1"]
        assert nodes == "theirs-system-id"

    return pulumi.Output.all(
        cluster.cluster_name, cluster.node_subnet_ids, cluster.zone_names, cluster.system_nodes.id
    ).apply(check)


@pulumi.runtime.test
def test_gpu_cluster_with_public_nodes(builders: dict[str, Builder]) -> pulumi.Output[None]:
    del builders
    cluster = GpuCluster("public", GpuClusterArgs(cluster_name="public", nat="none", zones=3))

    def check(subnets: list[str]) -> None:
        assert subnets == ["public-public-0-id", "public-public-1-id", "public-public-2-id"]

    return cluster.node_subnet_ids.apply(check)


@pulumi.runtime.test
def test_spot_gpu_node_group(builders: dict[str, Builder]) -> pulumi.Output[None]:
    nodes = builders["SpotGpuNodeGroup"]("theirs", None)
    assert isinstance(nodes, SpotGpuNodeGroup)

    def check(labels: Any) -> None:
        assert labels["nvidia.com/gpu.deploy.operands"] == "false"

    return nodes.node_group.labels.apply(check)


@pulumi.runtime.test
def test_karpenter_gpu_pool(builders: dict[str, Builder]) -> pulumi.Output[None]:
    pool = builders["KarpenterGpuPool"]("theirs", None)
    assert isinstance(pool, KarpenterGpuPool)

    def check(names: list[str]) -> None:
        assert names == ["spot", "sure"]
        pools = {one["metadata"]["name"]: one["spec"]["limits"] for one in of("kubernetes:karpenter.sh/v1:NodePool")}
        assert pools == {
            "spot": {"nodes": "1", "nvidia.com/gpu": "16"},  # 4 shares of each of the 4 GPUs of a g4dn.12xlarge
            "sure": {"nodes": "1", "nvidia.com/gpu": "2"},
        }
        [release] = [one for one in of("kubernetes:helm.sh/v3:Release") if "values" in one]
        assert release["values"]["settings"]["clusterName"] == "cluster"

    return pool.node_pool_names.apply(check)


@pulumi.runtime.test
def test_device_plugin_sharing(builders: dict[str, Builder]) -> pulumi.Output[None]:
    sharing = builders["DevicePluginSharing"]("theirs", None)
    assert isinstance(sharing, DevicePluginSharing)

    def check(resources: Any) -> None:
        assert resources == ["nvidia.com/gpu"]

    return sharing.resource_names.apply(check)


@pulumi.runtime.test
def test_ollama_pair(builders: dict[str, Builder]) -> pulumi.Output[None]:
    pair = builders["OllamaPair"]("theirs", None)
    assert isinstance(pair, OllamaPair)

    def check(values: list[Any]) -> None:
        urls, services, ports = values
        assert urls["llama2-7b"] == "http://llama2-7b.theirs-ollama:11434"
        assert services == {"llama2-7b": "llama2-7b", "mistral-7b": "mistral-7b"}
        assert ports == {"llama2-7b": 11434, "mistral-7b": 11434}

    return pulumi.Output.all(pair.urls, pair.services, pair.ports).apply(check)


@pulumi.runtime.test
def test_share_proof(builders: dict[str, Builder]) -> pulumi.Output[None]:
    proof = builders["ShareProof"]("theirs", None)
    assert isinstance(proof, ShareProof)

    def check(verified: dict[str, Any]) -> None:
        assert verified["nvidia.com/gpu"]["per_node"] == 4

    return proof.verified_shares.apply(check)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stack", "releases", "groups"),
    [
        ("dev", 4, 2),
        ("timeslice", 4, 2),
        ("mps", 4, 2),
        ("exclusive", 4, 2),
        ("mig", 4, 2),
        ("mig-mixed", 4, 2),
        ("karpenter", 6, 1),
    ],
)
def test_stack(stack: str, releases: int, groups: int) -> None:
    plan = judge_file(ROOT / f"Pulumi.{stack}.yaml").plan()

    @pulumi.runtime.test
    def build() -> None:
        deploy(plan)

    build()
    assert len(of("kubernetes:helm.sh/v3:Release")) == releases
    assert len(of("aws:eks/nodeGroup:NodeGroup")) == groups
