"""The client of Ollama servers: its requests word for word, their limits, and one error for each failure."""

import gzip
import json
import ssl
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import httpcore
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.deployed import wire
from tandem.deployed.endpoints import Endpoint
from tandem.deployed.ollama import Memory, Ollama, OllamaError, Piece, same_tag, servers_of, speaks_no_tls
from tandem.deployed.wire import split_lines
from tests.tandem.deployed.errors import ERRORS
from tests.tandem.fake_network import OPEN, Network, Reply, endless, raw, streamed, transport, whole
from tests.tandem.fake_ollama import ollama

MIB = 2**20
LOADED = {"name": "a:latest", "size": 5, "size_vram": 4, "context_length": 3, "expires_at": "2026"}
GOOD: dict[str, Any] = {
    "version": {"version": "0.32.15"},
    "tags": {"models": [{"name": "b:1"}, {"name": "a:latest"}]},
    "show": {"model_info": {}},
    "ps": {"models": [{**LOADED, "name": "b:1", "size": 1}, LOADED]},
    "generate": {"eval_count": 16, "eval_duration": 500_000_000},
    "embed": {"embeddings": [[0.5, 0.25, 0.125]]},
}
"""A good reply at each path."""


def lines(*answers: object) -> Reply:
    return streamed(*(json.dumps(answer).encode() + b"\n" for answer in answers))


def client(network: Network, model: str = "a", **options: Any) -> Ollama:
    return Ollama(Endpoint("a", "http://h:1", model), transport=transport(network), clock=network.now, **options)


def server(model: str = "", **replies: object) -> Ollama:
    return client(Network(**{**GOOD, **replies}), model)


def call(server: Ollama, path: str) -> object:
    """The call of the client that asks at this path."""
    calls: dict[str, Any] = {
        "version": server.version,
        "tags": server.models,
        "show": server.show,
        "ps": server.memory,
        "generate": server.load,
        "chat": lambda: list(server.chat([], {"num_predict": 10})),
    }
    return calls[path]()


def test_requests_that_need_no_model() -> None:
    network = Network(**GOOD)
    with client(network) as server:
        assert server.version() == "0.32.15"
        assert [model.name for model in server.models()] == ["a:latest", "b:1"]
        assert server.with_model() == Endpoint("a", "http://h:1", "a:latest")
        assert server.memory() == Memory(size=5, size_vram=4, context=3, expires="2026")
        server.show()
    got = [(f"/api/{path}", None) for path in ("version", "tags", "tags", "ps")]
    assert network.asked == [*got, ("/api/show", {"model": "a", "verbose": True})]


def test_a_model_is_loaded_and_probed() -> None:
    network = Network(**{**GOOD, "generate": raw(7.0, *whole(GOOD["generate"])())})
    server = client(network)
    assert [server.load(), server.load()] == [7, 7]
    assert server.probe() == (16, 32.0)
    load = {"model": "a", "stream": False}
    options = {"num_predict": 16, "temperature": 0, "seed": 1}
    assert network.asked == [
        ("/api/generate", load),
        ("/api/generate", load),
        ("/api/generate", {**load, "prompt": "Say hello.", "options": options}),
    ]


def test_an_encoder_only_embeds() -> None:
    network = Network(**{**GOOD, "embed": raw(7.0, *whole(GOOD["embed"])())})
    server = client(network, encoder=True)
    assert server.load() == 7
    assert server.probe() == (3, 0.0)
    assert network.asked == [("/api/embed", {"model": "a", "input": text}) for text in ("hello", "Say hello.")]


def test_a_reply_without_durations_has_no_speed() -> None:
    assert server("a", generate={}).probe() == (0, 0.0)
    assert server("a", generate={"eval_count": 16}).probe() == (16, 0.0)
    assert client(Network(embed={"embeddings": []}), encoder=True).probe() == (0, 0.0)


def test_a_conversation_arrives_in_pieces() -> None:
    said = [
        {"message": {"content": "", "thinking": "hm"}},
        {"message": {"content": "Hi"}},
        {
            "message": {"content": "."},
            "done": True,
            "done_reason": "length",
            "eval_count": 3,
            "eval_duration": 60_000_000,
        },
    ]
    network, messages = Network(chat=lines(*said)), [{"role": "user", "content": "hi"}]
    pieces = list(client(network).chat(messages, {"num_predict": 10}))
    assert pieces == [Piece(thinking="hm"), Piece("Hi"), Piece(".", "", "length", 3, 0.06)]
    body = {"model": "a", "messages": messages, "stream": True, "options": {"num_predict": 10}}
    assert network.asked == [("/api/chat", body)]


