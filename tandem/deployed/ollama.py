"""The client of Ollama servers, for `run`, `chat`, `bench`, `verify`, `watch` and `models inspect`."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

import httpx

from tandem.deployed.connection import Connected, Reach, trouble_of
from tandem.deployed.endpoints import Endpoint
from tandem.deployed.ollama_replies import (
    Chatted,
    Embedded,
    Failure,
    Generated,
    MalformedError,
    Model,
    Ps,
    Shape,
    Shown,
    Tags,
    Version,
    checked,
    refusal,
)
from tandem.deployed.wire import ERROR, Answer, LateError, NotReachedError, Wire, WireError
from tandem.terminal import FAILED, CallError

ANSWER_SECONDS = 30.0
"""Time limit of a request that needs no model."""
SHOW_SECONDS = 120.0
LOAD_SECONDS = 600.0
"""Ollama itself stops a load without progress after five minutes."""
NOT_FOUND = 404
PROBE = "Say hello."
PROBE_TOKENS = 16
NANOSECONDS = 1e9
LOOK = "Check the server's log."
REACH = "Start it, or forward its port again."
USE_HTTP = "If it has no certificate, start its address with http://."
IS_IT_OLLAMA = "Check that the address leads to Ollama."


class OllamaError(CallError):
    """A server that fails."""

    exit_code = FAILED

    def __init__(self, endpoint: Endpoint, what: str, fix: str) -> None:
        super().__init__(f"{endpoint.id} ({endpoint.url}) {what}. {fix}")
        self.what = what
        """The failure, without the server's name."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an answer, as it arrives."""

    text: str = ""
    thinking: str = ""
    done_reason: str | None = None
    """In the last piece: `stop`, `length`, …"""
    tokens: int = 0
    """In the last piece: of the whole answer, with its reasoning."""
    seconds: float = 0.0
    """In the last piece: the server's time for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A loaded model, as `/api/ps` lists it."""

    size: int
    """Bytes, on GPU or CPU. Since Ollama 0.30 it equals `size_vram` only if no layer is on the CPU."""
    size_vram: int
    """Bytes of them on the GPU."""
    context: int
    """Tokens."""
    expires: str
    """When it is unloaded, as ISO 8601; Ollama writes a far future for never."""


