"""The requests to an Ollama server, word for word, and their limits of time and size."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from tandem.deployed.endpoints import Endpoint
from tandem.deployed.ollama import Memory, Ollama, Piece, most_said_bytes, speaks_no_tls

KIB = 2**10
MIB = 2**20
LOADED = {"name": "a:latest", "size": 5, "size_vram": 4, "context_length": 3, "expires_at": "2026"}
SAID = [
    {"message": {"content": "", "thinking": "hm"}},
    {"message": {"content": "Hi"}},
    {"message": {"content": ""}, "done": True, "done_reason": "length"},
]
REPLIES: dict[str, Any] = {
    "/api/version": {"version": "0.32.15"},
    "/api/tags": {"models": [{"name": "b:1"}, {"name": "a:latest"}]},
    "/api/show": {"model_info": {}},
    "/api/ps": {"models": [{**LOADED, "name": "b:1", "size": 1}, LOADED]},
    "/api/generate": {"eval_count": 16, "eval_duration": 500_000_000},
    "/api/embed": {"embeddings": [[0.5, 0.25, 0.125]]},
}
Asked = list[tuple[Any, ...]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    questions: Asked = []

    @contextmanager
    def answer(_: Any, method: str, path: str, body: Any = None, *, seconds: float, most_bytes: int) -> Iterator[Any]:
        questions.append((method, path, body, seconds, most_bytes))
        lines = [json.dumps(one).encode() for one in SAID]
        content = json.dumps(REPLIES.get(path)).encode()
        progressed = questions.append if path == "/api/chat" else None
        yield SimpleNamespace(
            status=200, body=lambda: content, lines=lambda: lines, progressed=lambda: progressed and progressed(("on",))
        )

    monkeypatch.setattr("tandem.deployed.wire.Wire.answer", answer)
    return questions


def client(**options: Any) -> Ollama:
    ticks = iter(range(100, 200, 7))
    return Ollama(Endpoint("one", "http://127.0.0.1:1", "a"), clock=lambda: next(ticks), **options)


def test_requests_that_need_no_model(asked: Asked) -> None:
    one = client()
    assert one.version() == "0.32.15"
    assert [model.name for model in one.models()] == ["a:latest", "b:1"]
    assert one.with_model() == Endpoint("one", "http://127.0.0.1:1", "a:latest")
    assert one.memory() == Memory(size=5, size_vram=4, context=3, expires="2026")
    one.show()
    plain = [("GET", f"/api/{path}", None, 30.0, 8 * MIB) for path in ("version", "tags", "tags", "ps")]
    assert asked == [*plain, ("POST", "/api/show", {"model": "a", "verbose": True}, 120.0, 64 * MIB)]


def test_a_model_is_loaded_and_probed(asked: Asked) -> None:
    one = client(timeout=2.0)
    assert one.load() == 7
    assert one.probe() == (16, 32.0)
    load = {"model": "a", "stream": False}
    options = {"num_predict": 16, "temperature": 0, "seed": 1}
    assert asked == [
        ("POST", "/api/generate", load, 600.0, 8 * MIB),
        ("POST", "/api/generate", {**load, "prompt": "Say hello.", "options": options}, 600.0, 8 * MIB),
    ]


def test_an_encoder_only_embeds(asked: Asked) -> None:
    one = client(encoder=True)
    assert one.load() == 7
    assert one.probe() == (3, 0.0)
    assert asked == [
        ("POST", "/api/embed", {"model": "a", "input": text}, 600.0, 8 * MIB) for text in ("hello", "Say hello.")
    ]


def test_a_conversation_continues_while_words_arrive(asked: Asked) -> None:
    messages = [{"role": "user", "content": "hi"}]
    pieces = [*client(timeout=3.0).chat(messages, {"num_predict": 10})]
    assert pieces == [Piece(thinking="hm"), Piece("Hi"), Piece(done_reason="length")]
    body = {"model": "a", "messages": messages, "stream": True, "options": {"num_predict": 10}}
    assert asked == [("POST", "/api/chat", body, 3.0, 266 * KIB), ("on",), ("on",)]


def test_a_reply_without_durations_has_no_speed(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REPLIES, "/api/generate", {})
    assert client().probe() == (0, 0.0)
    monkeypatch.setitem(REPLIES, "/api/embed", {"embeddings": []})
    assert client(encoder=True).probe() == (0, 0.0)


@pytest.mark.parametrize(("tokens", "size"), [(-1, 256 * KIB), (0, 256 * KIB), (10, 266 * KIB), (10**6, 64 * MIB)])
def test_the_size_limit_of_an_answer_grows_with_its_tokens_up_to_a_maximum(tokens: int, size: int) -> None:
    assert most_said_bytes(tokens) == size


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number", True),
        ("[SSL] record layer failure", True),
        ("[SSL: CERTIFICATE_VERIFY_FAILED]", False),
        ("wrong version number", False),
    ],
)
def test_plain_text_is_recognized_on_a_tls_connection(what: str, expected: bool) -> None:
    assert speaks_no_tls(what) is expected
