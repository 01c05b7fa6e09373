"""One measured request: sent, and everything that comes back kept with its time. Nothing is parsed meanwhile.

Parsing a thousand lines between two reads would be in the figures of every other stream, so `Exchange.row` does it
once the run is over.
"""

import asyncio
import json
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpcore

from sharing.printable import printable
from tandem.benchmark.clocked import ClockedBackend, ClockedStream
from tandem.benchmark.result import Row, ServerTimes
from tandem.ollama import error_text, refusal

OK = 200
LONGEST_ERROR = 300


@dataclass(slots=True)
class Exchange:
    """A request and the raw answer."""

    endpoint: str
    counted: bool
    """Whether it belongs to the figures, or only keeps the load up."""
    scheduled_ns: int | None = None
    """Open loop: when it should have been sent."""
    sent_ns: int = 0
    status: int = 0
    parts: list[tuple[int, bytes]] = field(default_factory=list)
    """What came, with the stamp of its last byte."""
    failure: str | None = None

    @property
    def ended_ns(self) -> int:
        """When the last byte came."""
        return self.parts[-1][0] if self.parts else self.sent_ns

    def row(self, begin_ns: int) -> Row:
        """What the result keeps of it: microseconds from the begin to the sending, and from there."""
        arrivals: list[int] = []
        failure, final = self.failure, None
        if self.status and self.status != OK:
            failure = failure or refusal(self.status, b"".join(data for _, data in self.parts))
        else:
            for stamp, line in self._lines():
                try:
                    answer = json.loads(line)
                except ValueError:
                    answer = None
                if not isinstance(answer, dict):
                    failure = failure or f"not Ollama's answer: {printable(line[:60])!r}"
                    break
                if "error" in answer:
                    failure = error_text(answer)
                if answer.get("response") or answer.get("thinking"):
                    arrivals.append((stamp - self.sent_ns) // 1000)
                if answer.get("done"):
                    final = answer
            failure = failure or _unfinished(final, arrivals)
        return Row(
            endpoint=self.endpoint,
            counted=self.counted,
            scheduled_us=None if self.scheduled_ns is None else (self.scheduled_ns - begin_ns) // 1000,
            sent_us=(self.sent_ns - begin_ns) // 1000,
            arrivals_us=arrivals,
            tokens=_number(final, "eval_count"),
            prompt_tokens=_number(final, "prompt_eval_count"),
            done_reason=str((final or {}).get("done_reason", "")),
            server=ServerTimes(
                total_ns=_number(final, "total_duration"),
                load_ns=_number(final, "load_duration"),
                prompt_eval_ns=_number(final, "prompt_eval_duration"),
                eval_ns=_number(final, "eval_duration"),
            ),
            error=printable(failure)[:LONGEST_ERROR] if failure else None,
        )

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """Lines of the body, each with the stamp of the part that completed it."""
        rest = b""
        for stamp, data in self.parts:
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                if line.strip():
                    yield stamp, line
        if rest.strip():
            yield self.ended_ns, rest


class Sender:
    """Sends measured requests to one server. To be used in one event loop."""

    def __init__(self, url: str, *, timeout: float) -> None:
        """`timeout` in seconds, for a whole request."""
        self._url, self._timeout = f"{url}/api/generate", timeout
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl.create_default_context() if url.startswith("https:") else None,
            max_connections=None,
            max_keepalive_connections=None,
            network_backend=ClockedBackend(),
        )

    async def close(self) -> None:
        """Closes all connections."""
        await self._pool.aclose()

    async def exchange(self, body: Mapping[str, Any], into: Exchange) -> None:
        """Sends `body` and fills `into`. A failure is noted there and never raised."""
        try:
            async with asyncio.timeout(self._timeout):
                await self._exchange(json.dumps(body).encode(), into)
        except asyncio.CancelledError:
            into.failure = "stopped at the end of the run"
            raise
        except TimeoutError:
            into.failure = f"not complete within {self._timeout:g} s"
        except httpcore.ConnectError as error:
            into.failure = f"cannot be reached: {error}"
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            into.failure = f"went away in the middle: {error or type(error).__name__}"

    async def _exchange(self, content: bytes, into: Exchange) -> None:
        into.sent_ns = time.monotonic_ns()  # until the connection knows better
        headers: dict[bytes | str, bytes | str] = {"content-type": "application/json"}
        async with self._pool.stream("POST", self._url, headers=headers, content=content) as response:
            connection = response.extensions["network_stream"]
            assert isinstance(connection, ClockedStream)
            into.sent_ns, into.status = connection.sent_ns, response.status
            keep = into.parts.append
            async for data in response.aiter_stream():
                keep((connection.arrived_ns, data))


def _unfinished(final: Mapping[str, Any] | None, arrivals: list[int]) -> str | None:
    if final is None:
        return "the answer ended without the word that it is done"
    if not arrivals:
        return "the answer is empty"
    return None


def _number(final: Mapping[str, Any] | None, key: str) -> int:
    return int((final or {}).get(key) or 0)
