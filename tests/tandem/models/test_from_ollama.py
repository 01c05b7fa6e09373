"""The description of a model, as a running Ollama gives it."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from sharing.metadata import Tensor
from tandem import ollama
from tandem.models.from_ollama import read_tag
from tandem.models.gguf_file import UnreadableModelError
from tandem.ollama import OllamaError

URL = "http://127.0.0.1:11434"
SHOWN: dict[str, Any] = {
    "details": {"format": "gguf", "family": "llama"},
    "model_info": {"general.architecture": "llama", "llama.block_count": 1, "tokenizer.ggml.tokens": ["a"]},
    "tensors": [
        {"name": "token_embd.weight", "type": "Q4_K", "shape": [256, 3]},
        {"name": "blk.0.ffn_up.weight", "type": "F16", "shape": [256, 2]},
    ],
}
"""The shape is that of api/types.go ShowResponse, Ollama 0.32.15."""
TAGS = {"models": [{"name": "mine:latest", "size": 5000}]}


def server(shown: object, tags: object = TAGS) -> httpx.MockTransport:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/api/tags":
            return httpx.Response(200, json=tags)
        assert request.url.path == "/api/show"
        assert json.loads(request.content) == {"model": "mine", "verbose": True}
        return httpx.Response(200, json=shown)

    return httpx.MockTransport(answer)


def test_a_tag_says_its_metadata_and_its_tensors_without_tokens() -> None:
    contents, projector = read_tag("mine", URL, server(SHOWN))
    assert contents.metadata == {"general.architecture": "llama", "llama.block_count": 1}
    # ggml-common.h: block_q4_K has 144 bytes for 256 values.
    assert contents.tensors == (
        Tensor("token_embd.weight", (256, 3), 3 * 144),
        Tensor("blk.0.ffn_up.weight", (256, 2), 1024),
    )
    assert projector == 0


def test_a_projector_has_at_most_what_the_tag_has_besides_its_tensors() -> None:
    projector = {"projector_info": {"general.architecture": "clip"}}
    assert read_tag("mine", URL, server({**SHOWN, **projector}))[1] == 5000 - 432 - 1024
    with pytest.raises(UnreadableModelError, match=r"Ollama does not say how large mine is\. Name its projector with"):
        read_tag("mine", URL, server({**SHOWN, **projector}, {"models": []}))


@pytest.mark.parametrize(
    ("shown", "told"),
    [
        ({**SHOWN, "remote_host": "https://ollama.com"}, "mine runs in Ollama's cloud, on no GPU of yours."),
        (
            {**SHOWN, "details": {"format": "safetensors"}},
            "mine is stored as safetensors, which llama.cpp cannot load.",
        ),
        ({"model_info": {}}, "Ollama describes mine without metadata or tensors. Update Ollama, and pull it again."),
        ({**SHOWN, "model_info": None}, "without metadata or tensors"),
        ({**SHOWN, "tensors": [{}] * 65_537}, "without metadata or tensors"),
        ({**SHOWN, "tensors": [{"name": "a", "type": "unknown", "shape": [1]}]}, "in an unknown way ('unknown')"),
        ({**SHOWN, "tensors": [{"name": "a", "type": "F16", "shape": [1] * 5}]}, "in an unknown way (5 dimensions)"),
        ({**SHOWN, "tensors": [{"name": "a", "type": "F16", "shape": [2**62, 9]}]}, "Read its GGUF file instead."),
        ({**SHOWN, "tensors": [{"name": "a", "type": "F16", "shape": "x"}]}, "in an unknown way"),
        ({**SHOWN, "tensors": [7]}, "in an unknown way"),
    ],
)
def test_what_ollama_cannot_describe_is_refused_with_what_to_do(shown: dict[str, Any], told: str) -> None:
    with pytest.raises(UnreadableModelError) as refusal:
        read_tag("mine", URL, server(shown))
    assert told in str(refusal.value)
    assert str(refusal.value).endswith(".")


def responding(status: int, content: bytes) -> Callable[[httpx.Request], httpx.Response]:
    return lambda request: httpx.Response(status, content=content)


def away(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("Connection refused")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (away, f"Ollama ({URL}) cannot be reached (Connection refused). Start it, or forward its port again."),
        (
            responding(404, b'{"error": "model \'mine\' not found"}'),
            f"Ollama ({URL}) has no model mine. Pull it there: ollama pull mine",
        ),
        (responding(500, b"oops"), "answers with 500: oops"),
        (responding(200, b"<html>"), "does not answer as Ollama does"),
    ],
)
def test_an_ollama_that_does_not_answer_is_named(answer: Callable[[httpx.Request], httpx.Response], told: str) -> None:
    with pytest.raises(OllamaError) as refusal:
        read_tag("mine", URL, httpx.MockTransport(answer))
    assert told in str(refusal.value)


def test_an_answer_without_an_end_is_not_read_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ollama, "MOST_BYTES", 100)
    with pytest.raises(OllamaError, match=r"describes mine with more than 0 MiB\. Read its GGUF file instead"):
        read_tag("mine", URL, server(SHOWN))
