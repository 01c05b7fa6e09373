"""One request of `tandem bench`: the times of its pieces, and what is wrong with an answer."""

import argparse
import asyncio
import gc
import io
import json
import re
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any
from unittest import mock

import httpx
import pytest
from rich.console import Console

from tandem.bench import run, screen, stream
from tandem.bench.measuring import _errors, _Measuring
from tandem.bench.prompts import moments
from tandem.bench.run import Bench, Case, Measured
from tandem.bench.stream import Exchange
from tandem.bench_results.result import Load, Row, ServerTimes
from tandem.bench_results.summary import summary
from tests.command import Printed
from tests.tandem import results
from tests.tandem.fake_ollama import FakeOllama, ollama
from tests.tandem.results import result, server

ALONE = Case(1, ("a",), 8, "closed", 1.0)


def load(**changes: Any) -> Load:
    few = {"output_tokens": 4, "requests": 3, "timeout_s": 30.0}
    return replace(result("x", []).load, **{**few, **changes})


def bench(url: str, load: Load) -> Bench:
    return Bench([replace(server("a", "tiny:1b"), url=url)], load, "salt")


def measured(at: FakeOllama, case: Case, load: Load) -> Measured:
    async def measure() -> Measured:
        open_bench = bench(at.url, load)
        measured = await open_bench.measure(case)
        await open_bench.close()
        return measured

    # A collection of everything that earlier tests left takes longer than the exchange.
    with mock.patch("tandem.bench.run.gc.collect"):
        return asyncio.run(measure())


def answered(*parts: str, status: int = 200) -> Row:
    """The row of an answer whose parts arrived a microsecond apart."""
    exchange = Exchange("a", counted=True, sent_ns=1_000_000, status=status)
    exchange.parts = [(1_000_000 + 1000 * number, part.encode()) for number, part in enumerate(parts, start=1)]
    return exchange.row(0)


def test_a_line_gets_the_time_of_its_last_byte() -> None:
    row = answered('{"response": "a"}\n{"resp', 'onse": "b\u2028c"}', '\n{"done": true, "eval_count": 2}\n')
    assert (row.arrivals_us, row.tokens, row.error, row.sent_us) == ([1, 3], 2, None, 1000)


def test_empty_pieces_are_not_arrivals_but_thoughts_are() -> None:
    row = answered('{"response": ""}\n', '{"thinking": "hm"}\n', '\n{"response": "a", "done": true}')
    assert (row.arrivals_us, row.error) == ([2, 3], None)


def test_the_last_line_has_the_servers_figures_and_what_it_lacks_is_zero() -> None:
    """Fields: ollama v0.32.15, api/types.go, GenerateResponse and Metrics."""
    figures = {"eval_count": 2, "prompt_eval_count": 3, "total_duration": 5, "load_duration": 7}
    figures |= {"prompt_eval_duration": 11, "eval_duration": 13}
    row = answered('{"response": "a"}\n', json.dumps({"done": True, "done_reason": "stop", **figures}))
    assert (row.tokens, row.prompt_tokens, row.done_reason) == (2, 3, "stop")
    assert row.server == ServerTimes(total_ns=5, load_ns=7, prompt_eval_ns=11, eval_ns=13)
    bare = answered('{"response": "a", "done": true}')
    assert (bare.tokens, bare.prompt_tokens, bare.done_reason, bare.server) == (0, 0, "", results.NO_TIMES)


@pytest.mark.parametrize(
    ("parts", "status", "error"),
    [
        (['{"response": "a"}\n'], 200, "the stream ended before the reply was complete"),
        (['{"response": "a"}\n', '{"error": "CUDA"}\n'], 200, "CUDA"),
        (['{"response": "a"}\n', '{"error": {"message": "\\u001b[2J"}}\n'], 200, "[2J"),
        (['{"done": true}\n'], 200, "the answer is empty"),
        (["<html>\n"], 200, "not Ollama's answer (Invalid JSON: expected value at line 1 column 1)"),
        (['{"response": "a"}\n', '{"eval_count": -1}\n'], 200, "not Ollama's answer (eval_count: Input should"),
        (['{"error": "server busy"}'], 503, "503: server busy"),
        (["x" * 1000], 502, "502: " + "x" * 295),
        ([], 500, "500"),
        ([], 400, "400"),
    ],
)
def test_a_bad_answer_is_an_error_in_its_row(parts: list[str], status: int, error: str) -> None:
    assert (answered(*parts, status=status).error or "").startswith(error)


