"""The components in users' own tests, with Pulumi's mocks: invokes return nothing, and components have no children."""

from operator import attrgetter
from typing import Any

import pulumi
import pytest

from components import ExistingVpc, GpuCluster, GpuClusterArgs
from components.share_proof.expectation import expectations, verified
from sharing.hardware.gpus import gpus
from sharing.modes.modes import Mps
from tests.components.conftest import BUILDERS, Mocks

[SHARES] = expectations(Mps(replicas=4), gpus()["t4"], 2)
OUTPUTS: dict[str, dict[str, Any]] = {
    "CostAlert": {"budget_id": "theirs-monthly-tagged-id"},
    "GpuCluster": {
        "cluster_name": "theirs-cluster",
        "node_subnet_ids": [f"theirs-private-{number}-id" for number in range(3)],
        "zone_names": ["zone-0", "zone-1", "zone-2"],
        "system_nodes.id": "theirs-system-id",
    },
    "ExistingCluster": {
        "cluster_name": "theirs",
        "node_subnet_ids": ["subnet-1", "subnet-2"],
        "zone_names": ["zone of subnet-1", "zone of subnet-2"],
    },
    "SpotGpuNodeGroup": {
        "node_group.labels": {
            "tandem/pool": "big",
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
    "ShareProof": {"verified_shares": {"nvidia.com/gpu": verified(SHARES)}},
}


@pytest.mark.slow
def test_every_component_has_its_outputs(component: str) -> None:
    wanted, found = OUTPUTS[component], dict[str, Any]()
    pulumi.runtime.set_mocks(Mocks(), project="theirs", stack="test")

    @pulumi.runtime.test
    def program() -> pulumi.Output[None]:
        made = BUILDERS[component]("theirs", None)
        return pulumi.Output.all(**{name: attrgetter(name)(made) for name in wanted}).apply(found.update)

    program()
    assert found == wanted


def test_a_cluster_in_an_existing_vpc_has_its_outputs() -> None:
    found = dict[str, Any]()
    mocks = Mocks()
    pulumi.runtime.set_mocks(mocks, project="theirs", stack="test")

    @pulumi.runtime.test
    def program() -> pulumi.Output[None]:
        subnets: list[pulumi.Input[str]] = [pulumi.Output.from_input("subnet-1"), "subnet-2"]
        vpc = ExistingVpc(id=pulumi.Output.from_input("vpc-1"), subnet_ids=subnets, security_group_ids=["sg-1"])
        made = GpuCluster("theirs", GpuClusterArgs(cluster_name="theirs", vpc=vpc))
        return pulumi.Output.all(subnets=made.node_subnet_ids, zones=made.zone_names).apply(found.update)

    program()
    assert found == {"subnets": ["subnet-1", "subnet-2"], "zones": ["zone-0", "zone-1"]}
    assert not [kind for kind, _, _ in mocks.made if kind.startswith("aws:ec2/") and "launchTemplate" not in kind]