@pytest.mark.parametrize(
    ("model", "held", "used"),
    [
        ("", ["tiny:1b"], "tiny:1b"),
        ("", ["a:latest", "b:latest"], "a:latest"),
        ("m", ["m:latest", "n:latest"], "m:latest"),
    ],
)
def test_the_model_is_the_named_one_or_that_of_the_servers_name_or_the_only_one(
    model: str, held: list[str], used: str
) -> None:
    assert server(model, tags={"models": [{"name": name} for name in held]}).with_model().model == used


def test_what_a_memory_report_lacks_is_zero() -> None:
    assert server("m", ps={"models": [{"name": "m"}]}).memory() == Memory(size=0, size_vram=0, context=0, expires="")


def test_only_an_error_of_tls_about_plain_text_is_one() -> None:
    said = (
        "[SSL: WRONG_VERSION_NUMBER] wrong version number",
        "[SSL] record layer failure",
        "[SSL] x",
        "record layer failure",
    )
    assert [speaks_no_tls(each) for each in said] == [True, True, False, False]


def test_the_client_of_an_encoder_only_embeds() -> None:
    with ollama("nomic") as fake:
        model: Any = SimpleNamespace(id="a", model=SimpleNamespace(name="nomic", encoder=True))
        stack: Any = SimpleNamespace(plan=SimpleNamespace(config=SimpleNamespace(models=[model])))
        way: Any = {"a": SimpleNamespace(url=fake.url, trouble="")}
        with servers_of(stack, lambda _: nullcontext(way)) as servers:
            servers["a"].load()
    assert [path for path, _ in fake.asked] == ["/api/embed"]


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


@pytest.mark.parametrize("model", ["", "m"])
def test_an_address_with_a_wrong_path_is_an_error_with_the_fix(model: str) -> None:
    network = Network(tags=whole(b"404 page not found", 404))
    with pytest.raises(OllamaError) as refused:
        Ollama(Endpoint("a", "http://h:1/v1", model), transport=transport(network)).with_model()
    fix = "Remove the path /v1 from the address."
    assert str(refused.value) == f"a (http://h:1/v1) answered with 404: 404 page not found. {fix}"


NOT_OLLAMA = "as Ollama does ({}"
WRONG: list[tuple[str, Reply, str]] = [
    ("version", whole(b"<html>Sign in</html>"), NOT_OLLAMA.format("Invalid JSON")),
    ("version", whole({"version": 1}), NOT_OLLAMA.format("version: ")),
    ("tags", whole({"models": [{"size": 1}]}), NOT_OLLAMA.format("models.0.name: Field required)")),
    ("ps", whole({"models": [{**LOADED, "size_vram": -1}]}), NOT_OLLAMA.format("models.0.size_vram: ")),
    ("generate", whole({"error": "CUDA\nerror \x1b[2J"}, 500), "answered with 500: CUDA error [2J. Check"),
    ("generate", whole({"error": "CUDA error"}), "answered with 200: CUDA error"),
    ("generate", whole({}, 400), "answered with 400. Check"),
    ("chat", whole({}, 400), "answered with 400. Check"),
    ("generate", whole({"error": {"message": "no engine"}}, 500), "answered with 500: no engine"),
    ("generate", whole(b"<html>", 502), "answered with 502: <html>"),
    ("generate", whole(b"", 502), "answered with 502. Check"),
    ("chat", streamed(b'{"message": {"content": "a"}}\n{"message": 7}\n'), NOT_OLLAMA.format("message: ")),
    ("tags", raw(b"SSH-2.0-OpenSSH\r\n"), "closed the connection early"),
    ("tags", raw(OPEN, httpcore.ReadError("Connection reset")), "closed the connection early (Connection reset)"),
]


@pytest.mark.parametrize(("path", "reply", "says"), WRONG)
def test_a_reply_that_is_not_ollamas_is_one_line_with_a_fix(path: str, reply: Reply, says: str) -> None:
    with pytest.raises(OllamaError) as wrong:
        call(server("a", **{path: reply}), path)
    line = str(wrong.value)
    assert line.startswith("a (http://h:1) ")
    assert says in line
    assert line.endswith(".")
    assert line.isprintable()


SECONDS = {"version": 20.0, "tags": 20.0, "ps": 20.0, "show": 120.0, "generate": 600.0, "chat": 20.0}
"""A client with a timeout of 20 s waits for so long."""


