"""What `tandem bench` does."""

import argparse
import asyncio
import datetime
import gc
import os
import platform
import secrets
import sys
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from typing import Any

import httpcore

from tandem.benchmark.progress import Progress, show
from tandem.benchmark.result import Load, Machine, Memory, Result, Run, Server, read, write
from tandem.benchmark.run import Bench, Case, cases
from tandem.benchmark.summary import Summary, summary
from tandem.calling import FAILED, FINE, INTERRUPTED, CallError, complain, existing, print_json, print_line
from tandem.connection import Endpoint, connected
from tandem.ollama import Ollama, OllamaError


def bench(parsed: argparse.Namespace) -> int:
    """Measures; returns the exit code."""
    gc.enable()
    plan = _plan(parsed.stack) if parsed.stack else None
    with connected(parsed) as endpoints, ExitStack() as open_things:
        return _Measuring(parsed, plan, endpoints, open_things).run()


class _Measuring:
    """One call of the command."""

    def __init__(
        self, parsed: argparse.Namespace, plan: dict[str, Any] | None, endpoints: list[Endpoint], open_things: ExitStack
    ) -> None:
        self._parsed, self._plan = parsed, plan
        self._asked: dict[str, Ollama] = {}
        self._servers = []
        for endpoint in endpoints:
            with Ollama(endpoint) as asked:
                named = asked.with_model()
            server = open_things.enter_context(Ollama(named))
            self._asked[named.id] = server
            self._servers.append(_server(server))
        self._label = parsed.label or (plan or {}).get("mode") or "servers"
        now = datetime.datetime.now()
        self._path = Path(parsed.output or f"bench-{self._label}-{now:%Y%m%d-%H%M%S}.json".replace("/", "-"))

    def run(self) -> int:
        """Measures every case that the result lacks, and tells what came out."""
        result = self._result()
        code = FINE
        try:
            self._measure(result)
        except KeyboardInterrupt:
            code = INTERRUPTED
        told = summary(result)
        self._tell(result, told)
        if code == INTERRUPTED:
            what = f"Kept in {self._path}; --resume goes on" if result.runs else "No run was finished, nothing is kept"
            complain(f"stopped with Ctrl-C. {what}")
        elif told.errors:
            complain(_errors(told))
            code = FAILED
        return code

    def _result(self) -> Result:
        """A new result, or the one to go on with. A file that is there is never overwritten."""
        if self._path.exists():
            if not self._parsed.resume:
                raise CallError(f"{self._path} is there already: --resume goes on with it, or name another with -o")
            return self._earlier(read(self._path))
        if not os.access(self._path.absolute().parent, os.W_OK):
            raise CallError(f"cannot write into {self._path.absolute().parent}")
        cost = ((self._plan or {}).get("cost") or {}).get("usd_per_hour")
        return Result(
            label=self._label,
            complete=False,
            command=["tandem", *self._parsed.given],
            begun=_now(),
            ended=_now(),
            versions={"tandem": _tandem(), "httpcore": httpcore.__version__},
            machine=_machine(),
            load=self._load(),
            salt=self._parsed.salt or secrets.token_hex(4),
            servers=self._servers,
            usd_per_hour=self._parsed.usd_per_hour or cost,
            plan=self._plan,
        )

    def _earlier(self, result: Result) -> Result:
        if result.load != self._load():
            raise CallError(f"{self._path} has another load: give the arguments that it was begun with")
        if [(one.id, one.model) for one in result.servers] != [(one.id, one.model) for one in self._servers]:
            raise CallError(f"{self._path} is of other servers or models: give the arguments that it was begun with")
        result.servers = self._servers  # their addresses may have changed
        return result

    def _load(self) -> Load:
        parsed = self._parsed
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

    def _measure(self, result: Result) -> None:
        done = {run.key for run in result.runs}
        open_cases = [case for case in cases(result.load, self._asked) if case.key not in done]
        bench = Bench(result.servers, result.load, result.salt)
        with asyncio.Runner() as loop, Progress(len(open_cases), quiet=self._parsed.json) as progress:
            try:
                for case in open_cases:
                    progress.begins(case)
                    result.runs.append(self._one(bench, case, loop))
                    result.ended = _now()
                    result.complete = case is open_cases[-1]
                    write(result, self._path)
                    progress.ended(result.runs[-1])
            finally:
                loop.run(bench.close())

    def _one(self, bench: Bench, case: Case, loop: asyncio.Runner) -> Run:
        loop.run(bench.warm_up(case))
        before = self._memory(case)
        measured = loop.run(bench.measure(case))
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

    def _tell(self, result: Result, told: Summary) -> None:
        if self._parsed.json:
            print_json({"result": str(self._path), "complete": result.complete, **told.as_dict()})
        elif result.runs:
            show(told)
            print_line(f"Result: {self._path}", sys.stdout)


def _plan(stack: str) -> dict[str, Any]:
    """What the rules say of the stack. Its resources are left out: they are long, and say nothing about speed."""
    from tandem import plan

    told = plan.report(plan.judge(existing(stack)), None).as_dict()
    del told["resources"]
    return told


def _server(asked: Ollama) -> Server:
    endpoint = asked.endpoint
    found = next(model for model in asked.models() if model["name"] == endpoint.model)
    details = found.get("details") or {}
    return Server(
        id=endpoint.id,
        url=endpoint.url,
        model=endpoint.model,
        ollama=asked.version(),
        digest=str(found.get("digest", "")),
        family=str(details.get("family", "")),
        parameter_size=str(details.get("parameter_size", "")),
        quantization=str(details.get("quantization_level", "")),
    )


def _memory(asked: Ollama) -> Memory | None:
    try:
        loaded = asked.loaded()
    except OllamaError:
        return None  # the requests tell what is wrong with the server
    if loaded is None:
        return None
    return Memory(size=loaded.size, size_vram=loaded.size_vram, context_length=loaded.context_length)


def _machine() -> Machine:
    return Machine(
        system=f"{platform.system()} {platform.release()}",
        processor=_processor(),
        cpus=os.cpu_count() or 0,
        python=platform.python_version(),
    )


def _processor() -> str:
    try:
        listed = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        listed = []
    names = [line.partition(":")[2].strip() for line in listed if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _tandem() -> str:
    try:
        return metadata.version("tandem")
    except metadata.PackageNotFoundError:
        return "not installed"


def _errors(told: Summary) -> str:
    most = sorted(told.errors.items(), key=lambda item: (-item[1], item[0]))
    rest = f" and {len(most) - 3} more" if len(most) > 3 else ""
    kinds = "; ".join(f"{often} × {error}" for error, often in most[:3])
    return f"{sum(told.errors.values())} requests failed: {kinds}{rest}"


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
