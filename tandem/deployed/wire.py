"""HTTP to a server inside a cluster, limited in time and in memory whatever that server does.

httpcore, not httpx: httpx limits each read but not an answer, so one byte per read never ends it (0.28.1), and it
unpacks gzip, to a thousand times its size, without a limit. Here only `Answer.progressed` extends an answer's
deadline, its size is limited, and nothing is unpacked, since tandem requests nothing packed.
"""

import json
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpcore

from sharing.printable import one_line

CONNECT_SECONDS = 10.0
ERROR = 400
"""The first HTTP status that means an error."""
Headers = Iterable[tuple[bytes, bytes]]


class WireError(Exception):
    """A server that cannot be reached, or violates HTTP or the limits; the text describes the failure."""


class NotReachedError(WireError):
    """No server answers at the address."""


class LateError(WireError):
    """The time limit passed."""


class Deadline:
    """The end of a time limit."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock

    def begin(self, seconds: float) -> None:
        """Starts a limit of this many seconds. Comes first."""
        self._seconds = seconds
        self.renew()

    def renew(self) -> None:
        """Starts the same limit again."""
        self._end = self._clock() + self._seconds

    def left(self) -> float:
        """Seconds until then; raises `httpcore.ReadTimeout` if none are left."""
        left = self._end - self._clock()
        if left <= 0:
            raise httpcore.ReadTimeout
        return left


class _Stream(httpcore.NetworkStream):
    """A connection on which nothing outlasts the deadline."""

    def __init__(self, inner: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._inner, self._deadline = inner, deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._deadline.left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, self._deadline.left())

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> "_Stream":
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, self._deadline.left()), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)


class _Backend(httpcore.NetworkBackend):
    """Opens `_Stream`s."""

    def __init__(self, inner: httpcore.NetworkBackend, deadline: Deadline) -> None:
        self._inner, self._deadline = inner, deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> _Stream:
        seconds = min(CONNECT_SECONDS, self._deadline.left())
        return _Stream(self._inner.connect_tcp(host, port, seconds, local_address, socket_options), self._deadline)


class Answer:
    """A response whose body has not arrived yet."""

    def __init__(self, response: httpcore.Response, deadline: Deadline, most_bytes: int) -> None:
        self._response, self._deadline, self._most = response, deadline, most_bytes
        self.status = response.status

    def progressed(self) -> None:
        """The answer made progress: its time limit starts again."""
        self._deadline.renew()

    def body(self) -> bytes:
        """All of it."""
        return b"".join(self._parts())

    def lines(self) -> Iterator[bytes]:
        """Its lines, as they arrive."""
        lines = Lines()
        for part in self._parts():
            yield from lines.feed(part)
        yield from lines.end()

    def _parts(self) -> Iterator[bytes]:
        room = Room(self._most)
        for part in self._response.iter_stream():
            room.take(part)
            yield part


class Wire:
    """One server. Ignores proxies in the environment, which would distort times."""

    def __init__(
        self,
        url: str,
        *,
        network: httpcore.NetworkBackend | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`url` without a slash at the end; `network` and `clock` are for tests."""
        self._url, self._deadline = url, Deadline(clock)
        self._pool = httpcore.ConnectionPool(
            ssl_context=ssl.create_default_context() if url.startswith("https:") else None,
            network_backend=_Backend(network or httpcore.SyncBackend(), self._deadline),
        )

    def close(self) -> None:
        """Closes all connections."""
        self._pool.close()

    def ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, seconds: float, most_bytes: int
    ) -> tuple[int, bytes]:
        """Status and body of an answer that completes within this many seconds; raises `WireError`."""
        with self.answer(method, path, body, seconds=seconds, most_bytes=most_bytes) as answer:
            return answer.status, answer.body()

    @contextmanager
    def answer(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, seconds: float, most_bytes: int
    ) -> Iterator[Answer]:
        """An answer that arrives while the block runs, which raises `WireError` if it stops."""
        self._deadline.begin(seconds)
        content = None if body is None else json.dumps(body).encode()
        headers: dict[bytes | str, bytes | str] = {"content-type": "application/json"} if content else {}
        try:
            with self._pool.stream(method, f"{self._url}{path}", headers=headers, content=content) as response:
                refuse_packed(response.headers)
                yield Answer(response, self._deadline, most_bytes)
        except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
            raise NotReachedError(f"cannot be reached ({reason(error)})") from None
        except httpcore.TimeoutException:
            raise LateError(f"did not answer within {seconds:g} s") from None
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            raise WireError(f"closed the connection early ({reason(error)})") from None


class Room:
    """The remaining size of an answer."""

    PART = 128
    """Bytes that a part costs besides its own: a flood of single bytes counts with its memory."""

    def __init__(self, most_bytes: int) -> None:
        self._most, self._taken = most_bytes, 0

    def take(self, part: bytes) -> None:
        """Counts a part; raises `WireError` if the answer is too large."""
        self._taken += len(part) + self.PART
        if self._taken > self._most:
            raise WireError(f"answered with more than {self._most // 1024:,} KiB")


class Lines:
    """Lines of a body, however its parts are cut, in linear time: only a line feed ends a line.

    Other splitters also end one at U+0085 and similar characters, which JSON may contain. Skips blank lines.
    """

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, part: bytes) -> list[bytes]:
        """The lines that this part completes."""
        first, *others = part.split(b"\n")
        self._rest += first
        whole = []
        for next_line in others:
            whole.append(bytes(self._rest))
            self._rest = bytearray(next_line)
        return [line for line in whole if line.strip()]

    def end(self) -> list[bytes]:
        """The last line, if no line feed ends it."""
        return [bytes(self._rest)] if self._rest.strip() else []


def refuse_packed(headers: Headers) -> None:
    """Raises `WireError` for a compressed body, which tandem did not request."""
    for name, value in headers:
        if name.lower() == b"content-encoding" and value.lower() not in (b"", b"identity"):
            raise WireError(f"compressed its answer ({one_line(value)[:40]}) without a request")


def reason(error: Exception) -> str:
    """The message of an exception of httpcore, or its type."""
    return one_line(str(error))[:200] or type(error).__name__
