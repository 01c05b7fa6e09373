"""A program of one's own that passes its nodes: its models get what those of a stack with the same values get."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pulumi
import pytest

from components.planned_pools import GpuNodes
from sandbox.graph import Graph, plain
from sandbox.preview.program import run
from sharing.names import MODE_TAINT
from sharing.sections.pools import GpuPool
from stacks.stack_file.judge import Plan
from tandem import (
    DevicePluginSharing,
    KarpenterGpuPool,
    KarpenterPool,
    Mps,
    OllamaModel,
    OllamaPair,
    OllamaPairArgs,
    PoolSharing,
    SpotGpuNodeGroup,
    SpotGpuNodeGroupArgs,
    TimeSlicing,
)
from tests.program.conftest import graph_with

Graphs = Callable[[str], Graph]
Plans = Callable[[str], Plan]
UNCHECKED = (
    "OllamaPair mine: nothing checks whether its models fit their GPU, its sharing mode and the RAM of its nodes. "
    "Pass the nodes as `runs_on`."
)
STACKS = (
    "timeslice",
    "mps",
    "mig",
    "mig-mixed",
    "per-model",
    "exclusive",
    "karpenter",
    "pools",
    "volumes",
    "placed",
    "karpenter-limits",
)


def nodes_of(pool: GpuPool) -> Any:
    """The nodes of a pool, as a program has them."""
    if pool.provisioner == "karpenter":
        return KarpenterPool(
            name=pool.name,
            sharing=pool.sharing,
            instance_types=pool.instance_types,
            capacity=pool.capacity,
            max_nodes=pool.max,
            volume_gib=pool.volume_gib,
        )
    return SpotGpuNodeGroupArgs(
        cluster_name="c",
        subnet_ids=["s"],
        sharing=pool.sharing,
        pool=pool.name,
        instance_types=pool.instance_types,
        capacity=pool.capacity,
        min=pool.min,
        desired=pool.desired,
        max=pool.max,
        volume_gib=pool.volume_gib,
    )


def releases(graph: Graph) -> dict[str, dict[str, Any]]:
    """The values of the models' releases, by the id of the model, without the taint, which has a number in a stack."""
    found = {}
    for resource in graph.of_type("kubernetes:helm.sh/v3:Release"):
        inputs = plain(resource.inputs)
        if inputs["chart"] == "ollama":
            values = {key: value for key, value in inputs["values"].items() if key != "tolerations"}
            found[inputs["name"]] = values
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", STACKS)
def test_models_get_what_those_of_a_stack_get(name: str, plans: Plans, graphs: Graphs) -> None:
    plan = plans(name)
    config = plan.config
    pools = [nodes_of(pool) for pool in config.pools]
    models = [
        OllamaModel(
            served.model,
            id=served.id,
            context=served.effective_context,
            slots=served.slots,
            kv_type=served.kv_type,
            batch=served.batch,
            prompt_cache_mib=served.prompt_cache_mib,
            cache=served.cache,
            zone="us-east-1a" if served.cache == "volume" else None,
            pool=served.pool if len(pools) > 1 else None,
            spill_pools=served.spill,
            importance=served.importance,
            share=served.share,
        )
        for served in config.models
    ]
    scrapers = {"namespaces": ["m"]} if config.monitoring.has_metrics else None
    graph = run(
        lambda: OllamaPair("mine", models=models, runs_on=pools, scrapers=scrapers), project="mine", stack="test"
    )
    assert releases(graph)
    assert releases(graph) == releases(graphs(name))
    assert not any("nothing checks" in log.message for log in (*graph.logs, *graphs(name).logs))


FOLLOW: dict[str, Callable[[], Any]] = {
    "a node group": lambda: SpotGpuNodeGroup("gpu", cluster_name="c", subnet_ids=["s"], sharing=Mps(replicas=3)),
    "its arguments": lambda: SpotGpuNodeGroupArgs(cluster_name="c", subnet_ids=["s"], sharing=Mps(replicas=3)),
    "a pool of Karpenter": lambda: KarpenterPool(name="gpu", sharing=Mps(replicas=3)),
    "Karpenter": lambda: KarpenterGpuPool(
        "k",
        cluster_name="c",
        node_subnet_ids=["s"],
        security_group_id="g",
        pools=[KarpenterPool(name="gpu", sharing=Mps(replicas=3))],
    ),
    "a list": lambda: [KarpenterPool(name="gpu", sharing=Mps(replicas=3))],
    "the sharing of a node group": lambda: PoolSharing(
        sharing=Mps(replicas=3),
        gpu="t4",
        nodes=SpotGpuNodeGroup("gpu", cluster_name="c", subnet_ids=["s"], sharing=Mps(replicas=3)),
    ),
    "the plugin": lambda: DevicePluginSharing(
        "d", pools=[{"sharing": {"mode": "mps", "replicas": 3}, "gpu": "t4", "mode_taint": "mps-3"}]
    ),
    "its taint": lambda: PoolSharing(sharing=Mps(replicas=3), gpu="t4", mode_taint=pulumi.Output.from_input("mps-3")),
}


