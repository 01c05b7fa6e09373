"""The settings of a server. Ollama would otherwise choose each by the memory of the entire GPU."""

from typing import Any

from sharing.models.catalogue import KvType, models
from sharing.models.ollama import server_environment
from sharing.models.served import ServedModel


def test_a_server_gets_context_slots_cache_type_and_no_second_model() -> None:
    settings: dict[str, Any] = {"context": 2048, "slots": 3, "kv_type": KvType.Q8_0, "prompt_cache_mib": 512}
    served = ServedModel.of(models()["llama2:7b"], **settings)
    # Names: ollama v0.32.15 envconfig/config.go; LLAMA_ARG_…: llama.cpp common/arg.cpp, where 0 is false.
    assert server_environment(served) == {
        "OLLAMA_CONTEXT_LENGTH": "2048",
        "OLLAMA_NUM_PARALLEL": "3",
        "OLLAMA_MAX_LOADED_MODELS": "1",
        "OLLAMA_KEEP_ALIVE": "-1",
        "OLLAMA_FLASH_ATTENTION": "1",
        "OLLAMA_KV_CACHE_TYPE": "q8_0",
        "LLAMA_ARG_CACHE_RAM": "512",
        "LLAMA_ARG_CACHE_IDLE_SLOTS": "0",
    }


def test_checkpoints_are_limited_if_the_engine_makes_any() -> None:
    served = ServedModel.of(models()["gemma3:4b"], context=8192, slots=8)
    # 0 switches checkpoints off: llama.cpp common/arg.cpp, --ctx-checkpoints. Eight of 116 MiB are more than 512 MiB.
    assert server_environment(served)["LLAMA_ARG_CTX_CHECKPOINTS"] == "0"


def test_an_embedding_model_has_one_slot_and_no_prompt_cache() -> None:
    served = ServedModel.of(models()["nomic-embed-text:latest"], context=8192, slots=4)
    found = server_environment(served)
    assert (found["OLLAMA_NUM_PARALLEL"], found["LLAMA_ARG_CACHE_RAM"]) == ("1", "0")
    assert "LLAMA_ARG_CTX_CHECKPOINTS" not in found
