"""The description of a model by a running Ollama."""

from typing import Any

import pytest

from sharing.models.metadata import Tensor
from stacks.model_files.errors import UnreadableModelError
from stacks.model_files.gguf_file import Contents
from tandem.deployed.endpoints import Endpoint
from tandem.deployed.ollama import Ollama, OllamaError
from tandem.models.from_ollama import read_tag
from tests.tandem.fake_network import Network, transport, whole

URL = "http://127.0.0.1:11434"
SHOWN: dict[str, Any] = {
    "details": {"format": "gguf", "family": "llama"},
    "model_info": {"general.architecture": "llama", "llama.block_count": 1, "tokenizer.ggml.tokens": ["a"]},
    "tensors": [
        {"name": "token_embd.weight", "type": "Q4_K", "shape": [256, 3]},
        {"name": "blk.0.ffn_up.weight", "type": "F16", "shape": [256, 2]},
    ],
}
"""The format is that of ShowResponse in api/types.go, Ollama 0.32.15."""
TAGS = {"models": [{"name": "mine:latest", "size": 5000}]}


def described(shown: object, tags: object = TAGS) -> tuple[Contents, int]:
    network = Network(show=shown, tags=tags)
    with Ollama(Endpoint("Ollama", URL, "mine"), transport=transport(network)) as server:
        found = read_tag(server)
    assert network.asked[0] == ("/api/show", {"model": "mine", "verbose": True})
    return found


def test_a_tag_has_its_metadata_and_tensors_without_tokens() -> None:
    contents, projector = described(SHOWN)
    assert contents.metadata == {"general.architecture": "llama", "llama.block_count": 1}
    # ggml-common.h: block_q4_K has 144 bytes for 256 values.
    assert contents.tensors == (
        Tensor("token_embd.weight", (256, 3), 3 * 144),
        Tensor("blk.0.ffn_up.weight", (256, 2), 1024),
    )
    assert projector == 0


def test_a_projector_has_at_most_what_the_tag_has_besides_its_tensors() -> None:
    projector = {"projector_info": {"general.architecture": "clip"}}
    assert described({**SHOWN, **projector})[1] == 5000 - 432 - 1024
    with pytest.raises(
        UnreadableModelError, match=r"Ollama does not report the size of mine\. Pass its projector with"
    ):
        described({**SHOWN, **projector}, {"models": []})


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ({**SHOWN, "remote_host": "https://ollama.com"}, "mine runs in Ollama's cloud, not on your GPU."),
        (
            {**SHOWN, "details": {"format": "safetensors"}},
            "mine is stored as safetensors, which llama.cpp cannot load.",
        ),
        (
            {"model_info": {}},
            "Ollama describes mine without metadata or tensors. Update Ollama, then pull the model again.",
        ),
        ({**SHOWN, "model_info": None}, "without metadata or tensors"),
        ({**SHOWN, "tensors": [{"name": "a", "type": "unknown", "shape": [1]}]}, "in an unknown way ('unknown')"),
        ({**SHOWN, "tensors": [{"name": "a", "type": "F16", "shape": [2**62, 9]}]}, "Read its GGUF file instead."),
    ],
)
def test_an_incomplete_description_is_refused_with_a_fix(shown: dict[str, Any], printed: str) -> None:
    with pytest.raises(UnreadableModelError) as refusal:
        described(shown)
    assert printed in str(refusal.value)
    assert str(refusal.value).endswith(".")


def test_a_missing_model_is_named_with_the_command_that_pulls_it() -> None:
    with pytest.raises(OllamaError) as refusal:
        described(whole({"error": "model 'mine' not found"}, 404))
    assert str(refusal.value) == f"Ollama ({URL}) has no model mine. Run `ollama pull mine` there."
