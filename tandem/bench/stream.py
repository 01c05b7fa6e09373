"""One measured request, and its answer with arrival times. Nothing is parsed during a run.

Parsing a thousand lines between two reads would delay every other stream, so `Exchange.row` parses them
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
from tandem.bench.clocked import ClockedBackend, ClockedStream
from tandem.bench_results.result import Row, ServerTimes
from tandem.deployed.ollama import most_said_bytes
from tandem.deployed.ollama_replies import Generated, refusal
from tandem.deployed.replies import MalformedError, checked
from tandem.deployed.wire import ERROR, Lines, Room, WireError, reason, refuse_packed

LONGEST_ERROR = 300
LATE = "not complete within"


@dataclass(slots=True)
class Exchange:
    """A request and the raw answer."""

    endpoint: str
    counted: bool
    """Whether the request counts, or only maintains the load."""
    scheduled_ns: int | None = None
    """Open loop: when it should have been sent."""
    sent_ns: int = 0
    status: int = 0
    parts: list[tuple[int, bytes]] = field(default_factory=list)
    """The received parts, each with the stamp of its last byte."""
    failure: str | None = None

    @property
    def ended_ns(self) -> int:
        """When the last byte arrived."""
        return self.parts[-1][0] if self.parts else self.sent_ns

    def row(self, begin_ns: int) -> Row:
        """The result's row. Microseconds: the request's time from the start of the run, the others from the request."""
        arrivals: list[int] = []
        failure, final = self.failure, None
        if self.status >= ERROR:
            failure = failure or refusal(self.status, b"".join(data for _, data in self.parts))
        else:
            for stamp, line in self._lines():
                try:
                    answer = checked(Generated, line)
                except MalformedError as error:
                    failure = failure or f"not Ollama's answer ({error})"
                    break
                if answer.error:
                    failure = answer.reason or "stopped without a reason"
                if answer.response or answer.thinking:
                    arrivals.append((stamp - self.sent_ns) // 1000)
                if answer.done:
                    final = answer
            failure = failure or _unfinished(final, arrivals)
        last = final or Generated()
        return Row(
            endpoint=self.endpoint,
            counted=self.counted,
            scheduled_us=None if self.scheduled_ns is None else (self.scheduled_ns - begin_ns) // 1000,
            sent_us=(self.sent_ns - begin_ns) // 1000,
            arrivals_us=arrivals,
            tokens=last.eval_count or 0,
            prompt_tokens=last.prompt_eval_count or 0,
            done_reason=last.done_reason or "",
            server=ServerTimes(
                total_ns=last.total_duration or 0,
                load_ns=last.load_duration or 0,
                prompt_eval_ns=last.prompt_eval_duration or 0,
                eval_ns=last.eval_duration or 0,
            ),
            error=printable(failure)[:LONGEST_ERROR] if failure else None,
        )

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """Lines of the body, each with the stamp of the part that completed it."""
        lines = Lines()
        for stamp, data in self.parts:
            for line in lines.feed(data):
                yield stamp, line
        for line in lines.end():
            yield self.ended_ns, line


class Sender:
    """Sends measured requests to one server. For use in one event loop."""

    def __init__(
        self, url: str, *, timeout: float, tokens: int, network: httpcore.AsyncNetworkBackend | None = None
    ) -> None:
        """`timeout` is in seconds, for a whole request; `tokens` limits its prompt and its answer."""
        self._url, self._timeout, self._most_bytes = f"{url}/api/generate", timeout, most_said_bytes(tokens)
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl.create_default_context() if url.startswith("https:") else None,
            max_connections=None,
            max_keepalive_connections=None,
            network_backend=network or ClockedBackend(),
        )

    async def close(self) -> None:
        """Closes all connections."""
        await self._pool.aclose()

    async def exchange(self, body: Mapping[str, Any], into: Exchange) -> None:
        """Sends `body` and fills `into`. It notes a failure there and never raises it."""
        try:
            async with asyncio.timeout(self._timeout):
                await self._exchange(json.dumps(body).encode(), into)
        except asyncio.CancelledError:
            into.failure = "stopped at the end of the run"
            raise
        except TimeoutError:
            into.failure = f"{LATE} {self._timeout:g} s"
        except httpcore.ConnectError as error:
            into.failure = f"cannot be reached: {reason(error)}"
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            into.failure = f"closed the connection early: {reason(error)}"
        except WireError as error:
            into.failure = str(error)
            into.parts.clear()

    async def _exchange(self, content: bytes, into: Exchange) -> None:
        into.sent_ns = time.monotonic_ns()  # until the connection knows better
        headers: dict[bytes | str, bytes | str] = {"content-type": "application/json"}
        async with self._pool.stream("POST", self._url, headers=headers, content=content) as response:
            connection = response.extensions["network_stream"]
            assert isinstance(connection, ClockedStream)
            into.sent_ns, into.status = connection.sent_ns, response.status
            refuse_packed(response.headers)
            keep, take = into.parts.append, Room(self._most_bytes).take
            async for data in response.aiter_stream():
                take(data)
                keep((connection.arrived_ns, data))


def _unfinished(final: Generated | None, arrivals: list[int]) -> str | None:
    if final is None:
        return "the stream ended before the reply was complete"
    if not arrivals:
        return "the answer is empty"
    return None
