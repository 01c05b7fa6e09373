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
    Scaling,
    ScheduledParkingArgs,
    ShareProofArgs,
    SpotGpuNodeGroupArgs,
    SpotJobArgs,
)
from components.share_proof.jobs import GPU_OPERATOR
from sharing.modes.modes import Mig, Mps, TimeSlicing

Builder = Callable[[str, pulumi.ResourceOptions | None], pulumi.ComponentResource]
TAGS = {"owner": "us", "stage": "test"}
BALANCED = Mig(strategy="mixed", layout="all-balanced")
PAIR = (
    OllamaModel("llama2:7b", context=2048),
    OllamaModel(
        "mistral:7b",
        id="mistral-7b",
        context=2048,
        slots=2,
        kv_type="q8_0",
        batch=256,
        prompt_cache_mib=512,
        cache="volume",
        volume_gib=20,
        zone="us-east-1a",
        pool="big",
        spill_pools=["rest"],
        packed=True,
        importance="high",
        resource_name="nvidia.com/mig-1g.24gb",
        scaling=Scaling(idle_minutes=20, cold_requests="refuse", longest_wait_minutes=10),
        values={"podLabels": {"team": "ml"}},
    ),
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
    "GpuCluster": lambda name: GpuClusterArgs(
        cluster_name=f"{name}-cluster",
        kubernetes="1.35",
        support="extended",
        zones=3,
        cidr="10.1.0.0/22",
        public_access_cidrs=["192.0.2.0/24"],
        admins=["arn:aws-us-gov:iam::123456789012:role/admin"],
        logs=True,
        system_types=["t4g.medium"],
        system_arch="arm64",
        system_nodes=1,
        system_zones=1,
        tags=TAGS,
    ),
    "ExistingCluster": lambda name: ExistingClusterArgs(cluster_name=name, node_subnet_ids=["subnet-1", "subnet-2"]),
    "SpotGpuNodeGroup": lambda _: SpotGpuNodeGroupArgs(
        cluster_name=pulumi.Output.from_input("cluster"),
        subnet_ids=["subnet-1"],
        zones=pulumi.Output.from_input(["zone-0"]),
        sharing=TimeSlicing(replicas=4),
        mode_taint="next",
        instance_types=["g6.xlarge", "g6.2xlarge"],
        capacity="on-demand",
        kubernetes="1.35",
        pool="big",
        min=1,
        desired=2,
        max=3,
        volume_gib=200,
        replacement="delete-first",
        security_group_ids=[pulumi.Output.from_input("sg-1"), "sg-2"],
        autoscaled=True,
        tags=TAGS,
    ),
    "KarpenterGpuPool": lambda _: KarpenterGpuPoolArgs(
        cluster_name=pulumi.Output.from_input("cluster"),
        node_subnet_ids=pulumi.Output.from_input(["subnet-1"]),
        security_group_id=pulumi.Output.from_input("sg-1"),
        more_security_group_ids=["sg-2"],
        pools=[
            KarpenterPool(
                name="spot",
                sharing=TimeSlicing(replicas=4),
                instance_types=("g4dn.xlarge", "g4dn.12xlarge"),
                on_demand_fallback=True,
                max_nodes=3,
                volume_gib=200,
            ),
            KarpenterPool(
                name="sure",
                sharing=Mps(),
                mode_taint="next",
                capacity="on-demand",
                zone=pulumi.Output.from_input("zone-0"),
            ),
        ],
        controller_replicas=1,
        values={"settings": {"batchMaxDuration": "5s"}},
        tags=TAGS,
    ),
    "DevicePluginSharing": lambda name: DevicePluginSharingArgs(
        pools=[
            PoolSharing(sharing=TimeSlicing(), gpu="t4", pool=f"{name}-gpu", mode_taint="next"),
            PoolSharing(sharing=BALANCED, gpu="rtx-pro-server-6000", pool=f"{name}-mig"),
        ],
        values={
            "nvidia-device-plugin": {"image": {"tag": "mine"}},
            "gpu-operator": {"cdi": {"enabled": False}},
            "node-feature-discovery": {"gc": {"enable": False}},
        },
    ),
    "Monitoring": lambda name: MonitoringArgs(
        service_monitors=True,
        parks=True,
        model_namespace=pulumi.Output.from_input("models"),
        karpenter=True,
        pools=[MonitoredPool(name="gpu", node_usd_per_hour=0.25, share_mib=7680, models=["llama2-7b", "mistral-7b"])],
        other_usd_per_hour=0.125,
        monitor_labels={"release": "theirs"},
        namespace=f"{name}-monitoring",
        values={
            "grafana": {"replicas": 2},
            "dcgm-exporter": {"arguments": []},
            "victoria-metrics-single": {"server": {"retentionPeriod": "7d"}},
        },
    ),
    "OllamaPair": lambda name: OllamaPairArgs(
        models=PAIR,
        namespace=f"{name}-ollama",
        clients=ModelClients(namespaces=["chat"], labels={"llm-client": "yes"}),
        scrapers=ModelClients(namespaces=["monitoring"]),
        tags=TAGS,
    ),
    "OpenWebUI": lambda name: OpenWebUIArgs(
        model_urls=[
            pulumi.Output.from_input("http://llama2-7b.ollama:11434"),
            "http://mistral-7b.ollama:11434",
        ],
        admin_email="ops@example.com",
        namespace=f"{name}-open-webui",
        clients=ModelClients(namespaces=["chat"]),
        storage_gib=4,
        zone=pulumi.Output.from_input("us-east-1a"),
        embedding_url=pulumi.Output.from_input("http://nomic-embed-text.ollama:11434"),
        embedding_model="nomic-embed-text",
        chunk_characters=500,
        tags=TAGS,
    ),
    "ScaleToZero": lambda name: ScaleToZeroArgs(
        models=["llama2-7b", "mistral-7b"],
        model_namespace="models",
        clients=ModelClients(namespaces=["chat"], labels={"llm-client": "yes"}),
        namespace=f"{name}-keda",
        values={"keda": {"watchNamespace": "models"}, "keda-add-ons-http": {"interceptor": {"replicas": {"max": 2}}}},
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
        gpus_per_node=2,
        instance_types=["g4dn.xlarge", "g4dn.2xlarge"],
        mode_taint="next",
        plugin=GPU_OPERATOR,
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
"""The arguments of each component, for an instance of this name: as few as possible with their defaults."""


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