def test_arrivals_follow_the_servers_sends_in_order() -> None:
    many = load(requests=16, output_tokens=10)
    with ollama(first_s=0.01, next_s=0.005) as at:
        rows = measured(at, replace(ALONE, level=8.0), many).rows
        sent = bench(at.url, many)
    for number, row in enumerate(row for row in rows if row.counted):
        received, *pieces = at.sent[str(sent.request(replace(ALONE, level=8.0), "a", number)["prompt"])]
        assert len(pieces) == len(row.arrivals_us) == 10
        assert row.arrivals_us == sorted(row.arrivals_us)
        # One clock for both: nothing arrives before it is sent, nor is answered before it is asked.
        assert row.arrivals_us[0] * 1000 >= pieces[0] - received
        assert row.arrivals_us[-1] * 1000 >= pieces[-1] - received


def test_a_request_begins_when_its_connection_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock moves by a second with each look. The first look is for a request that never gets a connection."""
    looks = iter(range(1_000_000_000, 10**12, 1_000_000_000))
    monkeypatch.setattr("tandem.bench.stream.time.monotonic_ns", lambda: next(looks))

    async def exchange(url: str) -> Exchange:
        into = Exchange("a", counted=True)
        sender = stream.Sender(url, timeout_s=30.0)
        await sender.exchange({"model": "tiny:1b", "prompt": "x"}, into)
        await sender.close()
        return into

    with ollama() as at:
        into = asyncio.run(exchange(at.url))
    assert into.sent_ns == 2_000_000_000


def test_nothing_of_the_client_limits_or_distorts_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise httpx has at most 100 connections, waits 5 s for a part of an answer, and uses the environment's proxy
    (python-httpx.org/advanced: Resource Limits, Timeouts, Proxies)."""
    given: dict[str, Any] = {}
    monkeypatch.setattr(httpx, "AsyncClient", lambda **options: given.update(options))
    stream.Sender("https://h", timeout_s=1.0)
    assert isinstance(given.pop("verify"), ssl.SSLContext)
    assert given == {
        "headers": {"accept-encoding": "identity"},
        "limits": httpx.Limits(max_connections=None, max_keepalive_connections=None),
        "timeout": None,
        "trust_env": False,
    }