@pytest.mark.parametrize(("path", "seconds"), SECONDS.items())
def test_a_silent_server_is_given_up(path: str, seconds: float) -> None:
    network = Network(**{path: raw(OPEN, 10_000.0)})
    with pytest.raises(OllamaError) as late:
        call(client(network, timeout=20.0, option="--timeout"), path)
    assert late.value.what == f"did not answer within {seconds:g} s (/api/{path})"
    assert str(late.value).endswith("Raise `--timeout`, or check the server's log.")
    assert network.seconds == seconds


def test_an_address_at_which_nothing_answers_is_given_up_sooner() -> None:
    network = Network(**GOOD)
    client(network).load()
    assert network.connecting is not None
    assert 5 <= network.connecting <= 30
    client(network, timeout=2.0).version()
    assert network.connecting == 2


def test_no_proxy_stands_between_and_the_systems_certificates_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """httpx would use a proxy of the environment, and the certificates of certifi."""
    given: dict[str, Any] = {}
    monkeypatch.setattr(httpx, "Client", lambda **options: given.update(options))
    for scheme, kind in (("https", ssl.SSLContext), ("http", bool)):
        Ollama(Endpoint("a", f"{scheme}://h:1"))
        assert (given["trust_env"], isinstance(given["verify"], kind)) == (False, True)


def test_a_silent_encoder_is_given_up_as_late_as_another_model() -> None:
    network = Network(embed=raw(OPEN, 10_000.0))
    with pytest.raises(OllamaError):
        client(network, encoder=True).load()
    assert network.seconds == SECONDS["generate"]


@pytest.mark.parametrize("path", [path for path in SECONDS if path != "chat"])
def test_the_time_limit_is_that_of_a_whole_answer(path: str) -> None:
    network = Network(**{path: endless(15.0, b" ")})
    with pytest.raises(OllamaError, match=f"did not answer within {SECONDS[path]:g} s"):
        call(client(network, timeout=20.0), path)
    assert SECONDS[path] <= network.seconds <= SECONDS[path] + 15


def test_a_slow_conversation_continues_while_lines_arrive() -> None:
    words = [event for _ in range(9) for event in (19.0, b'{"message": {"content": "a"}}\n')]
    network = Network(chat=streamed(*words, b'{"done": true}'))
    pieces = list(client(network, timeout=20.0).chat([], {}))
    assert ("".join(piece.text for piece in pieces), network.seconds) == ("a" * 9, 9 * 19)


@pytest.mark.parametrize("path", ["show", "chat"])
def test_an_endless_reply_is_cut_off(path: str) -> None:
    part = b"x" * MIB
    network = Network(**{path: endless(part)})
    with pytest.raises(OllamaError, match="answered with more than 64 MiB"):
        call(client(network), path)
    assert 64 * MIB < network.bytes <= 66 * MIB


def test_a_reply_may_have_exactly_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(json.dumps(GOOD["tags"]))
    monkeypatch.setattr(wire, "MOST_BYTES", size)
    assert len(server().models()) == 2
    monkeypatch.setattr(wire, "MOST_BYTES", size - 1)
    with pytest.raises(OllamaError, match="answered with more than 0 MiB"):
        server().models()


def test_a_compressed_reply_is_refused_before_it_is_unpacked() -> None:
    """Two megabytes in a few bytes: httpx unpacks both layers of a part at once."""
    packed = gzip.compress(gzip.compress(bytes(2 * MIB)))
    with pytest.raises(OllamaError, match="answered with a compressed body, which nobody asked for"):
        server("a", tags=whole(packed, 200, "Content-Encoding: gzip, gzip")).models()


def test_text_that_is_not_utf_8_is_sent_escaped_and_no_compressed_reply_is_accepted() -> None:
    """Python reads an argument of a command that is not UTF-8 with lone surrogates."""
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200, json={"done": True})

    asking = Ollama(Endpoint("a", "http://h:1", "a"), transport=httpx.MockTransport(answer))
    list(asking.chat([{"role": "user", "content": "h\udcff"}], {}))
    assert b'"h\\udcff"' in sent[0].content
    assert sent[0].headers["content-type"] == "application/json"
    assert sent[0].headers["accept-encoding"] == "identity"


@given(st.lists(st.integers(0, 40)))
def test_lines_end_only_at_line_feeds_however_the_stream_is_split(cuts: list[int]) -> None:
    text, cuts = '{"a": "\x85\u2028"}\n\n  \n{"b": 1}\n7'.encode(), sorted(cuts)
    parts = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert list(map(json.loads, split_lines(parts))) == [{"a": "\x85\u2028"}, {"b": 1}, 7]


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
