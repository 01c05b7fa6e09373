"""A model's Ollama server, put to the test: has it its model, does it load it, answer, and hold it on the GPU?"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from sharing.printable import one_line
from tandem.cluster.answers import MalformedError, Number, Read, Shape, Text, checked
from tandem.connection import Endpoint

ANSWER_SECONDS = 30.0
"""For questions that need no model."""
LOAD_SECONDS = 600.0
"""Ollama itself gives up on a load that does not move for five minutes."""
MOST_BYTES = 16 * 2**20
"""Of one answer: the vector of an embedding model is the longest, with some 100 KiB."""
LONGEST_REASON = 500
PROBE = "Say hello."
PROBE_TOKENS = 16
NANOSECONDS = 1e9


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one step went, in words."""

    fine: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A loaded model, as `/api/ps` tells."""

    size: int
    """Bytes, wherever they are."""
    size_vram: int
    """Bytes of them on the GPU."""
    context: int
    """Tokens."""
    expires: str
    """When it is unloaded, as ISO 8601; Ollama tells a far future for never."""


@dataclass(slots=True)
class Server:
    """What a server was seen to do, step by step; a step after a failed one is absent."""

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    memory: Memory | None = None


class _Error(Read):
    error: Any = None


class _Version(Read):
    version: Text | None = None


class _Held(Read):
    name: Text


class _Tags(Read):
    models: list[_Held] | None = None


class _Running(Read):
    name: Text
    size: Number | None = None
    size_vram: Number | None = None
    context_length: Number | None = None
    expires_at: Text | None = None


class _Ps(Read):
    models: list[_Running] | None = None


class _Said(Read):
    load_duration: Number | None = None
    eval_count: Number | None = None
    eval_duration: Number | None = None
    embeddings: list[list[Any]] | None = None


class NoAnswerError(Exception):
    """A server that does not do what it should; says what it said."""


class Ollama:
    """One server. Proxies of the environment are not used: the address is on this machine."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        encoder: bool = False,
        trouble: Callable[[], str] = str,
        seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._endpoint, self._encoder, self._trouble, self._seconds = endpoint, encoder, trouble, seconds
        self._client = httpx.Client(base_url=endpoint.url, trust_env=False)

    def close(self) -> None:
        """Closes the connection."""
        self._client.close()

    def version(self) -> str:
        """The server's version."""
        return self._ask(_Version, "GET", "/api/version").version or "unknown"

    def held(self) -> list[str]:
        """The tags of its models."""
        return sorted(model.name for model in self._ask(_Tags, "GET", "/api/tags").models or [])

    def load(self) -> float:
        """Loads the model; returns the seconds that it took."""
        if self._encoder:
            answer = self._ask(_Said, "POST", "/api/embed", {"input": "hello"})
        else:
            answer = self._ask(_Said, "POST", "/api/generate", {})
        return (answer.load_duration or 0) / NANOSECONDS

    def answer(self) -> tuple[int, float]:
        """Answers a tiny prompt; returns its tokens and tokens per second (0 for an embedding model)."""
        if self._encoder:
            embedded = self._ask(_Said, "POST", "/api/embed", {"input": PROBE}).embeddings
            return len(embedded[0]) if embedded else 0, 0.0
        # Temperature 0 and a seed: the same each time. None of these makes Ollama load the model anew.
        options = {"num_predict": PROBE_TOKENS, "temperature": 0, "seed": 1}
        answer = self._ask(_Said, "POST", "/api/generate", {"prompt": PROBE, "options": options})
        tokens, duration = answer.eval_count or 0, answer.eval_duration or 0
        return tokens, tokens * NANOSECONDS / duration if duration else 0.0

    def memory(self) -> Memory | None:
        """Where the model is; None while it is not loaded."""
        for model in self._ask(_Ps, "GET", "/api/ps").models or []:
            if same_tag(model.name, self._endpoint.model):
                return Memory(
                    size=model.size or 0,
                    size_vram=model.size_vram or 0,
                    context=model.context_length or 0,
                    expires=model.expires_at or "",
                )
        return None

    def _ask(self, shape: type[Shape], method: str, path: str, body: Mapping[str, Any] | None = None) -> Shape:
        asked = None if body is None else {"model": self._endpoint.model, "stream": False, **body}
        seconds = self._seconds if body is None else LOAD_SECONDS
        try:
            status, answer = self._answered(method, path, asked, seconds)
        except httpx.TimeoutException:
            raise NoAnswerError(f"no answer to {path} in {seconds:.0f} s") from None
        except httpx.HTTPError as error:
            raise NoAnswerError(self._trouble() or one_line(str(error)) or type(error).__name__) from None
        try:
            refused = checked(_Error, answer).error
            if status >= httpx.codes.BAD_REQUEST or refused:
                raise NoAnswerError(f"{status}: {one_line(str(refused or 'no reason given'))[:LONGEST_REASON]}")
            return checked(shape, answer)
        except MalformedError as error:
            raise NoAnswerError(f"{path} is answered with {status} and not as Ollama does ({error})") from None

    def _answered(self, method: str, path: str, body: object, seconds: float) -> tuple[int, bytes]:
        """Status and body. An answer that has no end has one here."""
        begun, answer = time.monotonic(), bytearray()
        with self._client.stream(method, path, json=body, timeout=httpx.Timeout(seconds, connect=10)) as response:
            for part in response.iter_bytes():
                answer += part
                if len(answer) > MOST_BYTES:
                    raise NoAnswerError(f"{path} is answered with more than {MOST_BYTES // 2**20} MiB")
                if time.monotonic() - begun > seconds:
                    raise NoAnswerError(f"no whole answer to {path} in {seconds:.0f} s")
            return response.status_code, bytes(answer)


