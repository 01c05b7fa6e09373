"""Settings of an Ollama server that serves one model as planned, for pods and for the GPU tier."""

from sharing.models.catalogue import MIB
from sharing.models.engine import ModelInEngine

ALL_LAYERS = "999"
"""More layers than any model has. With a number given, llama.cpp puts that many on the GPU or fails."""
MOST_CHECKPOINTS = 32
"""llama-server's default (`--ctx-checkpoints`), for each slot. Source: llama.cpp common/common.h."""
CHECKPOINTS_MIB = 512
"""RAM for the checkpoints of all slots. The engine bounds only their number: 32 of gemma3:4b would take 3.6 GiB."""


def server_environment(served: ModelInEngine) -> dict[str, str]:
    """The server's environment. Ollama derives other settings from the memory of the entire GPU."""
    bound = {"LLAMA_ARG_CTX_CHECKPOINTS": str(checkpoints(served))} if has_checkpoints(served) else {}
    return {
        "OLLAMA_CONTEXT_LENGTH": str(served.effective_context),
        "OLLAMA_NUM_PARALLEL": str(served.effective_slots),
        # A second model would be a second client of MPS, with a second share.
        "OLLAMA_MAX_LOADED_MODELS": "1",
        "OLLAMA_KEEP_ALIVE": "-1",
        # Ollama passes either as it is (v0.32.15 llm/llama_server.go, appendFlashAttentionArgs). Without a kernel, "1"
        # computes the attention on the CPU. A quantized KV cache needs "1".
        "OLLAMA_FLASH_ATTENTION": "1" if served.model.has_flash_attention else "0",
        "OLLAMA_KV_CACHE_TYPE": served.kv_type.value,
        # llama-server inherits it (ollama v0.32.15 llm/llama_server.go, SetupLlamaServerCommandEnv) and by default
        # keeps 8 GiB of earlier prompts in RAM. In MiB; 0 disables the cache, -1 removes the limit. Since llama.cpp
        # b9908 (#25070) the limit always applies.
        "LLAMA_ARG_CACHE_RAM": str(served.effective_prompt_cache_mib),
        # Otherwise each request also copies there the prompts of idle slots that the cache lacks, and waits for it: 2 s
        # for seven of llama2:7b on an H100. Their slots keep them in GPU memory anyway. Since ggml-org/llama.cpp#24190;
        # source: tools/server/server-context.cpp, `cache_idle_slots`. docs/decisions/0152 has the measurements.
        "LLAMA_ARG_CACHE_IDLE_SLOTS": "0",
        # For each slot, and outside of that bound while the slot is in use.
        **bound,
    }


def has_checkpoints(served: ModelInEngine) -> bool:
    """Whether the engine makes checkpoints: only if state cannot be rolled back (llama.cpp server-context.cpp)."""
    return not served.model.encoder and bool(checkpoint_bytes(served))


def checkpoints(served: ModelInEngine) -> int:
    """Checkpoints for each slot that fit into `CHECKPOINTS_MIB`; 0 switches them off.

    The engine makes them with and without a prompt cache.
    """
    if not has_checkpoints(served):
        return 0
    return min(MOST_CHECKPOINTS, int(CHECKPOINTS_MIB * MIB // (served.effective_slots * checkpoint_bytes(served))))


def checkpoint_bytes(served: ModelInEngine) -> float:
    """One checkpoint: the cells inside the sliding window and the recurrent state of one slot.

    Source: llama.cpp src/llama-kv-cache.cpp, state_write, which leaves out cells that the window masks.
    """
    model = served.model
    heads = model.swa_kv_heads or model.kv_heads
    keys = model.swa_head_dim or model.head_dim
    values = model.swa_head_dim or model.value_dim or model.head_dim
    cells = min(served.effective_context, model.swa_window)
    window = model.swa_layers * cells * heads * (keys + values) * served.kv_type.bytes_per_value
    return window + model.recurrent_state_bytes
