"""The progress and the summary of a benchmark, for the screen."""

from types import TracebackType

from rich import progress as bars
from rich.console import Console

from tandem.bench.run import Case
from tandem.bench_results.equal_load import equal_load
from tandem.bench_results.measures import Spread, answered, reasons_against, tokens_per_s
from tandem.bench_results.result import Run
from tandem.bench_results.summary import Summary
from tandem.terminal import in_markup, new_table, open_console, say


class Progress:
    """A bar on a terminal, a line per run elsewhere; on standard error."""

    def __init__(self, runs: int, *, quiet: bool) -> None:
        self._console = open_console(stderr=True)
        self._runs, self._number, self._case = runs, 0, ""
        self._bar = bars.Progress(
            bars.TextColumn("{task.description}"),
            bars.BarColumn(bar_width=12),
            bars.MofNCompleteColumn(),
            bars.TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=quiet or not self._console.is_terminal,
        )
        self._quiet = quiet

    def __enter__(self) -> "Progress":
        self._bar.start()
        self._task = self._bar.add_task("", total=self._runs)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._bar.stop()

    def begins(self, case: Case) -> None:
        """A run begins."""
        self._number += 1
        self._case = str(case)
        self._bar.update(self._task, description=in_markup(self._case))

    def ended(self, run: Run) -> None:
        """A run ended."""
        self._bar.advance(self._task)
        if self._quiet:
            return
        counted = [row for row in run.rows if row.counted]
        failed = len(counted) - len(answered(counted))
        speed = sum(tokens_per_s([row for row in run.rows if row.endpoint == id]) for id in run.endpoints)
        remarks = [f"{failed} of {len(counted)} failed"] if failed else []
        remarks += reasons_against(run)
        added = "".join(f"; {remark}" for remark in remarks)
        line = f"{self._number}/{self._runs} {self._case}: {run.seconds:.1f} s, {speed:.1f} tokens/s{added}"
        self._console.print(in_markup(line), soft_wrap=not self._console.is_terminal)


def show(summary: Summary) -> None:
    """The figures as tables."""
    console = open_console()
    for workload in dict.fromkeys(row.workload for row in summary.figures):
        table = new_table(f"{workload} (ms: p50 / p95)")
        table.add_column("model")
        for title in ("first token", "between", "request", "tokens/s", "failed"):
            table.add_column(title, justify="right")
        for row in summary.figures:
            if row.workload == workload:
                who = f"{row.endpoint} {row.company}"
                speed = f"{row.tokens_per_s.median:.1f}" if row.tokens_per_s else "–"
                times = map(_two, (row.ttft_ms, row.itl_ms, row.latency_ms))
                table.add_row(in_markup(who), *times, speed, str(row.errors))
        console.print(table)
    _show_first_tokens(console, summary)
    for load in equal_load([summary]):
        title = f"{load.on_gpu} on the GPU:" if load.on_gpu else f"{load.workload}, together:"
        speed = f"{load.tokens_per_s.median:.1f}" if load.tokens_per_s else "–"
        part = f"{load.of_dedicated.median:.0%} of one model alone, " if load.of_dedicated else ""
        kept = [f"{model.model} {model.of_own_gpu.median:.0%}" for model in load.models if model.of_own_gpu]
        each = f"; each keeps, of its tokens/s alone: {', '.join(kept)}" if kept else ""
        cost = f"; ${load.usd_per_million.median:.2f} per million tokens" if load.usd_per_million else ""
        remark = f"; {load.remark}" if load.remark else ""
        text = f"{title} {part}{speed} tokens/s combined{each}{cost}{remark}"
        say(console, text, "bold", word=title, fold=console.is_terminal)
    if summary.excluded:
        reasons = sorted({reason for _, run_reasons in summary.excluded for reason in run_reasons})
        text = f"{len(summary.excluded)} of {summary.runs} runs are excluded: {'; '.join(reasons)}"
        say(console, f"warning: {text}")
    if summary.first_token_warning:
        say(console, f"warning: {summary.first_token_warning}")


def _show_first_tokens(console: Console, summary: Summary) -> None:
    parts = [(row, row.first_token) for row in summary.figures if row.first_token]
    if not parts:
        return
    table = new_table("parts of the time to first token (ms: mean)")
    table.add_column("model")
    for title in ("waiting", "prompt", "rest"):
        table.add_column(title, justify="right")
    for row, part in parts:
        who = in_markup(f"{row.endpoint} {row.company}, {row.workload}")
        rest = f"{part.rest_ms:,.1f} ({part.rest:.0%})"
        table.add_row(who, f"{part.waiting_ms:,.1f}", f"{part.prompt_ms:,.1f}", rest)
    console.print(table)


def _two(times: Spread | None) -> str:
    return f"{times.p50:.1f} / {times.p95:.1f}" if times else "–"
