"""What the client makes of a server's answers, good and bad."""

import json

import httpcore
import pytest

from sharing.printable import printable
from tandem.deployed.endpoints import Endpoint
from tandem.deployed.ollama import Memory, Ollama, OllamaError, Piece, same_tag
from tandem.deployed.wire import Lines
from tests.tandem.fake_network import Network, Reply, raw, streamed, whole


def server(model: str = "", **replies: object) -> Ollama:
    return Ollama(Endpoint("a", "http://h:1", model), network=Network(**replies))


def holding(*names: str) -> object:
    return {"models": [{"name": name} for name in names]}


def said(*answers: object) -> list[Piece]:
    lines = (json.dumps(answer).encode() + b"\n" for answer in answers)
    return list(server("m", chat=streamed(*lines)).chat([], {}))


def test_a_server_with_one_model_answers_for_it() -> None:
    assert server(tags=holding("tiny:1b")).with_model().model == "tiny:1b"


def test_a_model_called_like_the_endpoint_is_meant() -> None:
    assert server(tags=holding("a:latest", "b:latest")).with_model().model == "a:latest"


def test_a_tag_without_a_version_means_latest() -> None:
    assert server("m", tags=holding("m:latest", "n:latest")).with_model().model == "m:latest"


def test_several_models_and_no_name_ask_for_one() -> None:
    with pytest.raises(OllamaError, match=r"holds x:1, y:1\. Choose one with `--model a=x:1`\.$"):
        server(tags=holding("y:1", "x:1")).with_model()


def test_a_model_that_is_not_pulled_says_how_to_pull_it() -> None:
    with pytest.raises(OllamaError, match=r"has no model m; it has x:1\. Run `ollama pull m` there\.$"):
        server("m", tags=holding("x:1")).with_model()


def test_a_server_without_models_says_so_and_not_that_one_called_model_is_missing() -> None:
    with pytest.raises(OllamaError, match=r"^a \(http://h:1\) holds no model yet\. Run `ollama pull NAME` there\.$"):
        server(tags=holding()).with_model()


@pytest.mark.parametrize("model", ["", "m"])
def test_an_address_with_a_path_that_is_not_there_is_to_be_given_without_it(model: str) -> None:
    network = Network(tags=whole(b"404 page not found", 404))
    with pytest.raises(OllamaError) as refused:
        Ollama(Endpoint("a", "http://h:1/v1", model), network=network).with_model()
    fix = "Give the address without the path /v1."
    assert str(refused.value) == f"a (http://h:1/v1) answers with 404: 404 page not found. {fix}"


@pytest.mark.parametrize("reason", ["[SSL: WRONG_VERSION_NUMBER] wrong version number", "[SSL] record layer failure"])
def test_tls_to_a_plain_port_names_http(reason: str) -> None:
    with pytest.raises(OllamaError, match=r"If it has no certificate, begin its address with http://\.$"):
        Ollama(Endpoint("a", "http://h:1"), network=Network(version=raw(httpcore.ConnectError(reason)))).version()


def test_a_model_that_went_away_says_so_too() -> None:
    with pytest.raises(OllamaError, match="ollama pull m"):
        list(server("m", chat=whole({"error": "model 'm' not found"}, 404)).chat([], {}))


def test_where_a_model_is_comes_from_the_loaded_ones() -> None:
    loaded = {
        "name": "m:latest",
        "size": 5,
        "size_vram": 3,
        "context_length": 4096,
        "expires_at": "2318-01-01T00:00:00Z",
    }
    memory = server("m", ps={"models": [{"name": "x:1"}, loaded]}).memory()
    assert memory == Memory(size=5, size_vram=3, context=4096, expires="2318-01-01T00:00:00Z")


def test_a_model_that_is_not_loaded_is_nowhere() -> None:
    assert server("m", ps={"models": None}).memory() is None


def test_an_answer_comes_in_pieces_with_thoughts_apart() -> None:
    last = {"done": True, "done_reason": "stop"}
    pieces = said({"message": {"content": "", "thinking": "hm"}}, {"message": {"content": "yes"}}, last)
    assert pieces == [Piece("", "hm"), Piece("yes"), Piece("", "", "stop")]


def test_an_answer_that_just_ends_is_a_failure() -> None:
    with pytest.raises(OllamaError, match="ended without the word that it is done"):
        said({"message": {"content": "yes"}})


@pytest.mark.parametrize("error", ["CUDA error", {"message": "CUDA error", "type": "server_error"}])
def test_an_error_in_the_stream_is_a_failure_with_its_text(error: object) -> None:
    with pytest.raises(OllamaError, match=r"broke off: CUDA error\. Read the server's log\.$"):
        said({"message": {"content": "yes"}}, {"error": error})


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (whole({"error": "server busy"}, 503), "answers with 503: server busy. Read the server's log."),
        (raw(httpcore.ReadError("")), "went away in the middle (ReadError) (/api/chat). Read the server's log."),
        (
            raw(httpcore.ReadTimeout()),
            "does not answer within 30 s (/api/chat). Read the server's log.",
        ),
    ],
)
def test_a_lost_server_is_named_with_what_it_does(reply: Reply, says: str) -> None:
    with pytest.raises(OllamaError) as lost:
        list(server("m", chat=reply).chat([], {}))
    assert str(lost.value) == f"a (http://h:1) {says}"


def test_a_server_that_nobody_started_says_so() -> None:
    class Nobody(httpcore.NetworkBackend):
        def connect_tcp(self, *_: object, **__: object) -> httpcore.NetworkStream:
            raise httpcore.ConnectError("Connection refused")

    with pytest.raises(OllamaError, match=r"cannot be reached \(Connection refused\)\. Start it, or forward its port"):
        Ollama(Endpoint("a", "http://h:1"), network=Nobody()).version()


def test_lines_end_at_line_feeds_alone_wherever_the_parts_were_cut() -> None:
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
def test_a_name_without_a_tag_means_the_latest(one: str, other: str, same: bool) -> None:
    assert same_tag(one, other) is same


def test_what_steers_a_terminal_is_not_printable() -> None:
    assert printable("a\x1b[2J\x07\x9b1m\tb\nö") == "a[2J1m\tb\nö"
