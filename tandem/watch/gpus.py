"""Memory and use of each GPU, from `nvidia-smi` in the plugin's pod."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from sharing.printable import printable
from tandem.deployed.endpoints import NotConnectedError
from tandem.deployed.objects import Object, is_ready, node_of

if TYPE_CHECKING:
    from tandem.deployed.kubernetes import Cluster

PLUGIN_CONTAINERS = ("nvidia-device-plugin-ctr", "nvidia-device-plugin")
"""Names of the plugin's container, in which the driver is visible: of its own chart, and of the GPU Operator."""
QUERY = ("uuid", "name", "memory.used", "memory.total", "utilization.gpu")
NVIDIA_SMI = ["nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU. None = unknown."""

    node: str
    uuid: str
    name: str
    used_mib: float | None
    total_mib: float | None
    busy_percent: float | None
    """Part of about the last second in which a kernel ran."""


def read(cluster: "Cluster", nodes: Sequence[str], pods: Sequence[Object]) -> tuple[list[Gpu], list[str]]:
    """The GPUs of the nodes, and why those of a node are unknown; `pods` are those of all namespaces."""
    seen: list[Gpu] = []
    notes: list[str] = []
    for node in nodes:
        here = [pod for pod in pods if node_of(pod) == node and is_ready(pod)]
        try:
            seen += _of_node(cluster, node, here)
        except NotConnectedError as error:
            notes.append(f"GPUs of {node}: {error}")
    return seen, notes


def _of_node(cluster: "Cluster", node: str, pods: Sequence[Object]) -> list[Gpu]:
    for pod in pods:
        for container in pod.get("spec", {}).get("containers", ()):
            if container["name"] in PLUGIN_CONTAINERS:
                return list(from_nvidia_smi(node, cluster.run_in(dict(pod), container["name"], NVIDIA_SMI)))
    raise NotConnectedError("the device plugin is not ready on this node")


def from_nvidia_smi(node: str, printed: str) -> Iterator[Gpu]:
    """The GPUs that `NVIDIA_SMI` prints, a line each."""
    for line in printable(printed).split("\n"):
        row = [part.strip() for part in line.split(",")]
        if len(row) != len(QUERY):
            continue
        uuid, title, used, total, busy = row
        yield Gpu(
            node=node,
            uuid=uuid,
            name=title,
            used_mib=_number(used),
            total_mib=_number(total),
            busy_percent=_number(busy),
        )


def _number(text: str) -> float | None:
    """The number; None for `[N/A]` and similar text."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None
