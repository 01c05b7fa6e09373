"""Reads the allocated memory from the engine's log. Text in, numbers out."""

import re
from collections.abc import Iterable

from tests.gpu.progress import Result

BUFFER = re.compile(
    r":\s+(?P<device>\S+)\s+(?P<kind>model|KV|RS|compute|output)\s+buffer size\s*=\s*(?P<mib>[\d.]+)\s*MiB"
)
"""A line like `load_tensors:        CUDA0 model buffer size =   604.15 MiB`. Ollama looks for the same
(llm/llama_server.go, `bufferSizeRegex`), and `--log-verbosity 4` keeps it visible. RS is recurrent state."""
OFFLOADED = re.compile(r"offloaded\s+(\d+)/(\d+)\s+layers to GPU")
OF_THE_HOST = ("CPU", "BLAS")


def read_load(lines: Iterable[str]) -> Result:
    """The `buffers` of the last load in a log, and how many `gpu_layers` of its `layers` are on the GPU.

    The engine may load twice: first without memory, to see what fits. A weights line after any other buffer starts
    a new load. Of the compute buffer of one device the last line counts, since it is allocated again when it grows; a
    model with a sliding window has two KV lines for one device, which add up.
    """
    found: list[Result] = []
    layers: tuple[int | None, int | None] = (None, None)
    for line in lines:
        if offloaded := OFFLOADED.search(line):
            layers = int(offloaded[1]), int(offloaded[2])
        if not (match := BUFFER.search(line)):
            continue
        one = {"device": match["device"], "kind": match["kind"], "mib": float(match["mib"])}
        if one["kind"] == "model" and any(other["kind"] != "model" for other in found):
            found.clear()
        if one["kind"] in ("compute", "output"):
            found = [other for other in found if (other["device"], other["kind"]) != (one["device"], one["kind"])]
        found.append(one)
    return {"buffers": found, "gpu_layers": layers[0], "layers": layers[1]}


def gpu_mib(buffers: Iterable[Result], *kinds: str) -> float:
    """Sum of these kinds of buffers in the GPU's memory: not the CPU's, and not pinned memory of the host."""
    return sum(
        float(buffer["mib"])
        for buffer in buffers
        if buffer["kind"] in kinds
        and not buffer["device"].startswith(OF_THE_HOST)
        and not buffer["device"].endswith("_Host")
    )
