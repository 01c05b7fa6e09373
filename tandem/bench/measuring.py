"""Runs `tandem bench`."""

import argparse
import asyncio
import datetime
import secrets
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from sharing.files import write_whole
from tandem.bench.conditions import describe, now
from tandem.bench.run import Bench, Case, cases
from tandem.bench.screen import Progress, show
from tandem.bench.stream import LATE
from tandem.bench_results.community import to_share
from tandem.bench_results.equal_load import equal_load
from tandem.bench_results.foreign.vllm_export import append_run, export_files
from tandem.bench_results.measures import reason_against_place
from tandem.bench_results.result import Load, Memory, Plan, Result, Run, mode_of
from tandem.bench_results.result_file import NotWrittenError, ResultError, reserve, write
from tandem.bench_results.summary import FIGURES_VERSION, Summary, summary
from tandem.deployed.connection import connected
from tandem.deployed.endpoints import Endpoint
from tandem.deployed.ollama import Ollama, OllamaError
from tandem.lookup import existing
from tandem.terminal import FAILED, FINE, INTERRUPTED, CallError, complain, print_json, print_line

SEND = "send it as a pull request to docs/benchmarks/community/"


class PlacementError(CallError):
    """Models that are not on the GPU, so that their figures cannot count."""

    exit_code = FAILED


def measure(parsed: argparse.Namespace) -> int:
    """Measures; returns the exit code."""
    if parsed.share and not parsed.stack:
        raise CallError(
            "--share needs a stack, whose plan has the GPU and the mode. Write `tandem bench STACK --share`."
        )
    plan = _plan(parsed.stack) if parsed.stack else None
    pools = plan["pools"] if plan else []
    label = parsed.label or (mode_of(pools[0]) if pools else "servers")
    path = _path(parsed.output, label)
    with reserve(path), connected(parsed) as endpoints, ExitStack() as opened:
        files = export_files(path, [endpoint.id for endpoint in endpoints]) if parsed.export else {}
        share = path.with_name(f"{path.stem}.share.json") if parsed.share else None
        for file in (*files.values(), *([share] if share else [])):
            opened.enter_context(reserve(file))
        servers = [opened.enter_context(Ollama(_with_model(endpoint))) for endpoint in endpoints]
        result = Result(
            label=label,
            complete=False,
            ended=now(),
            load=_load(parsed),
            sessions=[describe(parsed.given, parsed.salt or secrets.token_hex(4), servers)],
            usd_per_hour=parsed.usd_per_hour or ((plan or {}).get("cost") or {}).get("usd_per_hour"),
            plan=cast("Plan | None", plan),
        )
        return _Measuring(parsed, path, files, share, result, servers).run()


def _path(output: str | None, label: str) -> Path:
    moment = datetime.datetime.now()
    return Path(output or f"bench-{label}-{moment:%Y%m%d-%H%M%S}.json".replace("/", "-")).resolve()


