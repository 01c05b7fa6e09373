"""One run: some models asked in one loop, at one level, with prompts of one length, until each answered its count."""

import asyncio
import gc
import time
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tandem.bench.prompts import moments, prompt
from tandem.bench.stream import Exchange, Sender
from tandem.bench_results.result import Load, Row, Server
from tandem.deployed.wire import ERROR

PAUSE_AFTER_FAILURE = 0.05
"""Seconds: a server that refuses immediately is not asked a thousand times per second."""


@dataclass(frozen=True, slots=True)
class Case:
    """The definition of a run."""

    repeat: int
    endpoints: tuple[str, ...]
    prompt_words: int
    loop: Literal["closed", "open"]
    level: float

    def __str__(self) -> str:
        who = " + ".join(self.endpoints)
        load = f"{self.level:g} at a time" if self.loop == "closed" else f"{self.level:g} per second"
        return f"{who}, {self.prompt_words} words, {load}, repeat {self.repeat}"


def cases(load: Load, endpoints: Iterable[str]) -> list[Case]:
    """All runs in order: complete repeats in turn, so that an interruption leaves comparable ones.

    In a repeat, each model first runs alone, then all run together.
    """
    ids = list(endpoints)
    groups = [*((id,) for id in ids), *([tuple(ids)] if len(ids) > 1 else [])]
    levels: list[tuple[Literal["closed", "open"], float]] = [
        *(("closed", float(level)) for level in load.concurrency),
        *(("open", rate) for rate in load.rates),
    ]
    return [
        Case(repeat, group, words, loop, level)
        for repeat in range(1, load.repeats + 1)
        for words in load.prompt_words
        for loop, level in levels
        for group in groups
    ]


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurements of a run."""

    seconds: float
    client_cpu_s: float
    rows: list[Row]


class Bench:
    """Runs cases on these servers, with this load and salt; all of them in one event loop."""

    def __init__(self, servers: Iterable[Server], load: Load, salt: str) -> None:
        self._servers = {server.id: server for server in servers}
        self._load, self._salt = load, salt
        self._senders = {id: Sender(server.url, timeout_s=load.timeout_s) for id, server in self._servers.items()}

    async def close(self) -> None:
        """Closes all connections."""
        for sender in self._senders.values():
            await sender.close()

    async def load(self, case: Case) -> dict[str, str | None]:
        """Makes every server load its model, one after the other. Returns their errors, None for an answer."""
        return {endpoint: await self._first_error(case, endpoint) for endpoint in self._servers}

    async def _first_error(self, case: Case, endpoint: str) -> str | None:
        exchange = Exchange(endpoint, counted=False)
        await self._senders[endpoint].exchange(self.request(case, endpoint, "load"), exchange)
        return exchange.row(exchange.sent_ns).error

    async def warm_up(self, case: Case) -> None:
        """Loads one model after the other: two at once would both see the same free memory."""
        for endpoint in case.endpoints:
            for number in range(self._load.warmup):
                request = self.request(case, endpoint, f"warm-up {number}")
                await self._senders[endpoint].exchange(request, Exchange(endpoint, counted=False))

    async def measure(self, case: Case) -> Measured:
        """Runs the case. Collects garbage before, not during the run."""
        gc.collect()
        gc.disable()
        try:
            cpu, begin_ns = time.process_time(), time.monotonic_ns()
            exchanges = await _Course(self, self._senders, self._load, case, begin_ns).run()
            seconds, cpu = (time.monotonic_ns() - begin_ns) / 1e9, time.process_time() - cpu
        finally:
            gc.enable()
        return Measured(seconds, cpu, [exchange.row(begin_ns) for exchange in exchanges])

    def request(self, case: Case, endpoint: str, number: object) -> Mapping[str, Any]:
        """The body of a request."""
        return {
            "model": self._servers[endpoint].model,
            "prompt": prompt(case.prompt_words, self._salt, repr(case), endpoint, number),
            "stream": True,
            "options": {
                "num_predict": self._load.output_tokens,
                "temperature": self._load.temperature,
                "seed": self._load.seed,
            },
        }


@dataclass(slots=True)
class _Side:
    """One model's part of a run."""

    endpoint: str
    sent: int = 0
    answered: int = 0
    """Of the requests that count."""


class _Course:
    """A running run. The model that finishes first keeps receiving uncounted requests."""

    def __init__(self, bench: Bench, senders: Mapping[str, Sender], load: Load, case: Case, begin_ns: int) -> None:
        self._bench, self._senders, self._load, self._case = bench, senders, load, case
        self._begin_ns = begin_ns
        self._exchanges: list[Exchange] = []
        self._sides = [_Side(endpoint) for endpoint in case.endpoints]
        self._done = asyncio.Event()
        self._tasks: set[asyncio.Task[object]] = set()

    async def run(self) -> list[Exchange]:
        """All requests, once each model has its count."""
        async with asyncio.TaskGroup() as self._group:
            for side in self._sides:
                if self._case.loop == "closed":
                    for _ in range(int(self._case.level)):
                        self._start(self._in_turn(side))
                else:
                    self._start(self._when_due(side))
            await self._done.wait()
            for task in list(self._tasks):
                task.cancel()
        return self._exchanges

    def _start(self, work: Coroutine[Any, Any, object]) -> None:
        task = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _in_turn(self, side: _Side) -> None:
        while True:
            exchange = await self._ask(side, None)
            if exchange.failure is not None or exchange.status >= ERROR:
                await asyncio.sleep(PAUSE_AFTER_FAILURE)

    async def _when_due(self, side: _Side) -> None:
        for moment in moments(self._case.level, self._load.seed, side.endpoint, self._case.repeat):
            due_ns = self._begin_ns + int(moment * 1e9)
            await asyncio.sleep(max(0.0, (due_ns - time.monotonic_ns()) / 1e9))
            self._start(self._ask(side, due_ns))

    async def _ask(self, side: _Side, due_ns: int | None) -> Exchange:
        exchange = Exchange(side.endpoint, counted=side.sent < self._load.requests, scheduled_ns=due_ns)
        request = self._bench.request(self._case, side.endpoint, side.sent)
        side.sent += 1
        self._exchanges.append(exchange)
        await self._senders[side.endpoint].exchange(request, exchange)
        if exchange.counted:
            side.answered += 1
            if all(each.answered >= self._load.requests for each in self._sides):
                self._done.set()
        return exchange
