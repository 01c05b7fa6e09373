"""The client's results for good and bad answers of a server."""

import json
from typing import Any

import httpcore
import pytest

from tandem.deployed.endpoints import Endpoint
from tandem.deployed.ollama import Ollama, OllamaError, Piece, same_tag
from tandem.deployed.wire import Lines
from tests.tandem.deployed.errors import ERRORS
from tests.tandem.fake_network import Network, Reply, raw, streamed, whole


def server(model: str = "", **replies: object) -> Ollama:
    return Ollama(Endpoint("a", "http://h:1", model), network=Network(**replies))


def holding(*names: str) -> object:
    return {"models": [{"name": name} for name in names]}


def lines(*answers: object) -> Reply:
    return streamed(*(json.dumps(answer).encode() + b"\n" for answer in answers))


def said(*answers: object) -> list[Piece]:
    return list(server("m", chat=lines(*answers)).chat([], {}))


def test_a_server_with_one_model_answers_for_it() -> None:
    assert server(tags=holding("tiny:1b")).with_model().model == "tiny:1b"


def test_a_model_with_the_endpoints_name_is_used() -> None:
    assert server(tags=holding("a:latest", "b:latest")).with_model().model == "a:latest"


def test_a_tag_without_a_version_means_latest() -> None:
    assert server("m", tags=holding("m:latest", "n:latest")).with_model().model == "m:latest"


@pytest.mark.parametrize("model", ["", "m"])
def test_an_address_with_a_wrong_path_is_an_error_with_the_fix(model: str) -> None:
    network = Network(tags=whole(b"404 page not found", 404))
    with pytest.raises(OllamaError) as refused:
        Ollama(Endpoint("a", "http://h:1/v1", model), network=network).with_model()
    fix = "Remove the path /v1 from the address."
    assert str(refused.value) == f"a (http://h:1/v1) answered with 404: 404 page not found. {fix}"


def test_a_model_that_is_not_loaded_has_no_memory_report() -> None:
    assert server("m", ps={"models": None}).memory() is None


def reply(said: dict[str, Any]) -> Reply:
    if "raises" in said:
        return raw(getattr(httpcore, said["raises"])(said.get("text", "")))
    return lines(*said["lines"]) if "lines" in said else whole(said["body"], said.get("status", 200))


@pytest.mark.parametrize("error", ERRORS["ollama"].values(), ids=ERRORS["ollama"])
def test_every_error_has_a_fix(error: dict[str, Any]) -> None:
    replies = {path: reply(said) for path, said in error.items() if path in ("tags", "chat")}
    asked = server(error.get("model", ""), **replies)
    with pytest.raises(OllamaError) as wrong:
        list(asked.chat([], {})) if "chat" in replies else asked.with_model()
    assert str(wrong.value) == f"a (http://h:1) {error['says']}"


def test_lines_end_only_at_line_feeds_however_the_stream_is_split() -> None:
    text = '{"a": "\x85\u2028"}\n{"b": 1}\n'.encode()
    for cut in range(len(text)):
        lines = Lines()
        found = [*lines.feed(text[:cut]), *lines.feed(text[cut:]), *lines.end()]
        assert [json.loads(line) for line in found] == [{"a": "\x85\u2028"}, {"b": 1}]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("llama2:7b", "llama2:7b", True),
        ("mistral", "mistral:latest", True),
        ("host:5000/own/model", "host:5000/own/model:latest", True),
        ("llama2:7b", "llama2:13b", False),
        ("llama2", "llama2:7b", False),
    ],
)
def test_names_are_compared_with_latest_as_the_default_tag(one: str, other: str, same: bool) -> None:
    assert same_tag(one, other) is same
