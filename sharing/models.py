"""Catalogue of language models as Ollama serves them, from `data/models.csv`, and what one of them needs."""

from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from sharing import tables

MIB = 2**20
PROCESS_MIB = 457
"""CUDA context and cuBLAS of one server process, in MiB. Source: ollama `ml/device.go` MinimumMemory."""
LOGIT_BYTES = 4
SLIDING_WINDOW_PAD = 256
"""Cells to which llama.cpp rounds a sliding-window cache up. Source: llama-kv-cache-iswa.cpp."""


class KvType(StrEnum):
    """How Ollama stores the KV cache (`OLLAMA_KV_CACHE_TYPE`); the quantised ones need flash attention."""

    F16 = "f16"
    Q8_0 = "q8_0"
    Q4_0 = "q4_0"

    @property
    def bytes_per_value(self) -> float:
        """f16 has two bytes; q8_0 puts 32 values into 34 bytes, q4_0 into 18."""
        return {"f16": 2.0, "q8_0": 34 / 32, "q4_0": 18 / 32}[self.value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """Weights and shape of one model tag."""

    name: str
    weights_bytes: int
    layers: int
    kv_heads: int
    head_dim: int
    max_context: int
    """Tokens the model was made for; 0 when unknown (a model of one's own)."""
    swa_layers: int = 0
    """Layers that look back over a sliding window only."""
    swa_window: int = 0
    """Tokens of that window."""
    vocabulary: int
    encoder: bool = False
    """An embedding model: no KV cache that grows, one request at a time."""
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A model with the settings it is served with."""

    id: str
    """Name of its release, e.g. `llama2-7b`."""
    model: Model
    context: int
    """Tokens per request, as asked for."""
    slots: int
    """Requests at a time (`OLLAMA_NUM_PARALLEL`)."""
    kv_type: KvType = KvType.F16

    @property
    def effective_context(self) -> int:
        """Tokens per request that Ollama really gives: never more than the model was made for."""
        return min(self.context, self.model.max_context or self.context)

    @property
    def effective_slots(self) -> int:
        """Ollama serves embedding models one request at a time, whatever is asked for."""
        return 1 if self.model.encoder else self.slots

    @property
    def total_context(self) -> int:
        """Tokens of all slots together: what the KV cache is made for."""
        return self.effective_context * self.effective_slots

    @property
    def batch(self) -> int:
        """Tokens per step. Ollama picks it from the total context; we pass the same number so that it is fixed.

        Source: ollama `server/sched.go` automaticGenerationBatch.
        """
        if self.total_context <= 4096:
            return 512
        return 1024 if self.total_context <= 32768 else 2048


@dataclass(frozen=True, slots=True)
class Need:
    """GPU memory of one served model, in MiB."""

    weights: float
    kv: float
    buffers: float

    @property
    def total(self) -> float:
        return self.weights + self.kv + self.buffers


def need(served: Served) -> Need:
    """GPU memory that `served` takes: weights + KV cache + logits of one batch + the process itself, in MiB."""
    model = served.model
    logits = model.vocabulary * served.batch * LOGIT_BYTES / MIB
    return Need(model.weights_bytes / MIB, _kv_bytes(served) / MIB, logits + PROCESS_MIB)


def _kv_bytes(served: Served) -> float:
    model = served.model
    if model.encoder:
        return 0.0
    window = min(served.total_context, model.swa_window * served.effective_slots + served.batch)
    window = -(-window // SLIDING_WINDOW_PAD) * SLIDING_WINDOW_PAD
    cells = (model.layers - model.swa_layers) * served.total_context + model.swa_layers * window
    return 2 * model.kv_heads * model.head_dim * served.kv_type.bytes_per_value * cells


@cache
def models() -> dict[str, Model]:
    """Every model of the catalogue by its Ollama tag."""
    return {
        row["model"]: Model(
            name=row["model"],
            weights_bytes=int(row["weights_bytes"]),
            layers=int(row["layers"]),
            kv_heads=int(row["kv_heads"]),
            head_dim=int(row["head_dim"]),
            max_context=int(row["max_context"]),
            swa_layers=int(row["swa_layers"]),
            swa_window=int(row["swa_window"]),
            vocabulary=int(row["vocabulary"]),
            encoder=row["encoder"] == "yes",
            source=row["source"],
        )
        for row in tables.read("models").rows
    }


def largest_vocabulary() -> int:
    """What a model of one's own is taken to have when it does not say: the largest of the catalogue."""
    return max(model.vocabulary for model in models().values())
