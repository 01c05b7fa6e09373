"""Results as a file that tests read, and as a report for people."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tests.gpu.build import PINNED
from tests.gpu.memory import measured_mib
from tests.gpu.plan import BUILD
from tests.gpu.progress import Result, State, Step, left_of
from tests.gpu.readings import Buffer

NOT_MEASURED = "–"


def keep(
    state: State, machine: Result, planned: Sequence[Step], today: datetime.date, results: Path, reports: Path
) -> list[Path]:
    """Writes both files and returns where. Nothing is written when nothing was measured."""
    if not set(state.done) - {BUILD}:
        return []
    found = collect(state, machine, planned, today)
    name = f"{found['gpu_slug']}-{today}"
    numbers, report = results / f"{name}.json", reports / f"gpu-{name}.md"
    for folder in (results, reports):
        folder.mkdir(parents=True, exist_ok=True)
    # The numbers first, whatever becomes of the report.
    numbers.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    report.write_text(describe(found), encoding="utf-8")
    return [numbers, report]


def collect(state: State, machine: Result, planned: Sequence[Step], today: datetime.date) -> Result:
    """Everything that was measured, and what was not, in the form that is kept."""
    gpu = machine["gpu"]
    slug = re.sub(r"[^a-z0-9]+", "-", gpu["name"].lower()).strip("-") if gpu else "dry-run"
    return {
        "gpu_slug": slug,
        "date": today.isoformat(),
        "machine": machine,
        "engine": state.done.get(BUILD, {"version": "not built", "pinned": PINNED}),
        "memory": [result for key, result in state.done.items() if key.startswith("memory ")],
        "shares": {key.partition(" ")[2]: result for key, result in state.done.items() if key.startswith("shares ")},
        "pairs": {key.partition(" ")[2]: result for key, result in state.done.items() if key.startswith("pair ")},
        "skipped": state.skipped,
        "failed": state.failed,
        "left": [step.key for step in left_of(planned, state)],
    }


def describe(found: Result) -> str:
    """The report, as Markdown."""
    parts = [_head(found), _memory(found["memory"]), _shares(found["shares"]), _pairs(found["pairs"]), _missing(found)]
    return "\n\n".join(part for part in parts if part) + "\n"


def errors(found: Result) -> list[tuple[str, float]]:
    """By how much each prediction is off, as a part of what was measured, e.g. -0.04 for 4 % too low."""
    rows = []
    for result in found["memory"]:
        measured, predicted = measured_mib(result), result["predicted_mib"]
        if measured and predicted:
            rows.append((_settings(result), predicted["total"] / measured - 1))
    return rows


def _head(found: Result) -> str:
    machine, engine = found["machine"], found["engine"]
    gpu = machine["gpu"]
    title = gpu["name"] if gpu else "a dry run on the CPU"
    lines = [
        f"# GPU tier: {title}, {found['date']}",
        "",
        "Written by `make test-gpu`. The models have the shapes of the real ones and random weights.",
        "",
        f"- engine: llama.cpp {engine['version']}; this project pins Ollama with llama.cpp {engine['pinned']}",
        f"- machine: {machine['cores']} cores, {machine['memory_gib']} GiB, Linux {machine['kernel']}",
    ]
    if compiler := engine.get("compiler"):
        lines.append(f"- compiler: {compiler}")
    if gpu:
        reserved = "unknown" if gpu["reserved_mib"] is None else f"{gpu['reserved_mib']:,} MiB"
        lines += [
            f"- GPU: {gpu['name']}, compute capability {gpu['compute_capability']}, driver {gpu['driver']}",
            f"- memory: {gpu['total_mib']:,} MiB, of which the driver reserves {reserved}",
            f"- compute mode {gpu['compute_mode']}, MIG {gpu['mig_mode']}; nothing of it was changed",
        ]
    else:
        lines.append("- **A dry run measures nothing.** Models are tiny and run on the CPU.")
    return "\n".join(lines)


def _memory(rows: Sequence[Result]) -> str:
    if not rows:
        return ""
    lines = [
        "## Memory",
        "",
        "Every slot's context was full when memory was read. MiB; prediction without margin.",
        "",
        "| model | settings | predicted | measured | difference |",
        "| --- | --- | --- | --- | --- |",
    ]
    off = []
    for row in rows:
        measured, predicted = measured_mib(row), row["predicted_mib"]
        difference = NOT_MEASURED
        if measured and predicted:
            off.append(abs(predicted["total"] / measured - 1))
            difference = f"{predicted['total'] / measured - 1:+.1%}"
        lines.append(
            f"| {row['model']} | {_settings(row)} | {_mib(predicted and predicted['total'])} | {_mib(measured)} "
            f"| {difference} |"
        )
    if off:
        lines += ["", f"Median error {median(off):.1%}, worst {max(off):.1%}, of {len(off)} measurements."]
    return "\n".join([*lines, "", *_components(rows)])


def _components(rows: Sequence[Result]) -> list[str]:
    """Where a difference comes from: predicted and measured, part by part."""
    lines = [
        "Predicted / allocated by the engine. The rest is what no buffer of the engine explains: CUDA itself, cuBLAS",
        "and scratch memory.",
        "",
        "| model | settings | weights | KV and state | compute | rest |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        predicted, measured = row["predicted_mib"] or {}, measured_mib(row)
        allocated = {kind: _allocated(row, *kinds) for kind, kinds in PARTS.items()}
        rest = measured - sum(allocated.values()) if measured else None
        cells = [f"{_mib(predicted.get(kind))} / {allocated[kind]:,.0f}" for kind in PARTS]
        lines.append(
            f"| {row['model']} | {_settings(row)} | {' | '.join(cells)} "
            f"| {_mib(predicted.get('context'))} / {_mib(rest)} |"
        )
    return lines


PARTS = {"weights": ("model",), "kv": ("KV", "RS"), "compute": ("compute", "output")}
"""Parts of the prediction, and the engine's buffers that belong to each."""