class Ollama:
    """One server. Use as a context manager: it keeps a connection open."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        timeout: float = ANSWER_SECONDS,
        option: str = "",
        encoder: bool = False,
        trouble: Callable[[], str] = str,
        transport: httpx.BaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`timeout` in seconds, of a reply that needs no model, or between two lines; `encoder`: it only embeds.

        `option` of the command line sets the timeout; empty if none does.
        `trouble` returns why a forwarded port does not reach the server; empty if it does.
        """
        self.endpoint = endpoint
        self._timeout, self._option, self._encoder, self._trouble = timeout, option, encoder, trouble
        self._clock, self._wire = clock, Wire(endpoint.url, transport=transport, clock=clock)

    def __enter__(self) -> "Ollama":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection."""
        self._wire.close()

    def version(self) -> str:
        """The server's version, e.g. `0.32.15`."""
        return self._ask(Version, "GET", "/api/version").version

    def models(self) -> list[Model]:
        """The server's models, by name."""
        return sorted(self._ask(Tags, "GET", "/api/tags").models or [], key=lambda model: model.name)

    def show(self) -> Shown:
        """All that the server knows about the model: metadata with every list, tensors, projector."""
        asked = {"model": self.endpoint.model, "verbose": True}
        return self._ask(Shown, "POST", "/api/show", asked, seconds=SHOW_SECONDS)

    def with_model(self) -> Endpoint:
        """The endpoint with its model's name; raises `OllamaError` if the model is missing or ambiguous."""
        held = [model.name for model in self.models()]
        wanted = self.endpoint.model
        for name in held:
            if same_tag(name, wanted or self.endpoint.id):
                return replace(self.endpoint, model=name)
        if wanted:
            raise self._not_pulled(wanted, held)
        if not held:
            raise OllamaError(self.endpoint, "has no model", "Run `ollama pull NAME` there.")
        if len(held) > 1:
            example = f"--model {self.endpoint.id}={held[0]}"
            raise OllamaError(self.endpoint, f"has several models ({', '.join(held)})", f"Choose one with `{example}`.")
        return replace(self.endpoint, model=held[0])

    def memory(self) -> Memory | None:
        """The memory of the endpoint's model, or None while it is not loaded."""
        for model in self._ask(Ps, "GET", "/api/ps").models or []:
            if same_tag(model.name, self.endpoint.model):
                return Memory(
                    size=model.size,
                    size_vram=model.size_vram,
                    context=model.context_length,
                    expires=model.expires_at,
                )
        return None

    def load(self) -> float:
        """Loads the model; returns the duration in seconds.

        By our clock: Ollama reports no duration for a request without a prompt (v0.32.15, server/routes.go, "load").
        """
        begun = self._clock()
        if self._encoder:
            self._embed("hello")
        else:
            self._generate({})
        return self._clock() - begun

    def probe(self) -> tuple[int, float]:
        """Answers a short prompt; returns its tokens and tokens per second (0 for an embedding model)."""
        if self._encoder:
            embeddings = self._embed(PROBE).embeddings
            return len(embeddings[0]) if embeddings else 0, 0.0
        # Temperature 0 and a seed: the same each time. None of these makes Ollama load the model again.
        options = {"num_predict": PROBE_TOKENS, "temperature": 0, "seed": 1}
        answer = self._generate({"prompt": PROBE, "options": options})
        tokens, duration = answer.eval_count or 0, answer.eval_duration or 0
        return tokens, tokens * NANOSECONDS / duration if duration else 0.0

    def chat(self, messages: Sequence[Mapping[str, str]], options: Mapping[str, Any]) -> Iterator[Piece]:
        """The answer to `messages`, as it arrives. Raises `OllamaError` if it stops early or times out."""
        asked = {"model": self.endpoint.model, "messages": list(messages), "stream": True, "options": dict(options)}
        with self._answer("POST", "/api/chat", asked, self._timeout) as answer:
            if answer.status >= ERROR:
                raise self._refused(answer.status, answer.body())
            for line in answer.lines():
                part = self._checked(Chatted, "/api/chat", line)
                if part.error:
                    raise OllamaError(self.endpoint, f"stopped early: {part.reason or 'no reason given'}", LOOK)
                text, thinking = (part.message.content, part.message.thinking) if part.message else ("", "")
                if part.done:
                    tokens, seconds = part.eval_count or 0, (part.eval_duration or 0) / NANOSECONDS
                    yield Piece(text or "", thinking or "", part.done_reason or "stop", tokens, seconds)
                    return
                yield Piece(text or "", thinking or "")
        # Seen with one token repeated thirty times: the stream just ends, status 200.
        raise OllamaError(self.endpoint, "closed the stream before the reply was complete", LOOK)

    def _generate(self, body: Mapping[str, Any]) -> Generated:
        asked = {"model": self.endpoint.model, "stream": False, **body}
        return self._ask(Generated, "POST", "/api/generate", asked, seconds=LOAD_SECONDS)

    def _embed(self, text: str) -> Embedded:
        asked = {"model": self.endpoint.model, "input": text}
        return self._ask(Embedded, "POST", "/api/embed", asked, seconds=LOAD_SECONDS)

    def _ask(
        self,
        shape: type[Shape],
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        seconds: float | None = None,
    ) -> Shape:
        with self._answer(method, path, body, seconds or self._timeout) as answer:
            status, content = answer.status, answer.body()
        if status >= ERROR or self._checked(Failure, path, content).error:
            raise self._refused(status, content)
        return self._checked(shape, path, content)

    @contextmanager
    def _answer(self, method: str, path: str, body: Mapping[str, Any] | None, seconds: float) -> Iterator[Answer]:
        try:
            with self._wire.answer(method, path, body, seconds=seconds) as answer:
                yield answer
        except NotReachedError as error:
            what = self._trouble() or str(error)
            raise OllamaError(self.endpoint, what, USE_HTTP if speaks_no_tls(what) else REACH) from None
        except LateError as error:
            fix = f"Raise `{self._option}`, or {LOOK[0].lower()}{LOOK[1:]}" if self._option else LOOK
            raise OllamaError(self.endpoint, f"{error} ({path})", fix) from None
        except WireError as error:
            raise OllamaError(self.endpoint, self._trouble() or f"{error} ({path})", LOOK) from None

    def _checked(self, shape: type[Shape], path: str, content: bytes) -> Shape:
        try:
            return checked(shape, content)
        except MalformedError as error:
            raise OllamaError(self.endpoint, f"does not answer {path} as Ollama does ({error})", IS_IT_OLLAMA) from None

    def _refused(self, status: int, content: bytes) -> OllamaError:
        said = refusal(status, content)
        inner = urlsplit(self.endpoint.url).path
        if status == NOT_FOUND and inner and "model" not in said:
            return OllamaError(self.endpoint, f"answered with {said}", f"Remove the path {inner} from the address.")
        if status == NOT_FOUND and self.endpoint.model and "not found" in said:
            return self._not_pulled(self.endpoint.model, [])
        return OllamaError(self.endpoint, f"answered with {said}", LOOK)

    def _not_pulled(self, model: str, held: Sequence[str]) -> OllamaError:
        has = f"; it has {', '.join(held)}" if held else ""
        return OllamaError(self.endpoint, f"has no model {model}{has}", f"Run `ollama pull {model}` there.")


@contextmanager
def servers_of(connected: Connected, reach: Reach, timeout: float = ANSWER_SECONDS) -> Iterator[dict[str, Ollama]]:
    """A client for each model of a stack, by id, while the block runs."""
    with reach(connected) as ways, ExitStack() as opened:
        servers = {}
        for served in connected.plan.config.models:
            way = ways[served.id]
            endpoint = Endpoint(served.id, way.url, served.model.name)
            server = Ollama(endpoint, encoder=served.model.encoder, trouble=trouble_of(way), timeout=timeout)
            servers[served.id] = opened.enter_context(server)
        yield servers


def speaks_no_tls(what: str) -> bool:
    """Whether TLS met plain text. OpenSSL has another error since 3.2 (urllib3, pull request 3271)."""
    return "[SSL" in what and ("wrong version number" in what or "record layer failure" in what)


def same_tag(tag: str, other: str) -> bool:
    """Whether two names mean the same model: Ollama adds `:latest` to a name without a tag."""

    def whole(name: str) -> str:
        return name if ":" in name.rpartition("/")[2] else f"{name}:latest"

    return whole(tag) == whole(other)
