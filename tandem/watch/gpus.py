"""Memory and use of each GPU: from the DCGM exporter if one runs, else from `nvidia-smi` in the plugin's pod."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING

from sharing.printable import printable
from tandem.deployed.endpoints import NotConnectedError
from tandem.deployed.objects import Object, is_ready, labels, name, node_of
from tandem.deployed.wire import ERROR, Wire, WireError

if TYPE_CHECKING:
    from tandem.deployed.forwarding import Forward
    from tandem.deployed.kubernetes import Cluster

EXPORTERS: tuple[tuple[str, str], ...] = (
    ("app.kubernetes.io/name", "dcgm-exporter"),
    ("app", "nvidia-dcgm-exporter"),
)
"""Labels of the exporter's pods: of its own chart, and of the GPU Operator."""
EXPORTER_PORT = 9400
METRICS_SECONDS = 10.0
PLUGIN_CONTAINERS = ("nvidia-device-plugin-ctr", "nvidia-device-plugin")
"""Names of the plugin's container, in which the driver is visible: of its own chart, and of the GPU Operator."""
QUERY = ("uuid", "name", "memory.used", "memory.total", "utilization.gpu")
NVIDIA_SMI = ["nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits"]
METRICS = {"DCGM_FI_DEV_FB_USED": "used", "DCGM_FI_DEV_FB_FREE": "free", "DCGM_FI_DEV_GPU_UTIL": "busy"}
SAMPLE = re.compile(r'^(?P<metric>\w+)\{(?P<labels>(?:[^"}]|"(?:[^"\\]|\\.)*")*)\}\s+(?P<value>\S+)')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A GPU, or a MIG slice of one. None = unknown."""

    node: str
    uuid: str
    name: str
    used_mib: float | None
    total_mib: float | None
    busy_percent: float | None
    """Part of about the last second in which a kernel ran; slices do not report it."""
    source: str


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
        for label, value in EXPORTERS:
            if labels(pod).get(label) == value:
                leads = cluster.forward(
                    name(pod), pod["metadata"]["namespace"], {label: value}, EXPORTER_PORT, on_node=node
                )
                return list(from_dcgm(node, _metrics(leads)))
    for pod in pods:
        for container in pod.get("spec", {}).get("containers", ()):
            if container["name"] in PLUGIN_CONTAINERS:
                return list(from_nvidia_smi(node, cluster.run_in(dict(pod), container["name"], NVIDIA_SMI)))
    raise NotConnectedError("neither a DCGM exporter nor the device plugin is ready on this node")


def _metrics(leads: "AbstractContextManager[Forward]") -> str:
    with leads as forward, closing(Wire(forward.url)) as exporter:
        try:
            status, body = exporter.get("/metrics", METRICS_SECONDS)
        except WireError as error:
            raise NotConnectedError(forward.trouble or f"the DCGM exporter {error}") from None
    if status >= ERROR:
        raise NotConnectedError(f"the DCGM exporter answered with {status}")
    return body.decode(errors="replace")


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
            source="nvidia-smi",
        )


def from_dcgm(node: str, text: str) -> Iterator[Gpu]:
    """The GPUs and slices in the metrics of a DCGM exporter.

    With virtual GPUs on, a GPU's series is repeated for each pod, with the pod's part: the largest is the GPU's.
    """
    values: dict[tuple[str, str], dict[str, float]] = {}
    names: dict[tuple[str, str], str] = {}
    for metric, tags, value in _samples(text):
        key = tags.get("UUID", ""), tags.get("GPU_I_ID", "")
        part = values.setdefault(key, {})
        part[METRICS[metric]] = max(part.get(METRICS[metric], value), value)
        profile = tags.get("GPU_I_PROFILE", "")
        names[key] = " ".join(filter(None, (tags.get("modelName", "GPU"), profile)))
    for key, part in values.items():
        used, free = part.get("used"), part.get("free")
        yield Gpu(
            node=node,
            uuid="/".join(filter(None, key)),
            name=names[key],
            used_mib=used,
            total_mib=None if used is None or free is None else used + free,
            busy_percent=part.get("busy"),
            source="DCGM",
        )


def _samples(text: str) -> Iterator[tuple[str, Mapping[str, str], float]]:
    for line in printable(text).split("\n"):
        sample = SAMPLE.match(line)
        value = _number(sample["value"]) if sample else None
        if sample and sample["metric"] in METRICS and value is not None:
            yield sample["metric"], dict(LABEL.findall(sample["labels"])), value


def _number(text: str) -> float | None:
    """The number; None for `[N/A]` and similar text."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None
