"""One measured request, and its answer with arrival times. Nothing is parsed during a run.

Parsing a thousand lines between two reads would delay every other stream, so `Exchange.row` parses them
once the run is over.
"""

import asyncio
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from sharing.printable import printable
from stacks.network_errors import reason_of
from tandem.bench_results.result import Row, ServerTimes
from tandem.deployed.ollama_replies import Generated, MalformedError, checked, refusal
from tandem.deployed.wire import ERROR, MOST_BYTES, split_timed_lines

LATE = "not complete within"


@dataclass(slots=True)
class Exchange:
    """A request and the raw answer. Times are in nanoseconds of `time.monotonic_ns`."""

    endpoint: str
    counted: bool
    """Whether the request counts, or only maintains the load."""
    scheduled_ns: int | None = None
    """Open loop: when it should have been sent."""
    sent_ns: int = 0
    status: int = 0
    parts: list[tuple[int, bytes]] = field(default_factory=list)
    """The received parts, each with the time at which the client read it."""
    failure: str | None = None

    def row(self, begin_ns: int) -> Row:
        """The result's row. Microseconds: the request's time from the start of the run, the others from the request."""
        arrivals: list[int] = []
        failure, final = self.failure, None
        if self.status >= ERROR:
            failure = failure or refusal(self.status, b"".join(data for _, data in self.parts))
        else:
            for arrived_ns, line in split_timed_lines(self.parts):
                try:
                    answer = checked(Generated, line)
                except MalformedError as error:
                    failure = failure or f"not Ollama's answer ({error})"
                    break
                if answer.error:
                    failure = answer.reason or "stopped without a reason"
                if answer.response or answer.thinking:
                    arrivals.append((arrived_ns - self.sent_ns) // 1000)
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
            error=printable(failure) if failure else None,
        )


class Sender:
    """Sends measured requests to one server. For use in one event loop."""

    def __init__(self, url: str, *, timeout_s: float) -> None:
        """`timeout_s` is for a whole request, from its connection to its last byte."""
        self._url, self._timeout_s = f"{url}/api/generate", timeout_s
        self._client = httpx.AsyncClient(
            headers={"accept-encoding": "identity"},
            limits=httpx.Limits(),  # none: without this argument, at most 100 connections
            timeout=None,  # each timer costs time: one per request, not per read
            trust_env=False,  # a proxy would distort the times
            verify=ssl.create_default_context(),  # the system's authorities, not those of certifi
        )

    async def close(self) -> None:
        """Closes all connections."""
        await self._client.aclose()

    async def exchange(self, body: Mapping[str, Any], into: Exchange) -> None:
        """Sends `body` and fills `into`. It notes a failure there and never raises it."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._exchange(body, into)
        except asyncio.CancelledError:
            into.failure = "stopped at the end of the run"
            raise
        except TimeoutError:
            into.failure = f"{LATE} {self._timeout_s:g} s"
        except httpx.ConnectError as error:
            into.failure = f"cannot be reached: {reason_of(error)}"
        except httpx.TransportError as error:
            into.failure = f"closed the connection early: {reason_of(error)}"

    async def _exchange(self, body: Mapping[str, Any], into: Exchange) -> None:
        async def trace(event: str, _: Any) -> None:
            if event == "http11.send_request_headers.started":  # now it has a connection
                into.sent_ns = time.monotonic_ns()

        into.sent_ns = time.monotonic_ns()
        async with self._client.stream("POST", self._url, json=body, extensions={"trace": trace}) as response:
            into.status = response.status_code
            async for data in response.aiter_raw():
                into.parts.append((time.monotonic_ns(), data))
                if response.num_bytes_downloaded > MOST_BYTES:
                    into.failure = f"answered with more than {MOST_BYTES // 2**20} MiB"
                    into.parts.clear()
                    return


def _unfinished(final: Generated | None, arrivals: list[int]) -> str | None:
    if final is None:
        return "the stream ended before the reply was complete"
    if not arrivals:
        return "the answer is empty"
    return None
