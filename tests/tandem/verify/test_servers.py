"""The requests to an Ollama server and the meaning of its answers, with a server on this machine."""

from contextlib import closing
from typing import Any

import pytest

from tandem.deployed.endpoints import Endpoint
from tandem.deployed.ollama import Memory, Ollama
from tandem.verify.servers import Server, examine
from tests.tandem.fake_network import Network, transport
from tests.tandem.fake_ollama import GIB, FakeOllama, ollama

TAG = "llama2:7b"


@pytest.fixture
def fake() -> FakeOllama:
    return FakeOllama([TAG], load_s=1.5)


def examined(fake: FakeOllama, tag: str = TAG, *, encoder: bool = False, trouble: str = "") -> Server:
    network = Network(fake)
    known: dict[str, Any] = {} if fake.url else {"transport": transport(network), "clock": network.now}
    endpoint = Endpoint("a", fake.url or "http://a", tag)
    with closing(Ollama(endpoint, encoder=encoder, trouble=lambda: trouble, **known)) as server:
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
    assert server.memory == Memory(
        size=5 * GIB, size_vram=5 * GIB, context=2048, expires="2318-03-04T05:06:07.123456789Z"
    )


def test_a_model_that_is_not_there_ends_the_examination(fake: FakeOllama) -> None:
    fake.answers["/api/tags"] = {"models": [{"name": "phi:2"}]}
    server = examined(fake)
    assert shown(server)["held"] == (False, "it has phi:2")
    assert list(server.outcomes) == ["version", "held"]
    assert server.memory is None
    assert "/api/generate" not in [path for path, _ in fake.asked]


def test_a_load_that_fails_says_the_servers_reason(fake: FakeOllama) -> None:
    fake.answers["/api/generate"] = {"error": "llama runner process has terminated: cudaMalloc failed: out of memory"}
    fake.status["/api/generate"] = 500
    assert shown(examined(fake))["loaded"] == (
        False,
        "answered with 500: llama runner process has terminated: cudaMalloc failed: out of memory",
    )


def test_an_answer_without_a_word_is_no_answer(fake: FakeOllama) -> None:
    fake.answers["/api/generate"] = {"load_duration": 1, "eval_count": 0}
    assert shown(examined(fake))["answered"] == (False, "an empty answer")


def test_escapes_of_a_server_never_reach_the_terminal(fake: FakeOllama) -> None:
    fake.answers["/api/tags"] = {"models": [{"name": "\x1b[2Jphi\x9b2J"}]}
    assert shown(examined(fake))["held"] == (False, "it has [2Jphi2J")


def test_a_server_that_is_unavailable_is_reported_by_what_the_forwarded_port_knows() -> None:
    with ollama() as gone:
        pass
    assert shown(examined(gone, trouble="a has no pod that is ready"))["version"] == (
        False,
        "a has no pod that is ready",
    )
    assert "refused" in shown(examined(gone))["version"][1]


def test_an_embedding_model_is_loaded_and_asked_by_embedding(fake: FakeOllama) -> None:
    server = examined(fake, encoder=True)
    assert shown(server)["loaded"] == (True, "in 1.5 s")
    assert shown(server)["answered"] == (True, "a vector of 384 numbers")
    assert "/api/generate" not in [path for path, _ in fake.asked]


def test_all_servers_are_loaded_before_any_is_judged() -> None:
    """A model may be entirely on the GPU only as long as its neighbour is not there."""
    with ollama("a:1") as one, ollama("b:1") as other:
        servers = {fake.url: fake for fake in (one, other)}
        order: list[str] = []
        for fake in servers.values():
            fake.asked = Order(order)  # type: ignore[assignment]  # only `append` is used
        with (
            closing(Ollama(Endpoint("a", one.url, "a:1"))) as first,
            closing(Ollama(Endpoint("b", other.url, "b:1"))) as second,
        ):
            examine({"a": first, "b": second})
    assert [step for step in order if "generate" in step or step == "/api/ps"] == [
        "/api/generate",
        "/api/generate",
        "/api/generate with a prompt",
        "/api/generate with a prompt",
        "/api/ps",
        "/api/ps",
    ]


class Order:
    def __init__(self, order: list[str]) -> None:
        self._order = order

    def append(self, asked: tuple[str, dict[str, object]]) -> None:
        path, body = asked
        self._order.append(f"{path} with a prompt" if "prompt" in body else path)
