"""Runs `tandem bench`."""

import argparse
import datetime
import os
import secrets
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

from tandem.bench.interrupt import run_until_ctrl_c
from tandem.bench.progress import Progress, show
from tandem.bench.run import Bench, Case, cases
from tandem.bench.session import now, open_session, server_changes
from tandem.bench.stream import LATE
from tandem.bench_results.measures import reason_against_place
from tandem.bench_results.result import Load, Memory, Plan, Result, Run, Server, Session
from tandem.bench_results.result_file import NotWrittenError, read, reserve, write
from tandem.bench_results.summary import Summary, summary
from tandem.deployed.connection import connected
from tandem.deployed.ollama import Ollama, OllamaError
from tandem.lookup import existing
from tandem.terminal import FAILED, FINE, INTERRUPTED, CallError, complain, note, print_json, print_line, warn


class PlacementError(CallError):
    """Models that are not on the GPU, so that their figures cannot count."""

    exit_code = FAILED


def measure(parsed: argparse.Namespace) -> int:
    """Measures; returns the exit code."""
    plan = _plan(parsed.stack) if parsed.stack else None
    label = parsed.label or (plan or {}).get("mode") or "servers"
    path = _path(parsed.output, label)
    if os.path.isdir(path):  # unlike `Path.is_dir`, it takes a name that is too long
        raise CallError(f"{path} is a folder. Choose a file with -o.")
    with reserve(path):
        earlier = _earlier(path, parsed)
        with connected(parsed) as endpoints, ExitStack() as opened:
            servers = []
            for endpoint in endpoints:
                with Ollama(endpoint) as asked:
                    named = asked.with_model()
                servers.append(opened.enter_context(Ollama(named)))
            session = open_session(parsed.given, parsed.salt or secrets.token_hex(4), servers)
            result = _resumed(earlier, session, path) if earlier else _new(parsed, plan, label, session)
            return _Measuring(parsed, path, result, servers).run()


def _path(output: str | None, label: str) -> Path:
    moment = datetime.datetime.now()
    return Path(output or f"bench-{label}-{moment:%Y%m%d-%H%M%S}.json".replace("/", "-")).resolve()


def _earlier(path: Path, parsed: argparse.Namespace) -> Result | None:
    """The result to resume, if there is one. An existing file is never overwritten."""
    if not path.exists():
        if parsed.resume:
            warn(f"{path} does not exist; starting a new result")
        return None
    if not parsed.resume:
        raise CallError(f"{path} already exists. Continue it with --resume, or choose another file with -o.")
    result = read(path)
    if result.load != _load(parsed):
        raise CallError(f"{path} has another workload. Repeat its original arguments.")
    if parsed.salt in {session.salt for session in result.sessions}:
        raise CallError(f"Salt {parsed.salt} was already used for {path}. Omit --salt to get new prompts.")
    return result


def _new(parsed: argparse.Namespace, plan: dict[str, Any] | None, label: str, session: Session) -> Result:
    cost = ((plan or {}).get("cost") or {}).get("usd_per_hour")
    return Result(
        label=label,
        complete=False,
        ended=now(),
        load=_load(parsed),
        sessions=[session],
        usd_per_hour=parsed.usd_per_hour or cost,
        plan=cast("Plan | None", plan),
    )


def _resumed(result: Result, session: Session, path: Path) -> Result:
    if _models(result.servers) != _models(session.servers):
        raise CallError(f"{path} has other servers or models. Repeat its original arguments.")
    result.sessions.append(session)
    return result


def _models(servers: Sequence[Server]) -> list[tuple[str, str]]:
    return [(server.id, server.model) for server in servers]


def _load(parsed: argparse.Namespace) -> Load:
    return Load(
        prompt_words=parsed.prompt_words,
        output_tokens=parsed.output_tokens,
        concurrency=parsed.concurrency,
        rates=parsed.rate,
        requests=parsed.requests,
        warmup=parsed.warm_up,
        repeats=parsed.repeats,
        seed=parsed.seed,
        temperature=parsed.temperature,
        timeout_s=parsed.timeout,
    )


