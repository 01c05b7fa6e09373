"""A builder for each component, for tests that apply to all components."""

import asyncio
from collections.abc import Callable
from typing import Any

import pulumi
import pytest

import components
from components import (
    BucketCheckpoints,
    CostAlertArgs,
    DevicePluginSharingArgs,
    ExistingClusterArgs,
    GpuClusterArgs,
    KarpenterGpuPoolArgs,
    KarpenterPool,
    ModelClients,
    MonitoredPool,
    MonitoringArgs,
    OllamaModel,
    OllamaPairArgs,
    OpenWebUIArgs,
    ParkedNodeGroup,
    PoolSharing,
    ScaleToZeroArgs,
    ScheduledParkingArgs,
    ShareProofArgs,
    SpotGpuNodeGroupArgs,
    SpotJobArgs,
)
from sharing.modes.modes import Mig, Mps, TimeSlicing

Builder = Callable[[str, pulumi.ResourceOptions | None], pulumi.ComponentResource]
TAGS = {"owner": "us", "stage": "test"}
BALANCED = Mig(strategy="mixed", layout="all-balanced")
PAIR = (
    OllamaModel("llama2:7b", context=2048),
    OllamaModel("mistral:7b", context=2048, slots=2, cache="volume", zone="us-east-1a"),
)


class Mocks(pulumi.runtime.Mocks):
    """Mocks as in Pulumi's documentation. They record type, name and inputs of each resource."""

    def __init__(self) -> None:
        self.made: list[tuple[str, str, dict[str, Any]]] = []

    def new_resource(self, args: pulumi.runtime.MockResourceArgs) -> tuple[str | None, dict[Any, Any]]:
        self.made.append((args.typ, args.name, dict(args.inputs)))
        return f"{args.name}-id", dict(args.inputs)

    def call(self, args: pulumi.runtime.MockCallArgs) -> dict[Any, Any]:  # type: ignore[override]  # as docs show it
        del args
        return {}


ARGUMENTS: dict[str, Callable[[str], Any]] = {
    "CostAlert": lambda _: CostAlertArgs(
        max_usd=100, emails=["ops@example.com"], only_tagged={"owner": "us"}, tags=TAGS
    ),
    "GpuCluster": lambda name: GpuClusterArgs(cluster_name=f"{name}-cluster", logs=True, tags=TAGS),
    "ExistingCluster": lambda name: ExistingClusterArgs(cluster_name=name, node_subnet_ids=["subnet-1", "subnet-2"]),
    "SpotGpuNodeGroup": lambda _: SpotGpuNodeGroupArgs(
        cluster_name=pulumi.Output.from_input("cluster"),
        subnet_ids=["subnet-1"],
        sharing=TimeSlicing(replicas=4),
        tags=TAGS,
    ),
    "KarpenterGpuPool": lambda _: KarpenterGpuPoolArgs(
        cluster_name=pulumi.Output.from_input("cluster"),
        node_subnet_ids=pulumi.Output.from_input(["subnet-1"]),
        security_group_id=pulumi.Output.from_input("sg-1"),
        pools=[
            KarpenterPool(
                name="spot", sharing=TimeSlicing(replicas=4), instance_types=("g4dn.xlarge", "g4dn.12xlarge")
            ),
            KarpenterPool(name="sure", sharing=Mps(), capacity="on-demand", zone=pulumi.Output.from_input("zone-0")),
        ],
        tags=TAGS,
    ),
    "DevicePluginSharing": lambda name: DevicePluginSharingArgs(
        pools=[
            PoolSharing(sharing=TimeSlicing(), gpu="t4", pool=f"{name}-gpu"),
            PoolSharing(sharing=BALANCED, gpu="rtx-pro-server-6000", pool=f"{name}-mig"),
        ]
    ),
    "Monitoring": lambda name: MonitoringArgs(
        service_monitors=True,
        model_namespace=pulumi.Output.from_input("ollama"),
        pools=[MonitoredPool(name="gpu", node_usd_per_hour=0.25, share_mib=7680)],
        other_usd_per_hour=0.125,
        namespace=f"{name}-monitoring",
    ),
    "OllamaPair": lambda name: OllamaPairArgs(models=PAIR, namespace=f"{name}-ollama", tags=TAGS),
    "OpenWebUI": lambda name: OpenWebUIArgs(
        model_urls=[
            pulumi.Output.from_input("http://llama2-7b.ollama:11434"),
            "http://mistral-7b.ollama:11434",
        ],
        admin_email="ops@example.com",
        namespace=f"{name}-open-webui",
        storage_gib=4,
        zone=pulumi.Output.from_input("us-east-1a"),
        embedding_url=pulumi.Output.from_input("http://nomic-embed-text.ollama:11434"),
        embedding_model="nomic-embed-text",
        tags=TAGS,
    ),
    "ScaleToZero": lambda name: ScaleToZeroArgs(
        models=["llama2-7b", "mistral-7b"],
        clients=ModelClients(namespaces=["chat"], labels={"llm-client": "yes"}),
        namespace=f"{name}-keda",
    ),
    "ScheduledParking": lambda _: ScheduledParkingArgs(
        schedule="0 20 * * MON-FRI",
        wake="30 8 1 * *",
        timezone="Europe/Paris",
        node_groups={
            "gpu": ParkedNodeGroup(
                cluster_name=pulumi.Output.from_input("cluster"), node_group_name=pulumi.Output.from_input("gpu-nodes")
            ),
            "big": ParkedNodeGroup(cluster_name="cluster", node_group_name="big-nodes", nodes=2),
        },
        deployments=["llama2-7b", "mistral-7b"],
        namespace="models",
        tags=TAGS,
    ),
    "ShareProof": lambda name: ShareProofArgs(
        sharing=Mps(replicas=4),
        gpu="t4",
        pool="big",
        instance_types=["g4dn.xlarge", "g4dn.2xlarge"],
        tolerations=[{"key": "team", "operator": "Equal", "value": "ml"}],
        namespace=f"{name}-proof",
    ),
    "SpotJob": lambda name: SpotJobArgs(
        image="example.com/train:1",
        command=["python", "train.py"],
        checkpoints=BucketCheckpoints(
            cluster_name=pulumi.Output.from_input("cluster"), bucket=pulumi.Output.from_input("mine"), prefix=name
        ),
        queue="rest",
        tags=TAGS,
    ),
}
"""The arguments of each component, for an instance of this name."""


def _builder(kind: str) -> Builder:
    def build(name: str, opts: pulumi.ResourceOptions | None) -> pulumi.ComponentResource:
        made: pulumi.ComponentResource = getattr(components, kind)(name, ARGUMENTS[kind](name), opts)
        return made

    return build


BUILDERS = {kind: _builder(kind) for kind in ARGUMENTS}


@pytest.fixture(autouse=True)
def event_loop_of_the_thread() -> None:
    """Pulumi's `set_mocks` needs an event loop. A test that called `asyncio.run` earlier has removed it."""
    try:
        asyncio.get_event_loop()
    except RuntimeError:
        asyncio.set_event_loop(asyncio.new_event_loop())


@pytest.fixture(scope="session", params=sorted(BUILDERS))
def component(request: pytest.FixtureRequest) -> str:
    return str(request.param)
