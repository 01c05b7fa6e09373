"""Measures the memory of one model with given settings, and keeps it with the rules' prediction."""

import os
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from sharing.fit.memory import need
from sharing.models.catalogue import KvType
from tests.gpu.engine import Served, Server, free_port, llama_arguments, serving, wait_until_ready
from tests.gpu.gguf_file import write_model
from tests.gpu.machine import Machine, in_catalogue
from tests.gpu.progress import FailedError, Result
from tests.gpu.readings import read_load
from tests.gpu.shapes import Shape

START_SECONDS, ANSWER_SECONDS = 120, 240
SPARE_TOKENS = 16
"""Tokens of a context that are left for the answer."""
SPARE_BYTES = 3 * 2**30
"""Bytes of the disk that stay free beside the models."""
FIRST_WORD = 300
"""Tokens below it are control characters and bytes."""
ENVIRONMENT = {"LLAMA_ARG_CACHE_RAM": "0"}
"""No cache of earlier prompts in the host's memory: it does not belong to the measurement."""


@dataclass(frozen=True, slots=True)
class Case:
    """A model with the settings it is served with."""

    model: str
    context: int
    slots: int = 1
    kv_type: str = "f16"

    def __str__(self) -> str:
        return f"{self.model} context {self.context} slots {self.slots} kv {self.kv_type}"

    def served(self, shape: Shape) -> Served:
        """The same settings in the form of the rules."""
        kv_type = KvType(self.kv_type)
        return Served(model=shape.model, context=self.context, slots=self.slots, kv_type=kv_type)


@dataclass(frozen=True)
class Files:
    """The model files, which are written when they are needed."""

    folder: Path

    def path(self, shape: Shape) -> Path:
        """The file of this model. Removes other files if the disk is too small."""
        path = self.folder / f"{shape.model.name.replace(':', '-')}.gguf"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            self.make_room(shape.size)
            write_model(shape, path)
        return path

    def make_room(self, size: int, keep: Path | None = None) -> None:
        """Removes other model files, the oldest first, until that number of bytes fits. Raises `FailedError`."""
        for other in sorted(self.folder.glob("*.gguf"), key=os.path.getmtime):
            if shutil.disk_usage(self.folder).free > size + SPARE_BYTES:
                return
            if other != keep:
                other.unlink()
        free = shutil.disk_usage(self.folder).free
        if free <= size + SPARE_BYTES:
            raise FailedError(
                f"the disk has {free / 2**30:.0f} GiB free; {(size + SPARE_BYTES) / 2**30:.0f} are needed"
            )


def measure(case: Case, shape: Shape, programs: Path, files: Files, machine: Machine, logs: Path) -> Result:
    """Starts the engine as Ollama does, fills every slot's context, and reads the used memory."""
    served, port = case.served(shape), free_port()
    before = machine.gpu()
    command = [str(programs / "llama-server"), *llama_arguments(served, files.path(shape), port)]
    log = logs / f"{str(case).replace(' ', '-').replace(':', '-')}.log"
    with serving(command, port, log, ENVIRONMENT) as server:
        started = wait_until_ready(server, "/health", START_SECONDS)
        if before:
            check_all_on_gpu(read_load(server.lines()), log.name)
        loaded, loaded_process = machine.used_mib(), used_by(server, machine)
        tokens = fill(server, served)
        filled, filled_process = machine.used_mib(), used_by(server, machine)
        load = read_load(server.lines())
    if not load["buffers"]:
        raise FailedError(f"the engine's log names no buffers: see {log.name}")
    gpu = in_catalogue(before["name"]) if before else None
    predicted = need(served, gpu) if gpu else None
    return {
        "model": case.model,
        "context": served.effective_context,
        "slots": served.effective_slots,
        "kv_type": case.kv_type,
        "batch": served.effective_batch,
        "description": asdict(shape.model),
        **load,
        "filled_tokens": tokens,
        "start_seconds": round(started, 1),
        "gpu_mib": {"before": before and before["used_mib"], "loaded": loaded, "filled": filled},
        "process_mib": {"loaded": loaded_process, "filled": filled_process},
        "predicted_mib": predicted and {**asdict(predicted), "total": predicted.total},
    }


def fill(server: Server, served: Served) -> int:
    """Uses every slot's whole context at the same time; returns the tokens of one slot.

    The engine allocates some memory only when it computes (cuBLAS, the pool of its CUDA backend), and keeps it
    afterwards.
    """
    count = served.effective_context - SPARE_TOKENS
    if served.model.encoder:
        # The embedding endpoint takes text; each letter is a token, besides one at each end.
        server.ask("/embedding", {"content": " ".join("a" * count)}, timeout=ANSWER_SECONDS)
        return count
    source = random.Random(0)

    def fill_slot(slot: int) -> None:
        tokens = [source.randrange(FIRST_WORD, served.model.vocabulary) for _ in range(count)]
        body = {"prompt": tokens, "n_predict": 4, "cache_prompt": False, "id_slot": slot, "ignore_eos": True}
        server.ask("/completion", body, timeout=ANSWER_SECONDS)

    pool = ThreadPoolExecutor(served.effective_slots)
    try:
        list(pool.map(fill_slot, range(served.effective_slots)))
    finally:
        # Does not wait: after an error the other requests end with the server.
        pool.shutdown(wait=False, cancel_futures=True)
    return count


def check_all_on_gpu(load: Result, log: str) -> None:
    """Raises `FailedError` for a model on the CPU, whose measurement would take minutes and mean nothing."""
    on_gpu, layers = load["gpu_layers"], load["layers"]
    if on_gpu is None or on_gpu != layers:
        raise FailedError(f"the engine put {on_gpu or 0} of {layers or '?'} layers on the GPU: see {log}")


def used_by(server: Server, machine: Machine) -> int | None:
    """MiB of the GPU that the server's process holds; None where the driver does not say."""
    return next((one["mib"] for one in machine.processes() if one["pid"] == server.process.pid), None)


def measured_mib(result: Result) -> int | None:
    """The measured memory of a model: by process, or of the entire GPU if the driver hides processes."""
    if (own := result["process_mib"]["filled"]) is not None:
        return int(own)
    before, filled = result["gpu_mib"]["before"], result["gpu_mib"]["filled"]
    return None if before is None or filled is None else int(filled - before)
