"""Results as a file that tests read, and as a report for people."""

import datetime
import json
import re
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

from sharing.files import write_whole
from tests.gpu.build import PINNED
from tests.gpu.daemon_restart import describe_restarts
from tests.gpu.identity import without_identity
from tests.gpu.limited_servers import describe_servers
from tests.gpu.limits import describe_limits
from tests.gpu.memory import measured_mib
from tests.gpu.progress import Result, State, Step
from tests.gpu.readings import gpu_mib

PARTS = {"weights": ("model",), "kv": ("KV", "RS"), "compute": ("compute", "output")}
"""Parts of the prediction, and the engine's buffers that belong to each."""
NONE = "–"
MEMORY = """
## Memory

Every slot's context was full when memory was read. MiB; prediction without margin.
"""
COMPONENTS = """
Predicted / allocated by the engine. The rest is what no buffer of the engine explains: CUDA itself, cuBLAS
and scratch memory.
"""
PAIRS = """
## Two servers, alone and together

Measured with `tandem bench` against two Ollama servers. Both stayed under load until the slower one had finished.
"""
COMPARED = """\
Two models, compared with one that has as many requests in total.
"""
FIGURES = """\
Each model, with the median of its requests.
"""


def keep(
    state: State,
    machine: Result,
    planned: Sequence[Step],
    today: datetime.date,
    results: Path,
    reports: Path,
    logs: Path,
) -> list[Path]:
    """Writes both files and the servers' logs, and returns where. Nothing is written when nothing was measured.

    None of them names the GPU or the machine.
    """
    if not state.having("result"):
        return []
    host = socket.gethostname()
    found = without_identity(collect(state, machine, planned, today), host)
    name = f"{found['gpu_slug']}-{today}"
    numbers, report, kept = results / f"{name}.json", reports / f"gpu-{name}.md", results / f"{name}-logs"
    for folder in (results, reports, kept):
        folder.mkdir(parents=True, exist_ok=True)
    # The numbers first, even if the report fails.
    write_whole(numbers, json.dumps(found, indent=1) + "\n")
    for log in sorted(logs.glob("*.log")):
        write_whole(kept / log.name, without_identity(log.read_text("utf-8", "replace"), host))
    write_whole(report, describe(found))
    return [numbers, report, kept]


def collect(state: State, machine: Result, planned: Sequence[Step], today: datetime.date) -> Result:
    """All results and all missing measurements, in the form that is kept."""
    gpu, done = machine["gpu"], state.having("result")

    def of(kind: str) -> Result:
        return {key.partition(" ")[2]: result for key, result in done.items() if key.startswith(f"{kind} ")}

    return {
        "gpu_slug": re.sub(r"[^a-z0-9]+", "-", gpu["name"].lower()).strip("-") if gpu else "dry-run",
        "date": today.isoformat(),
        "machine": machine,
        # What a person adds, by section of the report: what a reader must know to use its figures.
        "notes": {},
        "engine": state.engine or {"version": "not given", "pinned": PINNED},
        "memory": list(of("memory").values()),
        "limits": of("limits"),
        "shares": of("shares"),
        "pairs": of("pair"),
        "restarts": of("restarts"),
        "skipped": state.having("skipped"),
        "failed": state.having("failed"),
        "left": [step.key for step in state.left_of(planned)],
    }


def describe(found: Result) -> str:
    """The report, as Markdown."""
    notes = {"head": [], "memory": [], "shares": [], "pairs": [], **found["notes"]}
    parts = [
        *_head(found, notes["head"]),
        *_memory(found["memory"], notes["memory"]),
        *_shares(found["shares"], notes["shares"]),
        *_pairs(found["pairs"], notes["pairs"]),
    ]
    missing = [f"- {key}: skipped, {reason}" for key, reason in found["skipped"].items()]
    missing += [f"- {key}: failed, {reason.splitlines()[0]}" for key, reason in found["failed"].items()]
    missing += [f"- {key}: not run yet" for key in found["left"]]
    # Results that are older than these steps lack them.
    limits = found.get("limits", {})
    parts += [*describe_limits(limits), *describe_servers(limits), *describe_restarts(found.get("restarts", {}))]
    return "\n".join([*parts, *(["", "## Not measured", "", *missing] if missing else [])]) + "\n"


def _titled(title: str, notes: Sequence[str]) -> str:
    return "\n".join([title, *(f"{note}\n" for note in notes)])


def _head(found: Result, notes: Sequence[str]) -> Iterable[str]:
    machine, engine = found["machine"], found["engine"]
    gpu = machine["gpu"]
    yield f"# GPU tier: {gpu['name'] if gpu else 'a dry run on the CPU'}, {found['date']}\n"
    yield _titled(
        "Written by `make test-gpu`. The models have the shapes of the real ones and random weights.\n", notes
    )
    yield f"- engine: llama.cpp {engine['version']}; this project pins Ollama with llama.cpp {engine['pinned']}"
    yield f"- machine: {machine['cores']} cores, {machine['memory_gib']} GiB, Linux {machine['kernel']}"
    if compiler := engine.get("compiler"):
        yield f"- compiler: {compiler}"
    if not gpu:
        yield "- **A dry run measures nothing.** Models are tiny and run on the CPU."
        return
    reserved = "unknown" if gpu["reserved_mib"] is None else f"{_mib(gpu['reserved_mib'])} MiB"
    yield f"- GPU: {gpu['name']}, compute capability {gpu['compute_capability']}, driver {gpu['driver']}"
    yield f"- memory: {_mib(gpu['total_mib'])} MiB, of which the driver reserves {reserved}"
    yield f"- compute mode {gpu['compute_mode']}, MIG {gpu['mig_mode']}; nothing of it was changed"