class _Measuring:
    """The runs that one call adds to a result."""

    def __init__(self, parsed: argparse.Namespace, path: Path, result: Result, servers: Sequence[Ollama]) -> None:
        self._parsed, self._path, self._result = parsed, path, result
        self._asked = {server.endpoint.id: server for server in servers}
        done = {run.key for run in result.runs}
        self._open_cases = [case for case in cases(result.load, self._asked) if case.key not in done]
        self._warnings = server_changes(result) if self._open_cases else []

    def run(self) -> int:
        """Measures every case that the result lacks, and prints the summary."""
        if not self._open_cases:
            warn("the result already has all runs; nothing to measure")
        if not self._parsed.json:
            for warning in self._warnings:
                warn(warning)
        failure = ""
        try:
            finished = run_until_ctrl_c(self._measure)
        except NotWrittenError as error:
            failure, finished = f"{error} {self._kept()}", True
        found = summary(self._result)
        self._print(found, failure)
        if failure:
            return FAILED
        if not finished:
            note(f"Interrupted. {self._kept()}")
            return INTERRUPTED
        if found.errors:
            complain(_errors(found))
            return FAILED
        return FINE

    async def _measure(self) -> None:
        bench = Bench(self._result.servers, self._result.load, self._result.sessions[-1].salt)
        try:
            if self._open_cases:
                await self._check_placement(bench)
            with Progress(len(self._open_cases), quiet=self._parsed.json) as progress:
                for case in self._open_cases:
                    progress.begins(case)
                    self._result.runs.append(await self._one(bench, case))
                    self._keep(complete=case is self._open_cases[-1])
                    progress.ended(self._result.runs[-1])
        finally:
            await bench.close()

    async def _check_placement(self, bench: Bench) -> None:
        """Loads all models, as in every run, and stops if the figures of a model could not be compared."""
        failed = {id: error for id, error in (await bench.load(self._open_cases[0])).items() if error}
        if failed:
            failures = "; ".join(f"{id} did not answer its first request ({why})" for id, why in failed.items())
            late = any(why.startswith(LATE) for why in failed.values())
            fix = "Raise --timeout or repair that server, then" if late else "Repair that server, then"
            raise PlacementError(f"{failures}. {fix} repeat the command.")
        if self._parsed.allow_cpu:
            return
        reasons = [reason_against_place(id, _memory(asked)) for id, asked in self._asked.items()]
        if any(reasons):
            raise PlacementError(
                "\n".join(f"{reason}." for reason in reasons if reason)
                + "\nResults would not be comparable. Give it more GPU memory, or pass --allow-cpu to measure anyway."
            )

    def _keep(self, *, complete: bool) -> None:
        self._result.ended, self._result.complete = now(), complete
        write(self._result, self._path)

    async def _one(self, bench: Bench, case: Case) -> Run:
        await bench.warm_up(case)
        before = self._memory(case)
        measured = await bench.measure(case)
        return Run(
            session=len(self._result.sessions) - 1,
            repeat=case.repeat,
            endpoints=list(case.endpoints),
            prompt_words=case.prompt_words,
            loop=case.loop,
            level=case.level,
            seconds=round(measured.seconds, 6),
            memory_start=before,
            memory_end=self._memory(case),
            client_cpu_s=round(measured.client_cpu_s, 6),
            rows=measured.rows,
        )

    def _memory(self, case: Case) -> dict[str, Memory | None]:
        return {endpoint: _memory(self._asked[endpoint]) for endpoint in case.endpoints}

    def _kept(self) -> str:
        if not self._path.exists():
            return "No run was kept."
        runs = len(read(self._path).runs)
        return f"{runs} {'run is' if runs == 1 else 'runs are'} in {self._path}. Continue with --resume."

    def _print(self, found: Summary, failure: str) -> None:
        result = self._result
        if self._parsed.json:
            warnings = [*self._warnings, *filter(None, [found.first_token_warning])]
            state = {"result": str(self._path), "complete": result.complete, "warnings": warnings}
            print_json({**state, **({"error": failure} if failure else {}), **found.as_dict()})
            return
        if result.runs:
            show(found)
        if failure:
            complain(failure)
        elif result.runs:
            print_line(f"Result: {self._path}", sys.stdout)


def _plan(stack: str) -> dict[str, Any]:
    """The stack's plan, without its resources, which are long and irrelevant to speed."""
    from stacks.stack_file.judge import judge_file
    from tandem.dry_run.report import report

    shown = report(judge_file(existing(stack)), None).as_dict()
    del shown["resources"]
    return shown


def _memory(asked: Ollama) -> Memory | None:
    try:
        loaded = asked.memory()
    except OllamaError:
        return None  # the requests report the server's error
    if loaded is None:
        return None
    return Memory(size=loaded.size, size_vram=loaded.size_vram, context_length=loaded.context)


def _errors(found: Summary) -> str:
    most = sorted(found.errors.items(), key=lambda item: (-item[1], item[0]))
    rest = f" and {len(most) - 3} more" if len(most) > 3 else ""
    kinds = "; ".join(f"{often} × {error}" for error, often in most[:3])
    return f"{sum(found.errors.values())} requests failed: {kinds}{rest}"
