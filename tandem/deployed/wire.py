"""HTTP to a server inside a cluster: one limit of time, one of size, and one line for whatever goes wrong."""

import json
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from stacks.network_errors import reason_of

CONNECT_SECONDS = 10.0
MOST_BYTES = 64 * 2**20
"""Of an answer. The description of a model with a vocabulary of 262,144 tokens has 20 MiB. A generated token takes
about 250 bytes of the stream, and eight bytes of its last line."""
ERROR = 400
"""The first HTTP status that means an error."""


class WireError(Exception):
    """A server that cannot be reached, or violates HTTP or the limits; the text describes the failure."""


class NotReachedError(WireError):
    """No server answers at the address."""


class LateError(WireError):
    """The time limit passed."""


class Answer:
    """A response whose body has not arrived yet."""

    def __init__(self, response: httpx.Response, is_late: Callable[[], bool]) -> None:
        self._response, self._is_late = response, is_late
        self.status = response.status_code

    def body(self) -> bytes:
        """All of it, within the time limit."""
        parts = []
        for part in self._parts():
            if self._is_late():
                raise httpx.ReadTimeout("")
            parts.append(part)
        return b"".join(parts)

    def lines(self) -> Iterator[bytes]:
        """Its lines, as they arrive. The time limit is that of a silence."""
        return split_lines(self._parts())

    def _parts(self) -> Iterator[bytes]:
        # httpx would unpack a part as a whole, and a few kilobytes may become gigabytes.
        if self._response.headers.get("content-encoding", "identity").lower() != "identity":
            raise WireError("answered with a compressed body, which nobody asked for")
        received = 0
        for part in self._response.iter_bytes():
            received += len(part)
            if received > MOST_BYTES:
                raise WireError(f"answered with more than {MOST_BYTES // 2**20} MiB")
            yield part


class Wire:
    """One server. Ignores proxies in the environment, which would distort times."""

    def __init__(
        self,
        url: str,
        *,
        transport: httpx.BaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`url` without a slash at the end; `transport` and `clock` are for tests."""
        self._url, self._clock = url, clock
        # The certificates of the system, which may include a company's own. Without TLS, it loads none.
        trusted = ssl.create_default_context() if url.startswith("https:") else False
        headers = {"accept-encoding": "identity"}
        self._client = httpx.Client(headers=headers, verify=trusted, trust_env=False, transport=transport)

    def close(self) -> None:
        """Closes all connections."""
        self._client.close()

    def get(self, path: str, seconds: float) -> tuple[int, bytes]:
        """Status and body of an answer that completes within this many seconds; raises `WireError`."""
        with self.answer("GET", path, seconds=seconds) as answer:
            return answer.status, answer.body()

    @contextmanager
    def answer(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, seconds: float
    ) -> Iterator[Answer]:
        """An answer that arrives while the block runs, which raises `WireError` if it stops."""
        late = self._clock() + seconds
        limit = httpx.Timeout(seconds, connect=min(CONNECT_SECONDS, seconds))
        # ASCII, unlike httpx's own JSON: an argument that is not UTF-8 has lone surrogates, which cannot be encoded.
        content = None if body is None else json.dumps(body).encode()
        headers = {} if body is None else {"content-type": "application/json"}
        try:
            with self._client.stream(
                method, f"{self._url}{path}", content=content, headers=headers, timeout=limit
            ) as response:
                yield Answer(response, lambda: self._clock() > late)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.InvalidURL) as error:
            raise NotReachedError(f"cannot be reached ({reason_of(error)})") from None
        except httpx.TimeoutException:
            raise LateError(f"did not answer within {seconds:g} s") from None
        except httpx.RequestError as error:
            raise WireError(f"closed the connection early ({reason_of(error)})") from None


def split_lines(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a body, without blank ones. Only a line feed ends a line.

    httpx also ends one at U+0085 and similar characters, which JSON may contain.
    """
    return (line for _, line in split_timed_lines((0, part) for part in parts))


def split_timed_lines(parts: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
    """The same for parts with a time each: a line gets that of its last byte."""
    begun: list[bytes] = []  # the parts of a line without its end: adding each to those before takes quadratic time
    time_of_last = 0
    for time_of_last, part in parts:
        *lines, rest = part.split(b"\n")
        if lines:
            lines[0] = b"".join([*begun, lines[0]])
            begun.clear()
            yield from ((time_of_last, line) for line in lines if line.strip())
        begun.append(rest)
    if (rest := b"".join(begun)).strip():
        yield time_of_last, rest
