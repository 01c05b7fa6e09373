"""GPU memory that the pinned engine needs for a model.

The formulas follow the source of Ollama 0.32.15 and of its llama.cpp; `docs/explanation/gpu-memory.md` explains them.
Only the constants named `..._MIB` and the `context_mib` of the GPUs are measurements.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import sqrt

from sharing.hardware.gpus import Gpu
from sharing.models.catalogue import MIB, KvType, Model
from sharing.models.engine import ModelInEngine
from sharing.models.kv_cache import cells, keeps_cache, kv_bytes, values_per_token, window_cells

F16_BYTES, F32_BYTES = 2, 4
Q8_1_BYTES = 36 / 32
"""Bytes per value of activations that CUDA multiplies with quantized weights. Source: ggml-cuda/mmq.cu."""
PER_LAYER_INPUT = 256
"""Values per layer that gemma3n and gemma4 take from a second embedding (`embedding_length_per_layer_input`)."""
PROJECTOR_MIB = {"qwen25vl": 705, "qwen3vl": 396, "qwen3vlmoe": 396}
"""Buffers of a projector besides its weights, by architecture: 705 with qwen2.5vl:7b, whose mask of windows is f32, and
396 with qwen3-vl:8b were seen."""
OTHER_PROJECTOR_MIB, PROJECTOR_SPREAD_MIB = 250, 150
"""The same for all others: 213 with gemma4:e2b and 248 with qwen3.6:27b were seen."""
MARGIN, LEAST_MARGIN_MIB, MOST_MARGIN_MIB = 0.02, 64, 300
"""Memory that the formulas ignore: CUDA graphs, pools that grow in steps of 2 MiB, odd layers."""
BYTES_PER_WEIGHT = 0.6
"""Bytes per weight of the usual 4-bit quantization, to estimate an unknown shape."""
WITHOUT_GATE = ("bert", "jina-bert-v3")
"""Architectures whose feed-forward layers have no gate."""
GEMMA_ENCODER = "gemma-embedding"
"""The encoder that is built like a generative model: the others hold no queries beside the feed-forward layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """GPU memory of one served model, in MiB."""

    weights: float
    kv: float
    compute: float
    """Buffers for the values between the layers."""
    cuda_context: float
    """Memory that CUDA takes per process."""
    projector: float
    """Weights and buffers that turn images or audio into tokens."""
    margin: float
    """Upper limit of the error of the prediction."""

    @property
    def buffers(self) -> float:
        """Everything besides weights and cache."""
        return self.compute + self.cuda_context + self.projector

    @property
    def total(self) -> float:
        """The prediction, without the margin."""
        return self.weights + self.kv + self.buffers

    @property
    def bound(self) -> float:
        """The prediction and its margin, which must fit."""
        return self.total + self.margin


@lru_cache(maxsize=4096)
def need(served: ModelInEngine, gpu: Gpu) -> Need:
    """GPU memory that `served` takes on `gpu` when it works on a full batch."""
    model = served.model
    weights = (model.weights_bytes - model.embedding_bytes) / MIB
    kv = kv_bytes(served) / MIB
    compute = compute_mib(served) + _scratch_bytes(served) / MIB
    projector = model.projector_bytes / MIB + _projector_buffers_mib(model)
    total = weights + kv + compute + projector + gpu.context_mib
    return Need(
        weights=weights,
        kv=kv,
        compute=compute,
        cuda_context=gpu.context_mib,
        projector=projector,
        margin=_margin_mib(model, gpu, total, compute),
    )


def _projector_buffers_mib(model: Model) -> float:
    return PROJECTOR_MIB.get(model.architecture, OTHER_PROJECTOR_MIB) if model.projector_bytes else 0.0


def _margin_mib(model: Model, gpu: Gpu, total: float, compute: float) -> float:
    """The margin: a small part of everything, and more for each unknown quantity."""
    margin = min(max(MARGIN * total, LEAST_MARGIN_MIB), MOST_MARGIN_MIB)
    margin += gpu.context_spread_mib + model.weights_spread / MIB
    if model.projector_bytes:
        margin += PROJECTOR_SPREAD_MIB
    if not (model.width and model.feed_forward):
        margin += compute
    return margin


