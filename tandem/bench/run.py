"""One run: some models asked in one loop, at one level, with prompts of one length, until each answered its count."""

import asyncio
import gc
import itertools
import time
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tandem.bench.prompts import moments, prompt
from tandem.bench.stream import Exchange, Sender
from tandem.bench_results.result import Load, Row, Server

PAUSE_AFTER_FAILURE = 0.05
"""Seconds: a server that refuses immediately is not asked a thousand times per second."""
TOKENS_PER_WORD = 4
"""An upper limit: the prompts are plain English."""
NEVER_ZERO = 1
"""To Ollama, `num_predict: 0` means "without end" (seen with 0.17.4)."""


@dataclass(frozen=True, slots=True)
class Case:
    """The definition of a run."""

    repeat: int
    endpoints: tuple[str, ...]
    prompt_words: int
    loop: Literal["closed", "open"]
    level: float

    @property
    def key(self) -> tuple[int, tuple[str, ...], int, str, float]:
        """Equal to the key of the resulting `Run`."""
        return (self.repeat, self.endpoints, self.prompt_words, self.loop, self.level)

    def __str__(self) -> str:
        who = " + ".join(self.endpoints)
        load = f"{self.level:g} at a time" if self.loop == "closed" else f"{self.level:g} per second"
        return f"{who}, {self.prompt_words} words, {load}, repeat {self.repeat}"


def cases(load: Load, endpoints: Iterable[str]) -> list[Case]:
    """All runs in order: complete repeats in turn, so that an interruption leaves comparable ones.

    In a repeat, each model first runs alone, then all run together.
    """
    ids = list(endpoints)
    groups = [*((one,) for one in ids), *([tuple(ids)] if len(ids) > 1 else [])]
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

    begin_ns: int
    """On the clock of `time.monotonic_ns`."""
    seconds: float
    client_cpu_s: float
    rows: list[Row]


class Bench:
    """Runs cases on these servers, with this load and salt; all of them in one event loop."""

    def __init__(self, servers: Iterable[Server], load: Load, salt: str) -> None:
        self._servers = {server.id: server for server in servers}
        self._load, self._salt = load, salt
        tokens = max(load.prompt_words) * TOKENS_PER_WORD + load.output_tokens
        self._senders = {
            id: Sender(server.url, timeout=load.timeout_s, tokens=tokens) for id, server in self._servers.items()
        }

    async def close(self) -> None:
        """Closes all connections."""
        for sender in self._senders.values():
            await sender.close()

    async def load(self, case: Case) -> dict[str, str | None]:
        """Makes every server load its model, one after the other. Returns their errors, None for an answer."""
        return {endpoint: await self._first_answer(case, endpoint) for endpoint in self._servers}

    async def _first_answer(self, case: Case, endpoint: str) -> str | None:
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
        """Runs the case. Collects garbage before and after, not during the run."""
        gc.collect()
        collecting = gc.isenabled()
        gc.disable()
        try:
            cpu, begin = time.process_time(), time.monotonic_ns()
            exchanges = await _Course(self, self._senders, self._load, case, begin).run()
            seconds, cpu = (time.monotonic_ns() - begin) / 1e9, time.process_time() - cpu
            return Measured(begin, seconds, cpu, [_row(exchange, begin) for exchange in exchanges])
        finally:
            if collecting:
                gc.enable()

    def request(self, case: Case, endpoint: str, number: object) -> Mapping[str, Any]:
        """The body of a request."""
        return {
            "model": self._servers[endpoint].model,
            "prompt": prompt(case.prompt_words, self._salt, *case.key, endpoint, number),
            "stream": True,
            "options": {
                "num_predict": max(NEVER_ZERO, self._load.output_tokens),
                "temperature": self._load.temperature,
                "seed": self._load.seed,
            },
        }


def _row(exchange: Exchange, begin_ns: int) -> Row:
    """The row. No answer arrives before its request, even if the clock of the stamps was set."""
    row = exchange.row(begin_ns)
    return replace(row, arrivals_us=[max(0, arrival) for arrival in row.arrivals_us])


@dataclass(slots=True)
class _Side:
    """One model's part of a run."""

    endpoint: str
    open_count: int
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)


class _Course:
    """A running run. The model that finishes first keeps receiving uncounted requests."""

    def __init__(self, bench: Bench, senders: Mapping[str, Sender], load: Load, case: Case, begin_ns: int) -> None:
        self._bench, self._senders, self._load, self._case = bench, senders, load, case
        self._begin_ns = begin_ns
        self._exchanges: list[Exchange] = []
        self._sides = [_Side(endpoint, load.requests) for endpoint in case.endpoints]
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
            exchange = await self._one(side, None)
            if exchange.failure is not None or exchange.status >= 400:
                await asyncio.sleep(PAUSE_AFTER_FAILURE)

    async def _when_due(self, side: _Side) -> None:
        for moment in moments(self._case.level, self._load.seed, side.endpoint, self._case.repeat):
            due = self._begin_ns + int(moment * 1e9)
            await asyncio.sleep(max(0.0, (due - time.monotonic_ns()) / 1e9))
            self._start(self._one(side, due))

    async def _one(self, side: _Side, due_ns: int | None) -> Exchange:
        number = next(side.numbers)
        exchange = Exchange(side.endpoint, counted=number < self._load.requests, scheduled_ns=due_ns)
        self._exchanges.append(exchange)
        request = self._bench.request(self._case, side.endpoint, number)
        await self._senders[side.endpoint].exchange(request, exchange)
        if exchange.counted:
            side.open_count -= 1
            if all(one.open_count <= 0 for one in self._sides):
                self._done.set()
        return exchange
