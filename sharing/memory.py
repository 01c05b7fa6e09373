"""How much GPU memory the pinned engine takes for a model."""

from dataclasses import dataclass

from sharing.gpus import Gpu
from sharing.models import MIB, Served

PROCESS_MIB = 457
"""CUDA context and cuBLAS of one server process, in MiB. Source: ollama `ml/device.go` MinimumMemory."""
LOGIT_BYTES = 4
SLIDING_WINDOW_PAD = 256
"""Cells to which llama.cpp rounds a sliding-window cache up. Source: llama-kv-cache-iswa.cpp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """GPU memory of one served model, in MiB."""

    weights: float
    kv: float
    compute: float
    """Buffers for the values between the layers and for the logits."""
    context: float
    """What CUDA itself takes for a process."""
    projector: float = 0.0
    margin: float = 0.0
    """How far the prediction may be too low."""

    @property
    def buffers(self) -> float:
        """Everything besides weights and cache."""
        return self.compute + self.context + self.projector

    @property
    def total(self) -> float:
        """The prediction, without the margin."""
        return self.weights + self.kv + self.buffers

    @property
    def bound(self) -> float:
        """The prediction and its margin: what must fit."""
        return self.total + self.margin


def need(served: Served, gpu: Gpu) -> Need:
    """GPU memory that `served` takes on `gpu`."""
    model = served.model
    return Need(
        weights=model.weights_bytes / MIB,
        kv=_kv_bytes(served) / MIB,
        compute=model.vocabulary * served.batch * LOGIT_BYTES / MIB,
        context=PROCESS_MIB,
    )


def _kv_bytes(served: Served) -> float:
    model = served.model
    if model.encoder:
        return 0.0
    window = min(served.total_context, model.swa_window * served.effective_slots + served.batch)
    window = -(-window // SLIDING_WINDOW_PAD) * SLIDING_WINDOW_PAD
    cells = (model.layers - model.swa_layers) * served.total_context + model.swa_layers * window
    return 2 * model.kv_heads * model.head_dim * served.kv_type.bytes_per_value * cells