@pytest.mark.parametrize("nodes", FOLLOW)
def test_a_model_tolerates_the_taint_of_its_nodes_and_requires_their_daemon(nodes: str) -> None:
    def program() -> None:
        models = [{"model": "llama3.2:1b", "context": 2048}]
        OllamaPair("mine", models=models, runs_on=FOLLOW[nodes]())

    [values] = [plain(one.inputs)["values"] for one in released(program)]
    # SpotGpuNodeGroup and KarpenterPool document this value of the taint.
    assert {"key": MODE_TAINT, "operator": "Equal", "value": "mps-3"} in values["tolerations"]
    assert {"name": "TANDEM_MPS", "value": "required"} in values["extraEnv"]


def test_a_model_waits_for_the_slices_of_mig_and_requests_one() -> None:
    def program() -> None:
        pool = {"sharing": {"mode": "mig", "strategy": "mixed", "layout": "all-1g.24gb"}, "gpu": "rtx-pro-server-6000"}
        OllamaPair("mine", models=[{"model": "llama3.2:1b"}], runs_on=pool)

    [values] = [plain(one.inputs)["values"] for one in released(program)]
    # gpu-operator v26.7.0, controllers/state_manager.go, and k8s-device-plugin v0.20.0: names of resources by profile.
    assert values["nodeSelector"]["nvidia.com/mig.config.state"] == "success"
    assert values["ollama"]["gpu"]["nvidiaResource"] == "nvidia.com/mig-1g.24gb"


@pytest.mark.slow
def test_a_stack_with_a_context_that_its_plan_warns_about_is_deployed() -> None:
    """The component refuses such a context, so the program passes the one that the engine uses."""
    graph = graph_with("timeslice", {"models": [{"name": "llama2:7b", "context": 8192}]})
    environment = {one["name"]: one["value"] for one in releases(graph)["llama2-7b"]["extraEnv"]}
    assert environment["OLLAMA_CONTEXT_LENGTH"] == "4096"


def released(program: Callable[[], None]) -> list[Any]:
    graph = run(program, project="mine", stack="test")
    releases = graph.of_type("kubernetes:helm.sh/v3:Release")
    return [release for release in releases if plain(release.inputs)["chart"] == "ollama"]


def messages(**args: Any) -> list[str]:
    """What a program with one small model logs."""

    def program() -> None:
        OllamaPair("mine", models=[{"model": "llama3.2:1b"}], **args)

    return [log.message for log in run(program, project="mine", stack="test").logs]


def test_without_nodes_one_warning_says_what_nobody_checks() -> None:
    assert messages() == [UNCHECKED]
    assert messages(runs_on={"sharing": {"mode": "timeslice"}, "gpu": "t4"}) == []


def test_a_warning_of_the_plan_is_logged() -> None:
    unverified = (
        "OllamaPairArgs.runs_on.sharing.mode: mps is not officially supported by Ollama (ollama#9765). "
        "Check the pod logs after `up`, or use `timeslice`."
    )
    assert messages(runs_on=PoolSharing(sharing=Mps(), gpu="t4")) == [unverified]


def planned(**args: Any) -> GpuPool:
    pool = PoolSharing(**{"sharing": TimeSlicing(), **args})
    assert isinstance(pool, GpuNodes)
    [found] = pool.planned_pools
    return found.pool


def test_a_pool_is_judged_with_the_smallest_type_that_has_its_gpu() -> None:
    # aws.amazon.com/ec2/instance-types/g4, g6 and p5: the smallest with one GPU of these kinds.
    types = {gpu: planned(gpu=gpu).instance_types for gpu in ("t4", "l4", "h100")}
    assert types == {"t4": ["g4dn.xlarge"], "l4": ["g6.xlarge"], "h100": ["p5.4xlarge"]}
    assert planned(gpu="t4", instance_types=["g4dn.2xlarge"]).instance_types == ["g4dn.2xlarge"]


