"""The meaning of an Ollama server's answers, and the order of the requests. `test_ollama.py` has the client's own."""

from contextlib import closing

import pytest

from tandem.deployed.endpoints import Endpoint
from tandem.deployed.ollama import Memory, Ollama
from tandem.verify.servers import Server, examine
from tests.tandem.fake_network import Network, transport
from tests.tandem.fake_ollama import GIB, FakeOllama

TAG = "llama2:7b"


@pytest.fixture
def fake() -> FakeOllama:
    return FakeOllama([TAG], load_s=1.5)


def examined(fake: FakeOllama) -> Server:
    network = Network(fake)
    with closing(Ollama(Endpoint("a", "http://a", TAG), transport=transport(network), clock=network.now)) as server:
        return examine({"a": server})["a"]


def shown(server: Server) -> dict[str, tuple[bool, str]]:
    return {step: (outcome.fine, outcome.text) for step, outcome in server.outcomes.items()}


def test_a_healthy_server_passes_every_step(fake: FakeOllama) -> None:
    server = examined(fake)
    assert shown(server) == {
        "version": (True, "Ollama 0.32.15"),
        "held": (True, TAG),
        "loaded": (True, "in 1.5 s"),
        "answered": (True, "16 tokens, 50.0 tokens/s"),
    }
    expires = "2318-03-04T05:06:07.123456789Z"
    assert server.memory == Memory(size=5 * GIB, size_vram=5 * GIB, context=2048, expires=expires)


def test_a_model_that_is_not_there_ends_the_examination(fake: FakeOllama) -> None:
    fake.answers["/api/tags"] = {"models": [{"name": "phi:2"}]}
    server = examined(fake)
    assert shown(server)["held"] == (False, "it has phi:2")
    assert list(server.outcomes) == ["version", "held"]
    assert server.memory is None


def test_a_load_that_fails_says_the_servers_reason(fake: FakeOllama) -> None:
    fake.answers["/api/generate"], fake.status["/api/generate"] = {"error": "cudaMalloc failed: out of memory"}, 500
    assert shown(examined(fake))["loaded"] == (False, "answered with 500: cudaMalloc failed: out of memory")


def test_an_answer_without_a_word_is_no_answer(fake: FakeOllama) -> None:
    fake.answers["/api/generate"] = {"load_duration": 1, "eval_count": 0}
    assert shown(examined(fake))["answered"] == (False, "an empty answer")


def test_a_server_that_no_longer_lists_its_models_has_failed(fake: FakeOllama) -> None:
    fake.answers["/api/ps"], fake.status["/api/ps"] = {"error": "busy"}, 503
    server = examined(fake)
    assert (shown(server)["answered"], server.memory) == ((False, "answered with 503: busy"), None)


def test_all_servers_are_loaded_before_any_is_judged() -> None:
    """A model may be entirely on the GPU only as long as its neighbour is not there."""
    fake = FakeOllama(["a:1", "b:1"])
    network = Network(fake)
    known = {"transport": transport(network), "clock": network.now}
    examine({id: Ollama(Endpoint(id, f"http://{id}", f"{id}:1"), **known) for id in "ab"})  # type: ignore[arg-type]
    asked = [(path, "prompt" in body) for path, body in fake.asked if path in ("/api/generate", "/api/ps")]
    load, prompt, memory = ("/api/generate", False), ("/api/generate", True), ("/api/ps", False)
    assert asked == [load, load, prompt, prompt, memory, memory]
