"""RAM of a GPU node: the part that a model's pod needs, and the rest for the page cache.

The engine is Ollama 0.32.15 with llama.cpp b10488; docs/explanation/host-memory.md explains the terms.
"""

from dataclasses import dataclass
from functools import lru_cache

from sharing.fit.memory import mask_value_bytes
from sharing.fit.node_pods import on_gpu_node
from sharing.hardware.gpus import InstanceType
from sharing.models.catalogue import MIB
from sharing.models.kv_cache import padded
from sharing.models.ollama import checkpoint_bytes, checkpoints
from sharing.models.served import ServedModel
from sharing.sections.config import StackConfig
from sharing.sections.pools import GpuPool

SERVER_MIB = 128
"""The Ollama server and its command line. `ollama serve` 0.32.15 measures 28 MiB when idle; a pull takes more."""
RUNNER_MIB = 128
LAYER_MIB = 3.4
EXPERTS_MIB = 300
"""RAM of CUDA, tokenizer and pinned buffers of llama-server; its graph, by layer; and the extra RAM of
mixture-of-experts models. Measured on CUDA with 36 to 65 layers, and 288 MiB at most for experts: philpax/ananke,
ananke/src/estimator (2026)."""
WIDEST = 8192
"""Width of a model with 70 billion weights, used if the width is unknown."""
Q6_K_BYTES = 210 / 256
"""Bytes of one weight in the table of embeddings of most tags. Source: llama.cpp ggml/src/ggml-common.h, block_q6_K."""
SIDECAR_MIB = 64
"""Limit of the sidecar that watches the model."""
METRICS_MIB = 64
"""Limit of the sidecar that serves the model's metrics, in stacks with metrics. It measures 23 MiB."""
LEAST_PAGE_CACHE_MIB = 256
"""Page cache without which a model does not load; more makes it load faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostNeed:
    """RAM that one model's pod keeps, in MiB."""

    server: float
    """The processes: Ollama's server and the engine."""
    buffers: float
    """Page-locked inputs of one batch: attention masks and hidden states."""
    embeddings: float
    """The table of token embeddings, which the engine reads on the CPU."""
    prompt_cache: float
    checkpoints: float
    """Saved states of sliding windows and recurrent layers, so that a conversation can continue from them."""

    @property
    def total(self) -> int:
        """The total with the sidecar, in whole MiB."""
        parts = self.server + self.buffers + self.embeddings + self.prompt_cache + self.checkpoints + SIDECAR_MIB
        return int(-(-parts // 1))


@lru_cache(maxsize=4096)
def host_need(served: ServedModel) -> HostNeed:
    """RAM that the pod of `served` keeps with all layers on the GPU."""
    model = served.model
    experts = EXPERTS_MIB if model.experts else 0
    return HostNeed(
        server=SERVER_MIB + RUNNER_MIB + LAYER_MIB * model.layers + experts,
        buffers=_buffers_bytes(served) / MIB,
        embeddings=(model.embedding_bytes or model.vocabulary * model.width * Q6_K_BYTES) / MIB,
        prompt_cache=served.effective_prompt_cache_mib,
        checkpoints=checkpoints(served) * served.effective_slots * checkpoint_bytes(served) / MIB,
    )


def _buffers_bytes(served: ServedModel) -> float:
    """Masks of the cache and of the sliding window, and two hidden states, for one batch.

    Within 0.05 MiB of 15 measurements in philpax/ananke, ananke/src/estimator (2026). Without flash attention, a
    batch also has the place of each value of V, in 64 bits, as in the engine's own accounting.
    """
    model = served.model
    tokens = min(served.effective_context, served.effective_batch)
    masks = padded(served.effective_context)
    if model.swa_layers:
        masks += padded(model.swa_window + tokens)
    places = 0 if model.has_flash_attention else 8 * model.kv_heads * (model.value_dim or model.head_dim)
    return tokens * (mask_value_bytes(model) * masks + 8 * (model.width or WIDEST) + places)


def room_mib(config: StackConfig, pool: GpuPool, node: InstanceType) -> int:
    """RAM that a node of the pool has for models, without the kubelet's reserve and the stack's own pods."""
    return node.allocatable_mib - sum(pod.memory_mib for pod in on_gpu_node(config, pool))


def crowd(config: StackConfig, pool: GpuPool, node: InstanceType) -> list[int]:
    """RAM of the pods that may be placed on one `node` in the worst case: the largest needs, in MiB."""
    shares = node.gpus * sum(shares.per_gpu for shares in pool.offers)
    metrics = METRICS_MIB if config.monitoring.has_metrics else 0
    needs = sorted((host_need(served).total + metrics for served in config.residents_of(pool)), reverse=True)
    return needs[:shares]


def page_cache_mib(config: StackConfig, *pools: GpuPool) -> int:
    """RAM for each model's page cache on any node of `pools`: an equal part of the RAM that remains.

    So the limits of all pods on a node never exceed its RAM, and the kubelet has no reason to evict.
    """
    spare = []
    for pool, node in ((each, node) for each in pools for node in each.known_types):
        needs = crowd(config, pool, node)
        spare.append((room_mib(config, pool, node) - sum(needs)) // max(1, len(needs)))
    return max(LEAST_PAGE_CACHE_MIB, min(spare))