def examine(servers: Mapping[str, Ollama], tags: Mapping[str, str]) -> dict[str, Server]:
    """Puts all servers of a stack to the test, by id.

    All are loaded before any is judged: a model may be whole on the GPU only as long as its neighbour is not there.
    """
    found = {id: Server() for id in servers}
    steps: tuple[tuple[str, Callable[[Ollama, str], str]], ...] = (
        ("version", lambda server, _: f"Ollama {server.version()}"),
        ("held", _held),
        ("loaded", lambda server, _: f"in {server.load():.1f} s"),
        ("answered", _answered),
    )
    for step, taken in steps:
        for id, server in servers.items():
            if all(outcome.fine for outcome in found[id].outcomes.values()):
                found[id].outcomes[step] = _outcome(taken, server, tags[id])
    for id, server in servers.items():
        if "loaded" in found[id].outcomes:
            try:
                found[id].memory = server.memory()
            except NoAnswerError as error:
                found[id].outcomes["answered"] = Outcome(False, str(error))
    return found


def _outcome(taken: Callable[[Ollama, str], str], server: Ollama, tag: str) -> Outcome:
    try:
        return Outcome(True, taken(server, tag))
    except NoAnswerError as error:
        return Outcome(False, str(error))


def _held(server: Ollama, tag: str) -> str:
    tags = server.held()
    if not any(same_tag(one, tag) for one in tags):
        raise NoAnswerError(f"it has {', '.join(tags) or 'no model'}")
    return tag


def _answered(server: Ollama, _: str) -> str:
    tokens, speed = server.answer()
    if not tokens:
        raise NoAnswerError("an answer without a word")
    return f"{tokens} tokens, {speed:.1f} tokens/s" if speed else f"a vector of {tokens} numbers"


def same_tag(one: str, other: str) -> bool:
    """Whether two names mean the same model: Ollama adds `:latest` to a name without a tag."""

    def whole(tag: str) -> str:
        return tag if ":" in tag.rpartition("/")[2] else f"{tag}:latest"

    return whole(one) == whole(other)
