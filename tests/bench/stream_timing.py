"""How accurate the times of `tandem bench` are, compared with a server that notes when it sends each piece.

    make bench            prints errors at p50, p99 and most, and the processor time a token; fails nothing

For each piece, the client's arrival minus the server's sending, by the one clock that all processes of a Linux machine
share. Time to first token and inter-token latency are compared per request, each by its definition.
"""

import asyncio
import multiprocessing
import os
import time
from multiprocessing.connection import Connection

from tandem.bench.run import Bench, Case, Measured
from tandem.bench_results.measures import itl_ms, percentile, ttft_ms
from tandem.bench_results.result import Load, Row, Server
from tests.tandem.fake_ollama import ollama

STREAMS = 32
REQUESTS = 128
TOKENS = 100
SPEEDS = (0.05, 0.02, 0.01)
"""Seconds between tokens: 640, 1,600 and 3,200 tokens a second in total."""
WANTED_MS = 1.0


def main() -> None:
    """Prints every figure."""
    print(f"{STREAMS} streams, {REQUESTS} requests of {TOKENS} tokens; {os.cpu_count()} processors")
    for seconds in SPEEDS:
        here, there = multiprocessing.Pipe()
        server = multiprocessing.Process(target=_serve, args=(seconds, there))
        server.start()
        bench = _bench(here.recv())
        case = Case(1, ("a",), 64, "closed", STREAMS)
        busy = os.getloadavg()[0]
        measured = asyncio.run(_measure(bench, case))
        here.send("the measurement is over")
        sent: dict[str, list[int]] = here.recv()
        print(f"\n{STREAMS / seconds:,.0f} tokens a second (load of the machine before: {busy:.1f})")
        _tell(bench, case, measured, sent)


def _serve(seconds: float, client: Connection) -> None:
    """Serves in a process of its own, so that its threads take no time from the client."""
    with ollama(first_s=5 * seconds, next_s=seconds) as server:
        client.send(server.url)
        client.recv()
    client.send(server.sent)


def _bench(url: str) -> Bench:
    server = Server(
        id="a", url=url, model="tiny:1b", ollama="", digest="", family="", parameter_size="", quantization=""
    )
    load = Load(
        prompt_words=[64], output_tokens=TOKENS, concurrency=[STREAMS], rates=[], requests=REQUESTS, warmup=0,
        repeats=1, seed=1, temperature=0.0, timeout_s=120,
    )  # fmt: skip
    return Bench([server], load, salt=str(time.time_ns()))


async def _measure(bench: Bench, case: Case) -> Measured:
    measured = await bench.measure(case)
    await bench.close()
    return measured


def _tell(bench: Bench, case: Case, measured: Measured, sent: dict[str, list[int]]) -> None:
    first, between, pieces = [], [], []
    tokens = 0
    for number, row in enumerate(measured.rows):
        tokens += len(row.arrivals_us)
        if row.error:
            assert not row.counted, row.error
            continue
        _, *truth = sent[str(bench.request(case, "a", number)["prompt"])]
        sent_ns = measured.begin_ns + row.sent_us * 1000
        first.append(abs(ttft_ms(row) - (truth[0] - sent_ns) / 1e6))
        between.append(abs(itl_ms(row) - (truth[-1] - truth[0]) / 1e6 / (len(truth) - 1)))
        pieces += _lateness(row, sent_ns, truth)
    for name, errors in (("time to first token", first), ("inter-token latency", between), ("each piece", pieces)):
        p50, p99 = percentile(errors, 50), percentile(errors, 99)
        verdict = (
            "" if name == "each piece" else f"  ({'within' if p99 <= WANTED_MS else 'NOT within'} {WANTED_MS:g} ms)"
        )
        print(f"  {name:20} off by p50 {p50:.3f}, p99 {p99:.3f}, most {max(errors):.3f} ms{verdict}")
    print(f"  processor time: {measured.client_cpu_s / tokens * 1e6:.0f} µs a token")


def _lateness(row: Row, sent_ns: int, truth: list[int]) -> list[float]:
    """By how much each piece is off, counted from the request."""
    return [abs(arrived / 1e3 - (piece - sent_ns) / 1e6) for arrived, piece in zip(row.arrivals_us, truth, strict=True)]


if __name__ == "__main__":
    main()
