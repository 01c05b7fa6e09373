"""Model architectures, by the data that their layers keep per token.

The names are those of `general.architecture` in GGUF files. Source: llama.cpp b10488, the engine of Ollama 0.32.15:
`create_memory` in src/llama-model.cpp and `load_arch_hparams` of each architecture in src/models/. Check them when
`artifacts.csv` gets a newer Ollama.
"""

from dataclasses import dataclass

_PLAIN = (
    "apertus arcee arctic baichuan bailingmoe bailingmoe2 bitnet bloom chatglm codeshell command-r dbrx deepseek dots1 "
    "ernie4_5 ernie4_5-moe exaone falcon gemma glm4 glm4moe glmocr gptneox granite granitemoe grok grovemoe "
    "hunyuan-dense hunyuan-moe internlm2 llama maincoder minicpm minicpm3 minimax-m2 mistral3 mpt nemotron olmo olmoe "
    "orion phi2 phi3 phimoe plamo qwen qwen2 qwen25vl qwen2moe qwen2vl qwen3 qwen3moe qwen3vl qwen3vlmoe refact "
    "seed_oss smollm3 stablelm starcoder starcoder2 xverse"
)
PLAIN = frozenset(_PLAIN.split())
"""All layers keep keys and values of every token. llama.cpp has disabled the window of phi3."""
_ENCODERS = "bert eurobert gemma-embedding jina-bert-v2 jina-bert-v3 modern-bert neo-bert nomic-bert nomic-bert-moe"
ENCODERS = frozenset(_ENCODERS.split())
"""No cache at all."""
LATENT = frozenset({"deepseek2", "glm4moelite", "kimi-linear"})
"""Multi-head latent attention; older files of deepseek2 are without it."""
RECURRENT_WITHOUT_HEADS = frozenset({"granitehybrid", "jamba", "kimi-linear", "lfm2", "lfm2moe", "plamo2"})
"""Hybrids whose recurrent layers are those without KV heads."""
RECURRENT_BY_INTERVAL = frozenset({"qwen35", "qwen35moe", "qwen3next"})
"""Hybrids with full attention in every fourth layer, unless the file says otherwise."""
RECURRENT_WITHOUT_FORWARD = frozenset({"nemotron_h", "nemotron_h_moe"})
"""Hybrids that also have layers with only a feed-forward network, without attention or state."""
SAME_AS = {"gptoss": "gpt-oss", "olmo3": "olmo2"}
"""Names of Ollama's converter for llama.cpp's architectures: llama/compat/llama-ollama-compat.cpp of Ollama 0.32.15."""
_INLINE_PROJECTOR = (
    "deepseekocr gemma3 gemma4 glmocr llama4 mistral3 nemotron_h_omni qwen25vl qwen35 qwen35moe qwen3vl qwen3vlmoe"
)
INLINE_PROJECTOR = frozenset(_INLINE_PROJECTOR.split())
"""Ollama loads a projector that is in the model's own file: `compatClipArches` in llm/llama_server.go."""


@dataclass(frozen=True, slots=True)
class Window:
    """How an architecture mixes sliding-window layers with full ones, if its file does not list them."""

    every: int = 0
    """Every n-th layer is full; 0 means that the file must list them."""
    first: bool = False
    """The full layer is the first of them instead of the last."""
    tokens: int = 0
    """The window, if the file may omit it."""
    optional: bool = False
    """Without a window in the file, all layers are full."""


WINDOWS = {
    "afmoe": Window(4, optional=True),
    "cohere2": Window(4),
    "cohere2moe": Window(4, first=True),
    "exaone-moe": Window(4),
    "exaone4": Window(4, tokens=4096),
    "gemma-embedding": Window(6),
    "gemma2": Window(2, tokens=4096),
    "gemma3": Window(6, optional=True),
    "gemma3n": Window(5),
    "gemma4": Window(),
    "gpt-oss": Window(2),
    "laguna": Window(4, first=True, optional=True),
    "llama4": Window(4, tokens=8192),
    "mellum": Window(4, optional=True),
    "mimo2": Window(),
    "modern-bert": Window(3, first=True, optional=True),
    "olmo2": Window(4, optional=True),
    "plamo3": Window(8, optional=True),
    "step35": Window(),
}
GEMMA3N_OWN_KV = 20
"""Layers of gemma3n that have their own cache, regardless of its file: `n_layer_kv_from_start`."""
EXAONE4_WINDOWED_LAYERS = 64
"""Only the exaone4 with this number of layers has windows."""

HYBRIDS = RECURRENT_WITHOUT_HEADS | RECURRENT_BY_INTERVAL | RECURRENT_WITHOUT_FORWARD
KNOWN = PLAIN | ENCODERS | LATENT | HYBRIDS | set(WINDOWS) | set(SAME_AS)
"""Every architecture that `sharing.models.metadata` can describe."""