def _allocated(row: Result, *kinds: str) -> float:
    buffers = [Buffer(**one) for one in row["buffers"]]
    return sum(one.mib for one in buffers if one.kind in kinds and one.on_gpu)


def _shares(found: dict[str, Result]) -> str:
    if not found:
        return ""
    lines = ["## Shares", ""]
    for mode, result in found.items():
        verdict, limit = result["verdict"], result["expected"]["limit_mib"]
        seen = " to ".join(f"{one:,}" for one in sorted({verdict["total_mib"][0], verdict["total_mib"][-1]}))
        enforced = f"more than {limit:,} MiB was refused" if limit else "no limit"
        lines.append(f"- {mode}: as expected. Each process sees {seen} MiB; {enforced}.")
        if result.get("mps_server_mib"):
            lines.append(f"- the MPS server itself holds {result['mps_server_mib']:,} MiB.")
    return "\n".join(lines)


def _pairs(found: dict[str, Result]) -> str:
    if not found:
        return ""
    lines = [
        "## Two servers, alone and together",
        "",
        "Measured with `tandem bench` against two Ollama servers. Throughput is that of both together, as a part of",
        "the sum of what each does alone. Slowdown is the time between two tokens, together over alone.",
        "",
        "| sharing | load | tokens per second | throughput | slowdown |",
        "| --- | --- | --- | --- | --- |",
    ]
    for mode, result in found.items():
        for row in result["summary"]["sharing"]:
            load = row["workload"]
            slowdown = ", ".join(f"{name} {factor:.2f}" for name, factor in row["slowdown"].items())
            lines.append(
                f"| {mode} | {load['prompt_words']} words, {load['level']:g} at a time | {row['tokens_per_s']:.0f} "
                f"| {row['throughput_ratio']:.2f} | {slowdown} |"
            )
        for run, reasons in result["summary"]["excluded"]:
            lines.append(f"| {mode} | {run} | not compared: {'; '.join(reasons)} | | |")
    return "\n".join([*lines, "", *(_pair_memory(mode, result) for mode, result in found.items())])


def _pair_memory(mode: str, result: Result) -> str:
    held = ", ".join(f"{one['program']} {_mib(one['mib'])}" for one in result["processes"]) or "processes not visible"
    errors = sum(result["summary"]["errors"].values())
    failed = f" {errors} requests failed." if errors else ""
    return f"- {mode}: {_mib(result['gpu_mib'])} MiB of the GPU in use with both models loaded ({held}).{failed}"


def _missing(found: Result) -> str:
    lines = [f"- {key}: skipped, {reason}" for key, reason in found["skipped"].items()]
    lines += [f"- {key}: failed, {reason.splitlines()[0]}" for key, reason in found["failed"].items()]
    lines += [f"- {key}: not run yet" for key in found["left"]]
    return "\n".join(["## Not measured", "", *lines]) if lines else ""


def _settings(row: dict[str, Any]) -> str:
    slots = f" × {row['slots']} slots" if row["slots"] > 1 else ""
    kv = "" if row["kv_type"] == "f16" else f", {row['kv_type']}"
    return f"{row['context']:,} tokens{slots}{kv}"


def _mib(value: float | None) -> str:
    return NOT_MEASURED if value is None else f"{value:,.0f}"
