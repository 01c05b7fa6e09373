"""What the pinned Ollama makes of the settings of a model. It needs no package: the GPU tier runs on bare machines."""

from typing import TYPE_CHECKING

from sharing.models.catalogue import KvType, Model

LEAST_CONTEXT_WITH_PICTURES = 2048
"""The minimum that Ollama gives to a vision model. Source: ollama v0.32.15 `server/sched.go` getRunner."""
ONE_SLOT = (
    "mllama",
    "qwen3vl",
    "qwen3vlmoe",
    "qwen35",
    "qwen35moe",
    "qwen3next",
    "lfm2",
    "lfm2moe",
    "nemotron_h",
    "nemotron_h_moe",
    "nemotron_h_omni",
)
"""Architectures that Ollama serves one request at a time. Source: ollama v0.32.15 `server/sched.go` load."""


class ModelInEngine:
    """A model in its engine. Subclasses have the settings, as a stack file or a measurement names them."""

    if TYPE_CHECKING:  # declarations; pydantic would take them for fields

        @property
        def model(self) -> Model: ...
        @property
        def context(self) -> int: ...
        @property
        def slots(self) -> int: ...
        @property
        def kv_type(self) -> KvType: ...
        @property
        def batch(self) -> int | None: ...
        @property
        def prompt_cache_mib(self) -> int: ...

    @property
    def effective_prompt_cache_mib(self) -> int:
        """0 for an embedding model, which would fill the cache without ever reusing a prompt."""
        return 0 if self.model.encoder else self.prompt_cache_mib

    @property
    def effective_context(self) -> int:
        """Tokens per request that Ollama actually allows.

        At most the maximum of the model, and for a vision model at least `LEAST_CONTEXT_WITH_PICTURES`.
        """
        least = LEAST_CONTEXT_WITH_PICTURES if self.model.projector_bytes else 0
        context = max(self.context, least)
        return min(context, self.model.max_context or context)

    @property
    def effective_slots(self) -> int:
        """Ollama serves embedding models and some architectures one request at a time, regardless of the setting."""
        return 1 if self.model.encoder or self.model.architecture in ONE_SLOT else self.slots

    @property
    def total_context(self) -> int:
        """Tokens of all slots in total: the size of the KV cache."""
        return self.effective_context * self.effective_slots

    @property
    def effective_batch(self) -> int:
        """Tokens per step: `model_start.sh` writes them as `num_batch`.

        Ollama's own choice for the context, without its smaller steps for a GPU that is nearly full: those depend on
        the memory of its neighbours at that moment. An embedding model must take a text in one step, or Ollama cuts it.

        Source: ollama v0.32.15 `server/sched.go` automaticGenerationBatch, `server/routes.go` (embed).
        """
        if self.batch:
            return self.batch
        if self.model.encoder:
            return self.effective_context
        if self.total_context <= 4096 or not self.model.has_flash_attention:
            return 512
        return 1024 if self.total_context <= 32768 else 2048
