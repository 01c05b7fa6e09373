"""What the client makes of a server's answers, good and bad."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from sharing.printable import printable
from tandem.connection import Endpoint
from tandem.ollama import Ollama, OllamaError, Piece, lines

Handler = Callable[[httpx.Request], httpx.Response]


def server(answers: dict[str, Any] | Handler, model: str = "") -> Ollama:
    def from_table(request: httpx.Request) -> httpx.Response:
        assert isinstance(answers, dict)
        answer = answers[request.url.path]
        return answer if isinstance(answer, httpx.Response) else httpx.Response(200, json=answer)

    handler = from_table if isinstance(answers, dict) else answers
    return Ollama(Endpoint("a", "http://h:1", model), transport=httpx.MockTransport(handler))


def holding(*names: str) -> dict[str, Any]:
    return {"/api/tags": {"models": [{"name": name} for name in names]}}


def streamed(*answers: object) -> httpx.Response:
    return httpx.Response(200, content=b"".join(json.dumps(answer).encode() + b"\n" for answer in answers))


def said(*answers: object) -> list[Piece]:
    return list(server({"/api/chat": streamed(*answers)}, "m").chat([], {}))


def test_a_server_with_one_model_answers_for_it() -> None:
    assert server(holding("tiny:1b")).with_model().model == "tiny:1b"


def test_a_model_called_like_the_endpoint_is_meant() -> None:
    assert server(holding("a:latest", "b:latest")).with_model().model == "a:latest"


def test_a_tag_without_a_version_means_latest() -> None:
    assert server(holding("m:latest", "n:latest"), "m").with_model().model == "m:latest"


def test_several_models_and_no_name_ask_for_one() -> None:
    with pytest.raises(OllamaError, match=r"holds x:1, y:1: say which with --model a=TAG"):
        server(holding("y:1", "x:1")).with_model()


def test_a_model_that_is_not_pulled_says_how_to_pull_it() -> None:
    with pytest.raises(OllamaError, match=r"has no model m\. It has x:1\. Pull it there: ollama pull m"):
        server(holding("x:1"), "m").with_model()


def test_a_model_that_went_away_says_so_too() -> None:
    gone = httpx.Response(404, json={"error": "model 'm' not found"})
    with pytest.raises(OllamaError, match="ollama pull m"):
        list(server({"/api/chat": gone}, "m").chat([], {}))


def test_where_a_model_is_comes_from_the_loaded_ones() -> None:
    loaded = server({"/api/ps": {"models": [{"name": "x"}, {"name": "m", "size": 5, "size_vram": 3}]}}, "m").loaded()
    assert loaded is not None
    assert (loaded.size, loaded.size_vram, loaded.spilled) == (5, 3, True)


def test_a_model_wholly_on_the_gpu_has_not_spilled() -> None:
    loaded = server({"/api/ps": {"models": [{"name": "m", "size": 5, "size_vram": 5}]}}, "m").loaded()
    assert loaded is not None
    assert not loaded.spilled


def test_a_model_that_is_not_loaded_is_nowhere() -> None:
    assert server({"/api/ps": {"models": None}}, "m").loaded() is None


def test_an_answer_comes_in_pieces_with_thoughts_apart() -> None:
    last = {"done": True, "done_reason": "stop"}
    pieces = said({"message": {"content": "", "thinking": "hm"}}, {"message": {"content": "yes"}}, last)
    assert pieces == [Piece("", "hm"), Piece("yes"), Piece("", "", "stop")]


def test_an_answer_that_just_ends_is_a_failure() -> None:
    with pytest.raises(OllamaError, match="ended without the word that it is done"):
        said({"message": {"content": "yes"}})


@pytest.mark.parametrize("error", ["CUDA error", {"message": "CUDA error", "type": "server_error"}])
def test_an_error_in_the_stream_is_a_failure_with_its_text(error: object) -> None:
    with pytest.raises(OllamaError, match=r"broke off: CUDA error$"):
        said({"message": {"content": "yes"}}, {"error": error})


def test_a_busy_server_is_told_with_its_words() -> None:
    with pytest.raises(OllamaError, match=r"a \(http://h:1\) answers with 503: server busy"):
        list(server({"/api/chat": httpx.Response(503, json={"error": "server busy"})}, "m").chat([], {}))


def test_something_that_is_no_ollama_is_told() -> None:
    with pytest.raises(OllamaError, match="does not answer as Ollama does: '<html>'"):
        server({"/api/tags": httpx.Response(200, text="<html>")}).with_model()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (httpx.ConnectError("Connection refused"), "cannot be reached"),
        (httpx.ReadError(""), "went away in the middle"),
        (httpx.ReadTimeout(""), "said nothing for too long"),
    ],
)
def test_a_lost_server_is_told(error: Exception, told: str) -> None:
    def lost(_: httpx.Request) -> httpx.Response:
        raise error

    with pytest.raises(OllamaError, match=told):
        list(server(lost, "m").chat([], {}))


def test_lines_end_at_line_feeds_alone_wherever_the_parts_were_cut() -> None:
    text = '{"a": "\x85\u2028"}\n{"b": 1}\n'.encode()
    for cut in range(len(text)):
        found = [json.loads(line) for line in lines(iter([text[:cut], text[cut:]]))]
        assert found == [{"a": "\x85\u2028"}, {"b": 1}]


def test_what_steers_a_terminal_is_not_printable() -> None:
    assert printable("a\x1b[2J\x07\x9b1m\tb\nö") == "a[2J1m\tb\nö"