def test_requests_come_when_they_are_due_and_times_are_from_the_start_of_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The clock moves only while the client waits for the next request, and by 10 ms with each answer."""
    now, pause, open_load = 5_000_000_000, asyncio.sleep, Case(1, ("a",), 8, "open", 2.0)

    async def sleep(seconds: float) -> None:
        nonlocal now
        await pause(0)
        now += round(seconds * 1e9)

    async def exchange(_: stream.Sender, body: object, into: Exchange) -> None:
        nonlocal now
        into.sent_ns = now
        now += 10_000_000
        into.parts = [(now, b'{"response": "a", "done": true}')]

    async def measure() -> Measured:
        alone = Bench([server("a", "tiny:1b")], load(), "salt")
        return await alone.measure(open_load)

    monkeypatch.setattr("tandem.bench.run.time.monotonic_ns", lambda: now)
    monkeypatch.setattr("tandem.bench.run.asyncio.sleep", sleep)
    monkeypatch.setattr(stream.Sender, "_exchange", exchange)
    measured = asyncio.run(measure())
    counted = [row for row in measured.rows if row.counted]
    due = [moment * 1e6 for moment in islice(moments(2.0, load().seed, "a", 1), 3)]
    assert [row.scheduled_us for row in counted] == pytest.approx(due, abs=1)
    assert all(0 <= row.sent_us - (row.scheduled_us or 0) <= 20_000 for row in counted)
    assert [row.arrivals_us for row in counted] == [[10_000]] * 3
    assert measured.seconds == pytest.approx(now / 1e9 - 5)


def test_each_model_gets_its_warm_up_one_request_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, bool]] = []
    prompts: set[str] = set()

    async def exchange(_: stream.Sender, body: Any, into: Exchange) -> None:
        sent.append((into.endpoint, into.counted))
        prompts.add(body["prompt"])

    async def warm_up() -> None:
        both = Bench([server("a", "tiny:1b"), server("b", "tiny:1b")], load(warmup=2), "salt")
        await both.warm_up(Case(1, ("a", "b"), 8, "closed", 4.0))

    monkeypatch.setattr(stream.Sender, "exchange", exchange)
    asyncio.run(warm_up())
    assert (sent, len(prompts)) == ([("a", False)] * 2 + [("b", False)] * 2, 4)


def test_a_request_that_takes_too_long_is_an_error() -> None:
    with ollama(endless=True) as at:
        rows = measured(at, ALONE, load(requests=1, timeout_s=0.05)).rows
    assert rows[0].error == "not complete within 0.05 s"


def test_an_endless_answer_is_an_error_and_nothing_of_it_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MOST_BYTES", 2**20)
    with ollama(pieces=["x" * 2**19] * 3) as at:
        row = measured(at, ALONE, load(requests=1)).rows[0]
    assert (row.error, row.arrivals_us) == ("answered with more than 1 MiB", [])


@pytest.mark.parametrize(("more", "error"), [(0, None), (-1, "answered with more than 0 MiB")])
def test_an_answer_may_have_exactly_the_limit(more: int, error: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    body = b'{"response": "a", "done": true}'

    async def parts() -> AsyncIterator[bytes]:
        yield body

    sending = httpx.MockTransport(lambda _: httpx.Response(200, content=parts()))
    real = httpx.AsyncClient
    monkeypatch.setattr(httpx, "AsyncClient", lambda **options: real(**options, transport=sending))
    monkeypatch.setattr(stream, "MOST_BYTES", len(body) + more)
    into = Exchange("a", counted=True)
    asyncio.run(stream.Sender("http://h", timeout_s=30.0).exchange({}, into))
    assert (into.status, into.failure) == (200, error)


def test_a_server_that_is_not_there_is_an_error() -> None:
    with ollama() as at:
        pass
    error = measured(at, ALONE, load(requests=1)).rows[0].error or ""
    assert error.startswith("cannot be reached: ")


def test_a_server_that_refuses_is_not_asked_a_thousand_times_per_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "PAUSE_AFTER_FAILURE", 0.01)
    with ollama(fault="busy") as at:
        taken = measured(at, ALONE, load(requests=6))
    assert taken.seconds >= 5 * 0.01


@pytest.mark.parametrize(("loop", "level"), [("closed", 2.0), ("open", 5000.0)])
def test_the_faster_model_continues_until_the_slower_one_is_done(
    loop: Any, level: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slower one answers only after the faster one got ten requests, the last of which it never answers."""
    sent = {"a": 0, "b": 0}

    async def measure() -> Measured:
        enough = asyncio.Event()

        async def exchange(_: stream.Sender, body: object, into: Exchange) -> None:
            into.sent_ns = time.monotonic_ns()
            sent[into.endpoint] += 1
            if into.endpoint == "b":
                await enough.wait()
            elif sent["a"] >= 10:
                enough.set()
                await asyncio.Event().wait()
            await asyncio.sleep(0)
            into.parts = [(into.sent_ns, b'{"response": "a", "done": true}')]

        monkeypatch.setattr(stream.Sender, "_exchange", exchange)
        both = Bench([server("a", "tiny:1b"), server("b", "tiny:1b")], load(), "salt")
        measured = await both.measure(Case(1, ("a", "b"), 8, loop, level))
        await both.close()
        return measured

    rows = asyncio.run(measure()).rows
    fast, slow = ([row for row in rows if row.endpoint == name] for name in "ab")
    assert [row.error for row in slow if row.counted] == [None] * 3
    assert [row.counted for row in fast] == [True] * 3 + [False] * (len(fast) - 3)
    assert [row.error for row in fast[:9]] == [None] * 9
    assert {row.error for row in fast[9:]} == {"stopped at the end of the run"}
    assert loop == "open" or len(fast) == 9 + 2


