"""Servers that break every rule: each causes one line with a fix, in limited time and memory."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpcore
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.deployed import ollama
from tandem.deployed.endpoints import Endpoint
from tandem.deployed.ollama import Ollama, OllamaError
from tandem.models.from_ollama import read_tag
from tandem.terminal import CallError
from tandem.verify.servers import examine
from tests.tandem.deployed.mutated import JSON, mutated
from tests.tandem.fake_network import OPEN, Network, Reply, endless, raw, streamed, whole

pytestmark = pytest.mark.slow

TAG = "m:1"
HEAD = b"HTTP/1.1 200 OK\r\n"
DEEP = b"[" * 100_000
MANY_DIGITS = b"9" * 5_000
TABLES = yaml.safe_load(Path(__file__).with_name("evil_servers.yaml").read_text(encoding="utf-8"))
WELL: dict[str, Any] = TABLES["well"]
HUGE = json.dumps(WELL["generate"]).replace('eval_count": 1', 'eval_count": 1e400').encode()


def asking(network: Network, **options: Any) -> Ollama:
    return Ollama(Endpoint("a", "http://h:1", TAG), network=network, clock=network.now, **options)


def chats(network: Network) -> str:
    with asking(network, timeout=20.0) as server:
        return "".join(piece.text for piece in server.chat([], {"num_predict": 10}))


def connects(network: Network) -> str:
    with asking(network) as server:
        return f"{server.version()} {server.with_model()}"


def looks(network: Network) -> str:
    with asking(network) as server:
        return str(server.memory())


def verifies(network: Network) -> str:
    """Every step of `verify`, whose rows must name the error."""
    with asking(network) as server:
        found = examine({"a": server}, {"a": TAG})["a"]
    wrong = [outcome.text for outcome in found.outcomes.values() if not outcome.fine]
    if wrong:
        raise OllamaError(Endpoint("a", "http://h:1"), wrong[0], "See the row.")
    return str(found)


def inspects(network: Network) -> str:
    with asking(network) as server:
        return str(read_tag(server))


ASKED: dict[str, tuple[Callable[[Network], str], ...]] = {
    "version": (connects, verifies),
    "tags": (connects, verifies, inspects),
    "ps": (looks, verifies),
    "show": (inspects,),
    "generate": (verifies,),
    "chat": (chats,),
}
"""The callers of each path."""
ANY = tuple(ASKED)


def replying(body: Any, *more: Any) -> Reply:
    return whole(body.encode() if isinstance(body, str) else body, *more)


EVERYWHERE: list[tuple[str, Reply, str]] = [
    *(
        (what, replying(body, status, *filter(None, [head])), says)
        for what, body, status, head, says in TABLES["everywhere"]
    ),
    ("a number of 5,000 digits", whole(MANY_DIGITS), ""),
    ("a deep nesting", whole(DEEP), "recursion limit exceeded"),
    ("a deep nesting further in", whole(b'{"x":' + DEEP), "recursion limit exceeded"),
    ("no UTF-8", whole(b'{"error": "\xff"}'), "Invalid JSON"),
    ("an upgrade", raw(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), ""),
    ("another protocol", raw(b"SSH-2.0-OpenSSH\r\n"), "closed the connection early"),
    ("zeros", raw(b"\0" * 1000), "closed the connection early"),
    ("silence and the end", raw(), "closed the connection early"),
    ("half a head", raw(HEAD), "closed the connection early"),
    ("half a body", raw(HEAD + b"Content-Length: 99\r\n\r\n{"), "closed the connection early"),
    (
        "a length of 5,000 digits",
        raw(HEAD + b"Content-Length: " + MANY_DIGITS + b"\r\n\r\n{}"),
        "closed the connection early",
    ),
    ("a negative length", raw(HEAD + b"Content-Length: -1\r\n\r\n{}"), "closed the connection early"),
    ("a chunk of 5,000 digits", raw(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + MANY_DIGITS + b"\r\n"), "closed"),
    ("a head without an end", endless(b"X: y\r\n" * 1000, head=HEAD), "closed the connection early"),
    ("a header without an end", endless(b"x" * 65536, head=HEAD + b"X: "), "closed the connection early"),
    ("a reset", raw(HEAD, httpcore.ReadError("Connection reset by peer")), "Connection reset by peer"),
]
"""Replies without anything that was requested."""
TWO_LINES = streamed(b'{"message": {"content": "a"}}\n', b'{"message": 7}\n')
MANY_TENSORS = {**WELL["show"], "tensors": [WELL["show"]["tensors"]] * 65_537}
ODD: list[tuple[str, str, Reply, str]] = [
    *((path, what, whole(body), says) for path, what, body, says in TABLES["odd"]),
    ("ps", "a size of 400 digits", whole({"models": [{**WELL["ps"]["models"][0], "size": 10**400}]}), "models.0.size"),
    ("show", "65,537 tensors", whole(MANY_TENSORS), "tensors"),
    ("generate", "a count of 1e400", whole(HUGE), "eval_count: "),
    ("chat", "one good line and a bad one", TWO_LINES, "message: "),
]
"""Replies in which one value is wrong."""
ROWS = [(path, f"{path}: {what}", reply, says) for path in ANY for what, reply, says in EVERYWHERE]
ROWS += [(path, f"{path}: {what}", reply, says) for path, what, reply, says in ODD]


@pytest.mark.parametrize(("path", "reply", "says"), [(row[0], *row[2:]) for row in ROWS], ids=[row[1] for row in ROWS])
def test_a_reply_that_no_ollama_sends_is_one_line(path: str, reply: Reply, says: str) -> None:
    for asks in ASKED[path]:
        network = Network(**{**WELL, path: reply})
        with pytest.raises(CallError) as wrong:
            asks(network)
        line = str(wrong.value)
        assert line.isprintable()
        assert says in line
        assert line.startswith("a (http://h:1) "), line
        assert line.endswith(".")
        assert len(line) < 600
        assert network.reads < 200


def test_a_good_server_answers_every_caller() -> None:
    for asks in {one for some in ASKED.values() for one in some}:
        assert asks(Network(**WELL))


WAYS = [(path, asks) for path in ANY for asks in ASKED[path]]
SLOW: list[tuple[str, Reply]] = [
    ("never begins", raw(10_000.0)),
    ("stops in the head", raw(HEAD, 10_000.0)),
    ("drips its head", endless(0.5, b"X: y\r\n", head=HEAD)),
    ("drips its first line", endless(0.5, b"x", head=b"")),
    ("drips blanks", endless(0.5, b" ")),
    ("drips line feeds", endless(0.5, b"\n")),
    ("drips empty lines", endless(0.5, b'{"message": {"content": ""}, "response": ""}\n')),
    ("says 100 for ever", endless(0.5, b"HTTP/1.1 100 Continue\r\n\r\n", head=b"")),
]


@pytest.mark.parametrize("reply", [row[1] for row in SLOW], ids=[row[0] for row in SLOW])
@pytest.mark.parametrize(("path", "asks"), WAYS)
def test_a_silent_server_is_given_up_after_the_timeout(path: str, asks: Callable[[Network], str], reply: Reply) -> None:
    network = Network(**{**WELL, path: reply})
    due = {"chat": 20.0, "generate": ollama.LOAD_SECONDS, "show": ollama.SHOW_SECONDS}.get(path, ollama.ANSWER_SECONDS)
    with pytest.raises(OllamaError, match=f"did not answer within {due:g} s"):
        asks(network)
    assert network.seconds == pytest.approx(due)
    assert network.reads <= due / 0.5 + 10


def test_a_slow_conversation_continues_while_words_arrive() -> None:
    words = [event for _ in range(9) for event in (19.0, b'{"message": {"content": "a"}}\n')]
    network = Network(chat=streamed(*words, json.dumps(WELL["chat"]).encode()))
    assert chats(network) == "a" * 10
    assert network.seconds == pytest.approx(9 * 19)


BIG = b"x" * 65536
LARGE: list[tuple[str, Reply]] = [
    ("a line without an end", endless(BIG)),
    ("lines without an end", endless(b'{"message": {"content": "a"}, "response": "a"}\n' * 1000)),
    ("line feeds", endless(b"\n" * 65536)),
    ("chunks of one byte", endless(b"1\r\n \r\n" * 10_000, head=HEAD + b"Transfer-Encoding: chunked\r\n\r\n")),
    ("an error without an end", endless(BIG, head=b"HTTP/1.1 500 No\r\n\r\n")),
    ("a list without an end", endless(b"[]," * 20_000, head=OPEN + b'{"models": [')),
]  # fmt: skip


@pytest.mark.parametrize("reply", [row[1] for row in LARGE], ids=[row[0] for row in LARGE])
@pytest.mark.parametrize(("path", "asks"), WAYS)
def test_an_endless_reply_is_cut_off(
    path: str, asks: Callable[[Network], str], reply: Reply, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To save time, the limits of replies that are parsed as a whole are lower here; that of streams is real."""
    monkeypatch.setattr(ollama, "MOST_BYTES", 2**20)
    monkeypatch.setattr(ollama, "MOST_SHOWN_BYTES", 2**20)
    network = Network(**{**WELL, path: reply})
    with pytest.raises(OllamaError, match=r"answered with more than [\d,]+ KiB"):
        asks(network)
    streamed_to = path == "chat"
    assert network.bytes <= (ollama.most_said_bytes(10) if streamed_to else 2**20) + 65536 + 200


@settings(max_examples=60)
@given(st.data())
def test_no_reply_causes_a_traceback(data: st.DataObject) -> None:
    """One value of the reply is replaced by another, anywhere."""
    path = data.draw(st.sampled_from(ANY))
    reply = mutated(WELL[path], data.draw(JSON), data)
    for asks in ASKED[path]:
        with suppress(CallError):
            asks(Network(**{**WELL, path: whole(reply)}))