def _memory(results: Sequence[Result], notes: Sequence[str]) -> Iterable[str]:
    """Predicted and measured, in total and part by part, which shows the source of a difference."""
    totals, parts, off = [], [], []
    for result in results:
        measured, predicted = measured_mib(result), result["predicted_mib"] or {}
        difference = None
        if measured and predicted:
            difference = predicted["total"] / measured - 1
            off.append(abs(difference))
        settings = _settings(result)
        shown = NONE if difference is None else f"{100 * difference:+.1f} %"
        totals.append([result["model"], settings, _mib(predicted.get("total")), _mib(measured), shown])
        allocated = {part: gpu_mib(result["buffers"], *kinds) for part, kinds in PARTS.items()}
        rest = measured - sum(allocated.values()) if measured else None
        pairs = [(predicted.get(part), allocated[part]) for part in PARTS] + [(predicted.get("context"), rest)]
        parts.append([result["model"], settings, *(f"{_mib(one)} / {_mib(other)}" for one, other in pairs)])
    if not results:
        return
    yield _titled(MEMORY, notes)
    yield from _table(["model", "settings", "predicted", "measured", "difference"], totals)
    if off:
        yield f"\nMedian error {100 * median(off):.1f} %, worst {100 * max(off):.1f} %, of {len(off)} measurements."
    yield COMPONENTS
    yield from _table(["model", "settings", "weights", "KV and state", "compute", "rest"], parts)


def _shares(found: Result, notes: Sequence[str]) -> Iterable[str]:
    if found:
        yield _titled("\n## Shares\n", notes)
    for mode, result in found.items():
        verdict, expected = result["verdict"], result["expected"]
        # Older results have one limit for all.
        limits = expected["limits_mib"] if "limits_mib" in expected else [expected["limit_mib"]]
        limit = " or ".join(dict.fromkeys(_mib(limit) for limit in limits if limit))
        seen = " to ".join(map(_mib, sorted({verdict["total_mib"][0], verdict["total_mib"][-1]})))
        enforced = f"more than {limit} MiB was refused" if limit else "no limit"
        yield f"- {mode}: as expected. Each process sees {seen} MiB; {enforced}."
        if server := result.get("mps_server_mib"):
            yield f"- the MPS server itself holds {_mib(server)} MiB."


def _pairs(found: Result, notes: Sequence[str]) -> Iterable[str]:
    if not found:
        return
    rows = []
    for mode, result in found.items():
        for row in result["summary"].get("equal_load", []):
            load, part = row["on_gpu"], row["of_dedicated"]
            shown = f"{100 * part['median']:.0f} %" if part else row["remark"]
            words = f"{load['prompt_words']} words, {load['level']:g} at a time"
            rows.append([mode, words, shown, f"{row['tokens_per_s']['median']:.0f}"])
        for run, reasons in result["summary"]["excluded"]:
            rows.append([mode, run, f"not compared: {'; '.join(reasons)}", ""])
    yield _titled(PAIRS, notes)
    if rows:
        yield COMPARED
        yield from _table(["sharing", "requests on the GPU", "of one model alone", "tokens per second"], rows)
        yield ""
    if figures := [_figure(mode, figure) for mode, result in found.items() for figure in result["summary"]["figures"]]:
        titles = ("first token, ms", "between tokens, ms", "tokens per second")
        yield FIGURES
        yield from _table(["sharing", "model", "at a time", *titles], figures)
    yield ""
    for mode, result in found.items():
        held = ", ".join(f"{one['program']} {_mib(one['mib'])}" for one in result["processes"])
        errors = sum(result["summary"]["errors"].values())
        failed = f" {errors} requests failed." if errors else ""
        used = f"{_mib(result['gpu_mib'])} MiB of the GPU in use with both models loaded"
        limits = " and ".join(_mib(limit) for limit in result.get("limits_mib") or [])
        limited = f" Limits of {limits} MiB." if limits else ""
        yield f"- {mode}: {used} ({held or 'processes not visible'}).{limited}{failed}"
        # `tandem bench` writes percentages without a space.
        yield from (f"- {mode}: {re.sub(r'(?<=[0-9])%', ' %', warning)}" for warning in result["summary"]["warnings"])


def _figure(mode: str, one: Result) -> list[str]:
    first, between = (f"{one[name]['p50']:,.{digits}f}" for name, digits in (("ttft_ms", 0), ("itl_ms", 2)))
    who = f"{one['endpoint']}, {'together' if one['together'] else 'alone'}"
    return [mode, who, f"{one['workload']['level']:g}", first, between, f"{one['tokens_per_s']['median']:.0f}"]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterable[str]:
    for cells in (head, ["---"] * len(head), *rows):
        yield f"| {' | '.join(cells)} |"


def _settings(row: Result) -> str:
    slots = f" × {row['slots']} slots" if row["slots"] > 1 else ""
    kv = "" if row["kv_type"] == "f16" else f", {row['kv_type']}"
    return f"{row['context']:,} tokens{slots}{kv}"


def _mib(value: float | None) -> str:
    return NONE if value is None else f"{value:,.0f}"
