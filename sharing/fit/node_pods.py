"""Pods of a stack besides the models and their check: `data/node_pods.csv`."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from sharing import tables
from sharing.fit.karpenter import count_controllers
from sharing.modes.modes import Sharing
from sharing.sections.config import StackConfig
from sharing.sections.pools import GpuPool


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePod:
    """A kind of pod: one on each node, or a total number for all nodes."""

    name: str
    count: int
    cpu_millis: int
    memory_mib: int
    """RAM that one pod takes; see the row's source."""


def on_gpu_node(config: StackConfig, pool: GpuPool) -> list[NodePod]:
    """The pods on each node of the pool besides the models, e.g. the exporter of GPU metrics."""
    # The GPU Operator has an exporter of its own.
    exporter = ["metrics"] if config.monitoring.has_metrics and not pool.sharing.needs_mig_manager else []
    return _pods(("every", "gpu"), [*_parts(pool.sharing), *exporter])


def on_each_system_node() -> list[NodePod]:
    """The pods that every system node has."""
    return _pods(("every",), ())


def on_system_nodes(config: StackConfig, of_features: Collection[str]) -> list[NodePod]:
    """The pods of all system nodes of `config` in total, besides those that each node has.

    `of_features` are the values of `when` that optional features add.
    """
    parts = {part for pool in config.pools for part in (*_parts(pool.sharing), pool.provisioner)}
    counts = {"karpenter": count_controllers(config.cluster.system_nodes.count)}
    pods = _pods(("system",), parts | {*of_features})
    return [replace(pod, count=counts.get(pod.name, pod.count)) for pod in pods]


def _parts(sharing: Sharing) -> list[str]:
    return [part for part, runs in (("mps", sharing.needs_mps_daemon), ("mig", sharing.needs_mig_manager)) if runs]


def _pods(nodes: Collection[str], parts: Collection[str]) -> list[NodePod]:
    return [
        NodePod(
            name=row["pod"],
            count=int(row["count"] or "1"),
            cpu_millis=int(row["cpu_millis"]),
            memory_mib=int(row["memory_mib"]),
        )
        for row in tables.read("node_pods").rows
        if row["nodes"] in nodes and (not row["when"] or row["when"] in parts)
    ]