def compute_mib(served: ModelInEngine) -> float:
    """The buffer, in MiB, that llama.cpp reserves at the start (`sched_reserve`): attention masks and the widest layer.

    Logits count for one token per slot only (llama.cpp PR 23861), which is less than a layer of a batch.
    """
    tokens, width, ff, query = _batch(served), *_shape(served.model)
    model = served.model
    if not keeps_cache(model) and model.architecture != GEMMA_ENCODER:
        query = 0
    per_layer = PER_LAYER_INPUT * model.layers if model.shared_kv_layers else 0
    widest = (1 if model.architecture in WITHOUT_GATE else 3) * ff + 2 * width + query + per_layer
    widest = max(widest, 2 * model.experts_used * width + ff + 2 * width)
    bytes_in_flight = F32_BYTES * tokens * widest
    if not model.has_flash_attention:
        bytes_in_flight = max(bytes_in_flight, _scores_bytes(served) + F32_BYTES * tokens * _beside_scores(model))
    elif served.kv_type is not KvType.F16:
        # Flash attention needs f16: the keys and values of one layer are unpacked (llama.cpp PR 23907).
        attention = 2 * width + (5 if model.recurrent_layers else 2) * query + per_layer
        if model.mla_rank:
            attention = 2 * width + query + 3 * model.heads * model.mla_rank
        unpacked = F16_BYTES * values_per_token(model) * cells(served) * served.effective_slots
        bytes_in_flight = max(bytes_in_flight, F32_BYTES * tokens * attention + unpacked)
    if model.encoder and keeps_cache(model):
        # A generative model that embeds computes the logits of every token.
        bytes_in_flight = max(bytes_in_flight, F32_BYTES * tokens * (model.vocabulary + width))
    return (bytes_in_flight + _mask_bytes(served)) / MIB


def _scores_bytes(served: ModelInEngine) -> float:
    """Attention scores of a batch, which flash attention never stores completely.

    Source: llama.cpp src/llama-graph.cpp, `build_attn_mha`: `kq` in f32, for each query head.
    """
    _, _, query = _shape(served.model)
    heads = served.model.heads or query
    return F32_BYTES * heads * _batch(served) * _seen(served)


def _beside_scores(model: Model) -> float:
    """Values per token that are in use together with the scores: residual stream, queries, and the places of V.

    A place for each value of V, in 64 bits, because without flash attention the cache holds V transposed. Without a
    cache it is the keys and values themselves. The engine's own accounting shows the same MiB.
    """
    width, _, query = _shape(model)
    if not keeps_cache(model):
        return width + 2 * query + 2 * model.kv_heads * model.head_dim
    return 2 * width + 2 * query + 2 * model.kv_heads * (model.value_dim or model.head_dim)


def mask_value_bytes(model: Model) -> int:
    """Attention masks have 16 bits with flash attention, else 32 (llama.cpp src/llama-graph.cpp)."""
    return F16_BYTES if model.has_flash_attention else F32_BYTES


def _mask_bytes(served: ModelInEngine) -> float:
    """The tokens that each token sees; layers with a sliding window have their own mask."""
    tokens = _batch(served)
    seen = _seen(served)
    if served.model.swa_layers:
        seen += window_cells(served) if keeps_cache(served.model) else tokens
    return mask_value_bytes(served.model) * tokens * seen


def _seen(served: ModelInEngine) -> int:
    """Tokens that one token of a batch may see: those in the cache of its slot, or those of the batch."""
    return cells(served) if keeps_cache(served.model) else _batch(served)


def _scratch_bytes(served: ModelInEngine) -> float:
    """Temporary buffers of CUDA for one multiplication: activations in 8 bits if the weights are quantized.

    Without flash attention cuBLAS multiplies, and wants the keys of a layer in f32, and then the scores and its result
    in f16. Source: llama.cpp ggml-cuda.cu, `ggml_cuda_mul_mat_cublas_impl`; the operands of an encoder are f32 already.
    """
    model, tokens = served.model, _batch(served)
    width, ff, query = _shape(model)
    scratch = Q8_1_BYTES * tokens * max(ff, max(model.experts_used, 1) * width)
    if model.has_flash_attention or not keeps_cache(model):
        return scratch
    keys = F32_BYTES * model.kv_heads * model.head_dim * cells(served) * served.effective_slots
    return max(scratch, keys, _scores_bytes(served) / 2 + F16_BYTES * tokens * query)


def _batch(served: ModelInEngine) -> int:
    return min(served.effective_batch, cells(served) * served.effective_slots)


def _shape(model: Model) -> tuple[float, float, float]:
    """Values per token of the residual stream, of the widest feed-forward layer, and of the queries.

    Unknown sizes are estimated from the size of a layer: 12 times the square of its width.
    """
    per_layer = model.weights_bytes / BYTES_PER_WEIGHT / max(model.layers, 1)
    width = model.width or sqrt(per_layer / 12)
    return width, model.feed_forward or 3.5 * width, model.heads * model.head_dim or width