def _with_model(endpoint: Endpoint) -> Endpoint:
    with Ollama(endpoint) as server:
        return server.with_model()


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
    """One benchmark. Its result is written after every run."""

    def __init__(
        self,
        parsed: argparse.Namespace,
        path: Path,
        files: Mapping[str, Path],
        share: Path | None,
        result: Result,
        servers: Sequence[Ollama],
    ) -> None:
        self._parsed, self._path, self._files, self._share, self._result = parsed, path, files, share, result
        self._asked = {server.endpoint.id: server for server in servers}
        self._cases = cases(result.load, self._asked)
        self._written_runs = 0

    def run(self) -> int:
        """Measures every case, and prints the summary."""
        failure, is_interrupted = "", False
        try:
            asyncio.run(self._measure())
        except NotWrittenError as error:
            failure = f"{error} {self._kept()}"
        except KeyboardInterrupt:  # asyncio cancels the work where it waits, and then raises this
            is_interrupted = True
        measured = summary(self._result)
        if self._share and self._result.complete and not failure:
            failure = self._write_share(self._share)
        self._print(measured, failure)
        if failure:
            return FAILED
        if is_interrupted:
            print_line(f"Interrupted. {self._kept()}", sys.stderr)
            return INTERRUPTED
        if measured.errors:
            complain(_errors(measured))
            return FAILED
        return FINE

    async def _measure(self) -> None:
        bench = Bench(self._result.servers, self._result.load, self._result.session.salt)
        try:
            await self._check_placement(bench)
            with Progress(len(self._cases), quiet=self._parsed.json) as progress:
                for case in self._cases:
                    progress.begins(case)
                    self._result.runs.append(await self._run(bench, case))
                    self._write(complete=case is self._cases[-1])
                    progress.ended(self._result.runs[-1])
        finally:
            await bench.close()

    async def _check_placement(self, bench: Bench) -> None:
        """Loads all models, as in every run, and stops if the figures of a model could not be compared."""
        failed = {id: error for id, error in (await bench.load(self._cases[0])).items() if error}
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

    async def _run(self, bench: Bench, case: Case) -> Run:
        await bench.warm_up(case)
        before = self._memory(case)
        measured = await bench.measure(case)
        return Run(
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

    def _write(self, *, complete: bool) -> None:
        self._result.ended, self._result.complete = now(), complete
        write(self._result, self._path)
        self._written_runs = len(self._result.runs)
        if self._files:
            append_run(self._result, self._result.runs[-1], self._files)

    def _write_share(self, share: Path) -> str:
        """Writes the file to share; returns why there is none, or nothing."""
        try:
            text, left_out = to_share(self._result, self._path)
            write_whole(share, text)
        except ResultError as error:
            return str(error)
        except OSError as error:
            return f"{share} cannot be written: {error.strerror}. {self._kept()}"
        for line in left_out:
            complain(f"warning: {share.name} leaves out {line}")
        return ""

    def _exported(self) -> list[str]:
        """The exported files that have a run."""
        return [str(file) for file in self._files.values() if file.stat().st_size]

    @property
    def _is_shared(self) -> bool:
        return self._share is not None and self._share.stat().st_size > 0

    def _kept(self) -> str:
        runs = self._written_runs
        return f"{runs} {'run is' if runs == 1 else 'runs are'} in {self._path}." if runs else "No run was kept."

    def _print(self, measured: Summary, failure: str) -> None:
        result = self._result
        if self._parsed.json:
            warnings = list(filter(None, [measured.first_token_warning]))
            state = {"result": str(self._path), "complete": result.complete, "warnings": warnings}
            state |= {"exported": self._exported()} if self._files else {}
            state |= {"share": str(self._share)} if self._is_shared else {}
            state |= {"error": failure} if failure else {}
            rows = [asdict(row) for row in equal_load([measured])]
            print_json({"schema_version": FIGURES_VERSION, **state, "equal_load": rows, **measured.as_dict()})
            return
        if result.runs:
            show(measured)
        if failure:
            complain(failure)
        elif result.runs:
            print_line(f"Result: {self._path}", sys.stdout)
            for file in self._exported():
                print_line(f"In vLLM's format: {file}", sys.stdout)
            if self._is_shared:
                print_line(f"To share: {self._share}", sys.stdout)
                print_line(f"It names no machine, account or address. Read it, then {SEND}.", sys.stdout)


def _plan(stack: str) -> dict[str, Any]:
    """The stack's plan, without its resources, which are long and irrelevant to speed."""
    from stacks.stack_file.judge import judge_file
    from tandem.plan_json.report import report

    return report(judge_file(existing(stack)), None).model_dump(exclude={"resources"})


def _memory(asked: Ollama) -> Memory | None:
    try:
        loaded = asked.memory()
    except OllamaError:
        return None  # the requests report the server's error
    if loaded is None:
        return None
    return Memory(size=loaded.size, size_vram=loaded.size_vram, context_length=loaded.context)


def _errors(measured: Summary) -> str:
    most = sorted(measured.errors.items(), key=lambda item: (-item[1], item[0]))
    kinds = "; ".join(f"{often} × {error}" for error, often in most)
    return f"{sum(measured.errors.values())} requests failed: {kinds}"
