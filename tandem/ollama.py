"""An Ollama server, asked: which version, which models, what is loaded where, and a conversation, piece by piece."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import httpx

from sharing.printable import printable
from tandem.calling import FAILED, CallError
from tandem.connection import Endpoint

CONNECT_SECONDS = 10.0
ANSWER_SECONDS = 30.0
"""How long a question that needs no model may take."""
MOST_BYTES = 256 * 2**20
"""Of a description. That of a vocabulary of 262,144 tokens has 20 MiB."""


class OllamaError(CallError):
    """A server that does not do what it should; the text names it and says what to do."""

    exit_code = FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A model in a server's memory, as `/api/ps` tells."""

    model: str
    digest: str
    size: int
    """Bytes it takes, wherever they are."""
    size_vram: int
    """Bytes of them on the GPU."""
    context_length: int

    @property
    def spilled(self) -> bool:
        """Whether layers are on the CPU: since Ollama 0.30 both sizes are equal only if none is."""
        return self.size_vram < self.size


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an answer, as it arrives."""

    text: str = ""
    thinking: str = ""
    done_reason: str | None = None
    """In the last piece: `stop`, `length`, …"""


class Ollama:
    """One server. Use as a context manager: it keeps a connection open.

    Proxies of the environment are not used: they would stand between the clock and the server.
    """

    def __init__(
        self, endpoint: Endpoint, *, timeout: float = ANSWER_SECONDS, transport: httpx.BaseTransport | None = None
    ) -> None:
        self.endpoint = endpoint
        self._client = httpx.Client(
            base_url=endpoint.url,
            timeout=httpx.Timeout(timeout, connect=CONNECT_SECONDS),
            transport=transport,
            trust_env=False,
        )

    def __enter__(self) -> "Ollama":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def version(self) -> str:
        """The server's version, e.g. `0.32.15`."""
        return str(self._get("/api/version").get("version", ""))

    def models(self) -> list[dict[str, Any]]:
        """The models that the server holds, as `/api/tags` lists them, by name."""
        return sorted(self._get("/api/tags").get("models") or [], key=lambda model: str(model["name"]))

    def show(self, tag: str) -> dict[str, Any]:
        """All that the server knows about a model: metadata with every list, tensors, projector."""
        body = bytearray()
        try:
            with self._client.stream("POST", "/api/show", json={"model": tag, "verbose": True}) as response:
                if response.is_error:
                    response.read()
                    raise self._refused(response)
                for part in response.iter_bytes():
                    body += part
                    if len(body) > MOST_BYTES:
                        most = f"more than {MOST_BYTES // 2**20} MiB"
                        raise OllamaError(f"{self._name()} describes {tag} with {most}. Read its GGUF file instead.")
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        return self._parsed(bytes(body))

    def with_model(self) -> Endpoint:
        """The endpoint with its model named; raises `OllamaError` where that is not there, or is not clear."""
        held = [str(model["name"]) for model in self.models()]
        wanted = self.endpoint.model
        for name in (wanted,) if wanted else (self.endpoint.id,):
            for tag in (name, f"{name}:latest"):
                if tag in held:
                    return replace(self.endpoint, model=tag)
        if wanted or not held:
            raise OllamaError(self._not_pulled(wanted or "MODEL", held))
        if len(held) > 1:
            raise OllamaError(
                f"{self.endpoint.id} ({self.endpoint.url}) holds {', '.join(held)}: "
                f"say which with --model {self.endpoint.id}=TAG"
            )
        return replace(self.endpoint, model=held[0])

    def loaded(self) -> Loaded | None:
        """Where the endpoint's model is, or None while it is not loaded."""
        for model in self._get("/api/ps").get("models") or []:
            if model["name"] == self.endpoint.model:
                return Loaded(
                    model=model["name"],
                    digest=model.get("digest", ""),
                    size=model.get("size", 0),
                    size_vram=model.get("size_vram", 0),
                    context_length=model.get("context_length", 0),
                )
        return None

    def chat(self, messages: Sequence[Mapping[str, str]], options: Mapping[str, Any]) -> Iterator[Piece]:
        """The answer to `messages`, as it comes. Raises `OllamaError` when it breaks off."""
        asked = {"model": self.endpoint.model, "messages": list(messages), "stream": True, "options": dict(options)}
        try:
            with self._client.stream("POST", "/api/chat", json=asked) as response:
                if response.is_error:
                    response.read()
                    raise self._refused(response)
                for line in lines(response.iter_bytes()):
                    answer = self._parsed(line)
                    if "error" in answer:
                        raise OllamaError(f"{self._name()} broke off: {error_text(answer)}")
                    message = answer.get("message") or {}
                    done = answer.get("done_reason") or "stop" if answer.get("done") else None
                    yield Piece(message.get("content") or "", message.get("thinking") or "", done)
                    if done:
                        return
        except httpx.TimeoutException as error:
            raise OllamaError(f"{self._name()} said nothing for too long ({type(error).__name__})") from error
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        # Seen with one token repeated thirty times: the stream just ends, status 200.
        raise OllamaError(f"{self._name()} broke off: its answer ended without the word that it is done")

    def _get(self, path: str) -> dict[str, Any]:
        try:
            response = self._client.get(path)
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        if response.is_error:
            raise self._refused(response)
        return self._parsed(response.content)

    def _parsed(self, text: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise OllamaError(f"{self._name()} does not answer as Ollama does: {printable(text[:60])!r}")
        return answer

    def _refused(self, response: httpx.Response) -> OllamaError:
        said = refusal(response.status_code, response.content)
        if response.status_code == httpx.codes.NOT_FOUND and self.endpoint.model and "not found" in said:
            return OllamaError(self._not_pulled(self.endpoint.model, []))
        return OllamaError(f"{self._name()} answers with {said}")

    def _not_pulled(self, model: str, held: Sequence[str]) -> str:
        has = f" It has {', '.join(held)}." if held else ""
        return f"{self.endpoint.id} ({self.endpoint.url}) has no model {model}.{has} Pull it there: ollama pull {model}"

    def _unreachable(self, error: httpx.TransportError) -> OllamaError:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return OllamaError(
                f"{self._name()} cannot be reached ({error or type(error).__name__}). "
                "Start it, or forward its port again."
            )
        return OllamaError(f"{self._name()} went away in the middle ({error or type(error).__name__})")

    def _name(self) -> str:
        return f"{self.endpoint.id} ({self.endpoint.url})"


def refusal(status: int, body: bytes) -> str:
    """What a server says that refuses, e.g. `503: server busy`."""
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    said = error_text(answer) if isinstance(answer, dict) else printable(body[:200])
    return f"{status}: {said}" if said else str(status)


def error_text(answer: Mapping[str, Any]) -> str:
    """The error of an answer: Ollama has a text there, the engines below it an object."""
    error = answer.get("error", "")
    return str(error.get("message", error) if isinstance(error, dict) else error)


def lines(parts: Iterator[bytes]) -> Iterator[bytes]:
    """The lines of a body: ended by a line feed and nothing else.

    `httpx.Response.iter_lines` also ends one at U+0085 and its like, which may stand inside JSON.
    """
    rest = b""
    for part in parts:
        *whole, rest = (rest + part).split(b"\n")
        yield from filter(None, whole)
    if rest:
        yield rest