def test_a_pool_without_nodes_counts_shares_by_its_maximum() -> None:
    models = [{"model": "llama3.2:1b", "id": id} for id in ("one", "two", "three")]

    def judge(nodes: int) -> None:
        OllamaPairArgs(
            models=models,  # type: ignore[arg-type]  # mypy knows no dictionaries
            runs_on=PoolSharing(sharing=TimeSlicing(), gpu="t4", max_nodes=nodes),
        )

    with pytest.raises(ValueError, match=r"3 models on gpu for 2 shares\. Pass `runs_on\.max_nodes=2`; or "):
        judge(1)
    judge(2)


OTHER: dict[str, Any] = {"capacity": "on-demand", "volume_gib": 77, "instance_types": ["g4dn.2xlarge"]}
MORE: dict[str, Any] = {"min": 1, "desired": 2, "max": 3, "replacement": "delete-first"}


class Registered(pulumi.Resource):
    """Nodes that a program has registered."""

    def __init__(self, nodes: GpuNodes) -> None:
        self.planned_pools = nodes.planned_pools


def test_the_rules_read_every_setting_of_the_nodes() -> None:
    given: dict[str, Any] = {**OTHER, "sharing": TimeSlicing(), "mode_taint": "mine"}
    group = SpotGpuNodeGroupArgs(cluster_name="c", subnet_ids=["s"], **given, **MORE)
    karpenter = KarpenterPool(name="gpu", max_nodes=4, on_demand_fallback=True, **given)
    counted = {"provisioner": "karpenter", "on_demand_fallback": True, "desired": 4, "max": 4}
    expected: list[tuple[Any, dict[str, Any]]] = [(group, {**OTHER, **MORE}), (karpenter, {**OTHER, **counted})]
    for nodes, passed in expected:
        # AWS knows what the region offers.
        settings = {**passed, "check_offers": False}
        [found] = nodes.planned_pools
        assert {name: getattr(found.pool, name) for name in settings} == settings
        assert (found.pool.name, found.pool.sharing, found.mode_taint) == ("gpu", TimeSlicing(), "mine")
        own = PoolSharing(sharing=Mps(), gpu="t4", nodes=Registered(nodes), mode_taint="other")
        [shared] = own.planned_pools
        assert {name: getattr(shared.pool, name) for name in settings} == settings
        assert (shared.pool.sharing, shared.mode_taint) == (Mps(), "other")
        assert replace(own, mode_taint=None).planned_pools[0].mode_taint == "mine"


def test_the_nodes_of_a_pool_say_more_than_its_gpu() -> None:
    nodes = SpotGpuNodeGroupArgs(
        cluster_name="c", subnet_ids=["s"], sharing=TimeSlicing(), instance_types=["g4dn.2xlarge"], desired=2, max=3
    )
    # One node of the smaller type lacks 4,120 MiB of RAM for these (`tests/components/wrong_programs.yaml`).
    models = [OllamaModel(name, prompt_cache_mib=8192) for name in ("llama2:7b", "mistral:7b")]
    OllamaPairArgs(models=models, runs_on=nodes)
    OllamaPairArgs(models=models, runs_on=PoolSharing(sharing=TimeSlicing(), gpu="t4", instance_types=["g4dn.2xlarge"]))


def test_a_share_without_memory_gets_the_limit_that_the_gpu_allows() -> None:
    """Without the GPU, such a share is an error (`tests/components/test_public_api.py`)."""
    shares = {"llama2:7b": {"compute_percent": 60}, "llama3.2:1b": {"memory_gib": 3}}

    def program() -> None:
        models = [{"model": name, "context": 2048, "share": share} for name, share in shares.items()]
        OllamaPair("mine", models=models, runs_on=PoolSharing(sharing=Mps(limits="per-model"), gpu="t4"))

    limits = {}
    for one in released(program):
        inputs = plain(one.inputs)
        environment = {each["name"]: each["value"] for each in inputs["values"]["extraEnv"]}
        limits[inputs["name"]] = environment["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"]
    # 14,846 MiB of a T4 less the other model's 3 GiB.
    assert limits == {"llama2-7b": f"0={14846 - 3072}M", "llama3-2-1b": "0=3072M"}
