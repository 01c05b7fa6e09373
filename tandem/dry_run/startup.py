"""The time from `pulumi up` until every model answers: the longest path of the dependency graph, in typical times."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sandbox.graph import Graph, Resource
from sandbox.preview.timeline import Step, longest_path
from sharing.artifacts import images_mib
from sharing.sections.config import StackConfig
from sharing.sections.startup import (
    COMPILE_MINUTES,
    COMPILE_UNCERTAINTY,
    NODE_CLAIM,
    download_minutes,
    known_times,
    load_minutes,
    weights_mib,
)

PAIR = "tandem:index:OllamaPair"
CLUSTER = "tandem:index:GpuCluster"
STAGES = {
    "tandem:index:SpotGpuNodeGroup": "GPU nodes",
    "tandem:index:KarpenterGpuPool": "Karpenter",
    "tandem:index:DevicePluginSharing": "device plugin",
    "tandem:index:ShareProof": "proof",
    PAIR: "models",
}
"""Plain names of the components."""
SHORTEST_STAGE = 0.1
"""Minutes; shorter stages are not shown."""
RELEASE = "kubernetes:helm.sh/v3:Release"


@dataclass(frozen=True, slots=True)
class Startup:
    """The estimate and its parts."""

    minutes: float
    plus_minus: float
    path: tuple[Step, ...]


def estimate_startup(graph: Graph, config: StackConfig) -> Startup:
    """The estimate for `graph`, the program's resources for `config`: until every model answers that is not parked.

    If all are parked, or scale to zero, until every resource exists.
    """
    times = _times(graph, config)
    awake = () if config.scale_to_zero.enabled else config.active_pools
    starting = {served.id for pool in awake for served in config.models_of(pool)}
    paths = [
        longest_path(graph, lambda resource: times(resource)[0], until=resource.urn)
        for resource in graph
        if _is_model(resource, graph) and resource.inputs["name"] in starting
    ]
    path = max(paths, key=lambda steps: steps[-1].end) if paths else longest_path(graph, lambda each: times(each)[0])
    spread = math.sqrt(sum(times(graph[step.urn])[1] ** 2 for step in path))
    return Startup(minutes=path[-1].end, plus_minus=spread, path=tuple(path))


def name_stages(path: Iterable[Step], config: StackConfig) -> list[tuple[str, float]]:
    """The steps as people name them, and their minutes: control plane, system nodes, device plugin, proof, model."""
    minutes: dict[str, float] = {}
    for step in path:
        name = name_stage(step.urn, config)
        minutes[name] = minutes.get(name, 0.0) + step.minutes
    return [(name, length) for name, length in minutes.items() if length >= SHORTEST_STAGE]


def name_stage(urn: str, config: StackConfig) -> str:
    """Which part of the stack a resource belongs to, by the components above it."""
    kinds, _, name = urn.split("::", 2)[2].rpartition("::")
    component = kinds.split("$")[0]
    if component == CLUSTER:
        if "$eks:index:Cluster" in kinds:
            return "control plane"
        return "network" if "$aws:ec2/" in kinds else "system nodes"
    named = [served for served in config.models if component == PAIR and f"-{served.id}-" in f"{name}-"]
    if named:
        # The id of one model may be the beginning of another's.
        served = max(named, key=lambda served: len(served.id))
        return f"{served.model.short_name} ({weights_mib(served) / 1024:.1f} GiB)"
    return STAGES.get(component, "others")


def _times(graph: Graph, config: StackConfig) -> Callable[[Resource], tuple[float, float]]:
    """Minutes that a resource takes, and their uncertainty; types that the table lacks take no time."""
    known = known_times()
    late = {pool.name for pool in config.karpenter_pools}
    claimed = {served.id for served in config.models if served.pool in late}
    mib = {served.id: weights_mib(served) for served in config.models}
    together: dict[str, float] = {}
    for pool in () if config.scale_to_zero.enabled else config.active_pools:
        # Models that start together on the nodes of a pool share the bandwidth.
        ids = [served.id for served in config.models_of(pool)]
        together |= dict.fromkeys(ids, images_mib() + sum(mib[id] for id in ids))

    def times(resource: Resource) -> tuple[float, float]:
        minutes, spread = known.get(resource.type, (0.0, 0.0))
        if _is_model(resource, graph) and (id := str(resource.inputs["name"])) in together:
            download, download_spread = download_minutes(together[id])
            node, node_spread = known[NODE_CLAIM] if id in claimed else (0.0, 0.0)
            started = minutes + node + download + load_minutes(mib[id]) + COMPILE_MINUTES
            return started, spread + node_spread + download_spread + COMPILE_UNCERTAINTY
        return minutes, spread

    return times


def _is_model(resource: Resource, graph: Graph) -> bool:
    return resource.type == RELEASE and graph[resource.parent].type == PAIR
