"""The components in users' own tests, with Pulumi's mocks: invokes return nothing, and components have no children."""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from operator import attrgetter
from pathlib import Path
from typing import Any

import pulumi
import pytest

from components import GpuCluster, GpuClusterArgs
from components.share_proof.expectation import expectations
from sharing.hardware.gpus import gpus
from sharing.modes.modes import Mps
from stacks.deploy import deploy
from stacks.stack_file.judge import judge_file
from tests.components.conftest import Builder, Mocks
from tests.shipped import STACKS

ROOT = Path(__file__).resolve().parent.parent.parent
PRIVATE = ["theirs-private-0-id", "theirs-private-1-id"]
[SHARES] = expectations(Mps(replicas=4), gpus()["t4"], 1)
OUTPUTS: dict[str, dict[str, Any]] = {
    "CostAlert": {"budget_id": "theirs-monthly-tagged-id"},
    "GpuCluster": {
        "cluster_name": "theirs-cluster",
        "node_subnet_ids": PRIVATE,
        "zone_names": ["zone-0", "zone-1"],
        "system_nodes.id": "theirs-system-id",
    },
    "SpotGpuNodeGroup": {
        "node_group.labels": {
            "tandem/pool": "gpu",
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.deploy.operands": "false",
        }
    },
    "KarpenterGpuPool": {"node_pool_names": ["spot", "sure"]},
    "DevicePluginSharing": {"resource_names": ["nvidia.com/gpu", "nvidia.com/mig-1g.24gb", "nvidia.com/mig-2g.48gb"]},
    "OllamaPair": {
        "urls": {name: f"http://{name}.theirs-ollama:11434" for name in ("llama2-7b", "mistral-7b")},
        "services": {"llama2-7b": "llama2-7b", "mistral-7b": "mistral-7b"},
        "ports": {"llama2-7b": 11434, "mistral-7b": 11434},
    },
    "Monitoring": {"url": "http://grafana.theirs-monitoring:3000"},
    "OpenWebUI": {"url": "http://open-webui.theirs-open-webui:8080"},
    "ScaleToZero": {
        "urls": {name: f"http://{name}.theirs-keda:11434" for name in ("llama2-7b", "mistral-7b")},
        "scaler": "keda-add-ons-http-external-scaler.theirs-keda:9090",
    },
    "SpotJob": {"job_name": "theirs", "namespace": "theirs", "checkpoint_location": "s3://mine/theirs/"},
    "ScheduledParking": {"schedule_group_name": None, "dead_letter_queue_url": None},
    "ShareProof": {"verified_shares": {"nvidia.com/gpu": asdict(SHARES)}},
}


@pytest.fixture(autouse=True)
def made() -> list[tuple[str, str, dict[str, Any]]]:
    """Type, name and inputs of every resource."""
    stock = Mocks()
    pulumi.runtime.set_mocks(stock, project="theirs", stack="test")
    return stock.made


def outputs_of(build: Callable[[], pulumi.ComponentResource], names: list[str]) -> dict[str, Any]:
    """Values of a component's outputs once all resources are registered."""
    found: dict[str, Any] = {}

    @pulumi.runtime.test
    def program() -> pulumi.Output[None]:
        component = build()
        return pulumi.Output.all(**{name: attrgetter(name)(component) for name in names}).apply(found.update)

    program()
    return found


def test_every_component_has_its_outputs(builders: dict[str, Builder], component: str) -> None:
    wanted = OUTPUTS[component]
    assert outputs_of(lambda: builders[component]("theirs", None), [*wanted]) == wanted


def test_nodes_are_public_without_nat() -> None:
    found = outputs_of(
        lambda: GpuCluster("theirs", GpuClusterArgs(cluster_name="theirs", nat="none", zones=3)), ["node_subnet_ids"]
    )
    assert found == {"node_subnet_ids": [f"theirs-public-{index}-id" for index in range(3)]}


@pytest.mark.slow
@pytest.mark.parametrize("stack", STACKS)
def test_an_entire_stack_is_registered(stack: str, made: list[tuple[str, str, dict[str, Any]]]) -> None:
    plan = judge_file(ROOT / f"Pulumi.{stack}.yaml").plan()
    pulumi.runtime.test(lambda: deploy(plan))()  # type: ignore[no-untyped-call]  # pulumi.runtime.test has none
    kinds = Counter(kind for kind, _, _ in made)
    wanted = (6, 1) if stack == "karpenter" else (4, 2)
    assert (kinds["kubernetes:helm.sh/v3:Release"], kinds["aws:eks/nodeGroup:NodeGroup"]) == wanted