def test_garbage_is_collected_before_a_run_and_not_during_it(monkeypatch: pytest.MonkeyPatch) -> None:
    collects = []
    with ollama() as at, monkeypatch.context() as patch:
        patch.setattr(stream.Sender, "exchange", lambda self, body, into: looks(into))

        async def looks(into: Exchange) -> None:
            collects.append(gc.isenabled())
            into.parts = [(into.sent_ns, b'{"response": "a", "done": true}')]
            await asyncio.sleep(0)

        measured(at, ALONE, load(requests=1))
    assert set(collects) == {False}
    assert gc.isenabled()


def test_the_clients_processor_time_is_that_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([5.0, 7.5])
    monkeypatch.setattr("tandem.bench.run.time.process_time", lambda: next(seconds))
    with ollama() as at:
        assert measured(at, ALONE, load(requests=1)).client_cpu_s == 2.5


@pytest.mark.parametrize("quiet", [False, True])
def test_on_a_terminal_a_bar_names_and_counts_the_runs_until_the_last(
    quiet: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = io.StringIO()
    monkeypatch.setattr(screen, "open_console", lambda **_: Console(file=printed, force_terminal=True, width=80))
    ran = results.run(["a"], results.steady("a", 100.0, 10.0))
    with screen.Progress(2, quiet=quiet) as progress:
        for _ in range(2):
            progress.begins(ALONE)
            progress.ended(ran)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", printed.getvalue())
    # ECMA-48: the cursor moves up (CUU) and the line of the bar is erased (EL).
    whole = r"\x1b\[2Ka, 8 words, 1 at a time, repeat 1 ━{12} 2/2 \S+\n\x1b\[\?25h\r\x1b\[1A\x1b\[2K$"
    assert bool(re.search(whole, shown)) is not quiet
    assert (shown == "") is quiet


def test_json_names_the_files_that_were_written_and_what_went_wrong(tmp_path: Path, capsys: Printed) -> None:
    """Names in JSON stay: docs/decisions/0149. The file of a model without a run is none."""
    slow = results.timed(results.mps(), 40.0)
    files = {id: tmp_path / f"r-{id}.vllm.jsonl" for id in "ab"}
    share = tmp_path / "r.share.json"
    for path, text in ((files["a"], "{}"), (files["b"], ""), (share, "{}")):
        path.write_text(text)
    every: dict[str, Any] = {"exported": [str(files["a"])], "share": str(share), "error": "full disk"}
    nothing: dict[str, Any] = {}
    for exported, shared, extra in ((files, share, every), ({}, None, nothing)):
        measuring = _Measuring(argparse.Namespace(json=True), tmp_path / "r.json", exported, shared, slow, [])
        measuring._print(summary(slow), extra.get("error", ""))
        printed = json.loads(capsys.readouterr().out)
        assert (printed["schema_version"], printed["result"], printed["complete"]) == (2, f"{tmp_path}/r.json", True)
        assert [warning.startswith("a together, 64 words") for warning in printed["warnings"]] == [True]
        assert {key: printed[key] for key in every if key in printed} == extra


def test_every_kind_of_failure_is_named_the_most_frequent_first() -> None:
    rows = [replace(results.failed(), error=error) for error in ("b", "a", "c", "c", "d")]
    assert _errors(summary(result("x", [results.run(["a"], rows)]))) == (
        "5 requests failed: 2 × c; 1 × a; 1 × b; 1 × d"
    )
