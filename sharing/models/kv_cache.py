"""What the engine keeps of earlier tokens: the KV cache of the layers, and the states of recurrent ones.

Source: llama.cpp b10488, the engine of Ollama 0.32.15.
"""

from sharing.models.architectures import ENCODERS
from sharing.models.catalogue import Model
from sharing.models.engine import ModelInEngine

CELLS = 256
"""llama.cpp rounds the cells of every cache up to this. Source: llama-context.cpp, llama-kv-cache-iswa.cpp."""


def cells(served: ModelInEngine) -> int:
    """Tokens that the cache of one slot holds."""
    return padded(padded(served.total_context) // served.effective_slots)


def window_cells(served: ModelInEngine) -> int:
    """Tokens that a layer with a sliding window holds for one slot: the window and one batch."""
    return min(cells(served), padded(served.model.swa_window + served.effective_batch))


def padded(tokens: int) -> int:
    """Cells that llama.cpp allocates for a number of tokens."""
    return -(-tokens // CELLS) * CELLS


def keeps_cache(model: Model) -> bool:
    """A generative model that embeds (qwen3-embedding) keeps one as well. Source: create_memory in llama-model.cpp."""
    return not model.encoder or (bool(model.architecture) and model.architecture not in ENCODERS)


def kv_bytes(served: ModelInEngine) -> float:
    """The caches of all slots, in bytes. Each has its own: Ollama's `-np` makes llama-server's `kv_unified` false."""
    model = served.model
    if not keeps_cache(model):
        return 0.0
    full = model.layers - model.swa_layers - model.shared_kv_layers - model.recurrent_layers
    values = full * cells(served) * values_per_token(model)
    values += model.swa_layers * window_cells(served) * _swa_values(model)
    return (values * served.kv_type.bytes_per_value + model.recurrent_state_bytes) * served.effective_slots


def values_per_token(model: Model) -> int:
    """Values that a layer keeps for one token."""
    return model.mla_rank or model.kv_heads * (model.head_dim + (model.value_dim or model.head_dim))


def _swa_values(model: Model) -> int:
    """Values that a layer with a sliding window keeps for one token."""
    if not (model.swa_kv_heads or model.swa_head_dim):
        return values_per_token(model)
    return 2 * (model.swa_kv_heads or model.kv_heads) * (model.swa_head_dim or model.head_dim)


def bytes_read(served: ModelInEngine, tokens: float) -> float:
    """Bytes of the caches that one more token of a request reads after `tokens` tokens; it reads a state entirely."""
    model = served.model
    if not keeps_cache(model):
        return 0.0
    own = model.layers - model.shared_kv_layers - model.recurrent_layers
    # Layers that read another layer's cache have windows as often as the others.
    windowed = model.swa_layers and model.swa_layers * (1 + model.shared_kv_layers / own)
    full = model.layers - model.recurrent_layers - windowed
    values = full * tokens * values_per_token(model) + windowed * min(tokens, model.swa_window) * _swa_values(model)
    return values * served.kv_type.bytes_per_value + model.recurrent_state_bytes
