"""The plots of a report, as SVG. The same figures give the same bytes."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sharing.printable import one_line
from tandem.markdown import change_text
from tandem.measured.summary import Figures, Sharing, Summary

STYLE = {
    "svg.hashsalt": "tandem",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
}
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Okabe and Ito's, which people with colour blindness tell apart."""


def draw(told: Sequence[Summary], folder: Path) -> dict[str, str]:
    """Draws what there are figures for; file names with what they show."""
    told = change_text(list(told), one_line)  # XML has no escape for control characters
    drawn = {}
    with mpl.rc_context():
        mpl.rcdefaults()  # a matplotlibrc of the user's would draw other plots
        mpl.rcParams.update(STYLE)  # type: ignore[arg-type]  # its stubs want literal keys
        for name, title, make in (
            ("latency.svg", "Request latency over concurrency: median, and up to the 95th percentile", _latency),
            ("throughput.svg", "Output tokens a second of all models together, over concurrency", _throughput),
            ("cost.svg", "Dollars for a million output tokens, all models together", _cost),
            ("fairness.svg", "Fairness between the models (Jain's index; 1 = each keeps the same part)", _fairness),
        ):
            figure = make(told)
            if figure is not None:
                figure.savefig(folder / name, format="svg", metadata={"Date": None, "Creator": None})
                drawn[name] = title
    return drawn


def _lengths(figures: Sequence[Figures] | Sequence[Sharing]) -> list[int]:
    return sorted({one.workload.prompt_words for one in figures if one.workload.loop == "closed"})


def _panels(lengths: Sequence[int], height: float = 3.4) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(4.2 * max(len(lengths), 1) + 1, height), layout="constrained")
    axes = figure.subplots(1, len(lengths), squeeze=False, sharey=True)[0]
    for words, panel in zip(lengths, axes, strict=True):
        panel.set_title(f"prompts of {words} words", fontsize=10)
    return figure, list(axes)


def _latency(told: Sequence[Summary]) -> Figure | None:
    lengths = _lengths([one for summary in told for one in summary.figures])
    if not lengths:
        return None
    figure, panels = _panels(lengths)
    for words, panel in zip(lengths, panels, strict=True):
        for colour, summary in zip(_colours(), told, strict=False):
            for together, dashes in ((False, "--"), (True, "-")):
                some = [
                    one
                    for one in summary.figures
                    if one.workload.prompt_words == words and one.workload.loop == "closed" and one.together == together
                ]
                _band(panel, some, colour, dashes, f"{summary.label}, {'together' if together else 'alone'}")
        _label(panel, "requests at a time, for each model", "seconds", [one for s in told for one in s.figures])
    return _with_legend(figure, panels)


def _band(panel: Axes, figures: Sequence[Figures], colour: str, dashes: str, label: str) -> None:
    """One line for each model: they are different models, so their times are not averaged."""
    for number, endpoint in enumerate(sorted({one.endpoint for one in figures})):
        points = sorted(
            (one.workload.level, one.latency_ms) for one in figures if one.endpoint == endpoint and one.latency_ms
        )
        levels = [level for level, _ in points]
        middle = [latency.p50 / 1e3 for _, latency in points]
        upper = [latency.p95 / 1e3 for _, latency in points]
        marker = "os^Dv"[number % 5]
        panel.plot(
            levels,
            middle,
            dashes,
            color=colour,
            marker=marker,
            markersize=4,
            markerfacecolor="white" if dashes == "--" else colour,
            label=f"{endpoint}: {label}",
        )
        panel.fill_between(levels, middle, upper, color=colour, alpha=0.12, linewidth=0)


def _throughput(told: Sequence[Summary]) -> Figure | None:
    return _lines(told, lambda one: one.tokens_per_s, "tokens a second")


def _fairness(told: Sequence[Summary]) -> Figure | None:
    figure = _lines(told, lambda one: one.fairness, "Jain's index")
    for panel in figure.axes if figure else []:
        panel.set_ylim(0, 1.05)
    return figure


def _lines(told: Sequence[Summary], value: Callable[[Sharing], float], name: str) -> Figure | None:
    lengths = _lengths([one for summary in told for one in summary.sharing])
    if not lengths:
        return None
    figure, panels = _panels(lengths)
    for words, panel in zip(lengths, panels, strict=True):
        for colour, summary in zip(_colours(), told, strict=False):
            points = sorted(
                (one.workload.level, value(one))
                for one in summary.sharing
                if one.workload.prompt_words == words and one.workload.loop == "closed"
            )
            panel.plot(
                [level for level, _ in points], [height for _, height in points], "-o", color=colour, markersize=4,
                label=summary.label,
            )  # fmt: skip
        _label(panel, "requests at a time, for each model", name, [one for s in told for one in s.sharing])
    return _with_legend(figure, panels)


def _cost(told: Sequence[Summary]) -> Figure | None:
    priced = [(s, one) for s in told for one in s.sharing if one.usd_per_million and one.workload.loop == "closed"]
    lengths = _lengths([one for _, one in priced])
    if not lengths:
        return None
    figure, panels = _panels(lengths)
    for words, panel in zip(lengths, panels, strict=True):
        levels = sorted({one.workload.level for _, one in priced if one.workload.prompt_words == words})
        width = 0.8 / len(told)
        for number, (colour, summary) in enumerate(zip(_colours(), told, strict=False)):
            costs = {
                one.workload.level: one.usd_per_million
                for owner, one in priced
                if owner is summary and one.workload.prompt_words == words
            }
            places = [index + width * (number - (len(told) - 1) / 2) for index in range(len(levels))]
            bars = panel.bar(
                places, [costs.get(level) or 0.0 for level in levels], width, color=colour, label=summary.label
            )
            panel.bar_label(bars, fmt="%.2f", fontsize=8)
        panel.set_xticks(range(len(levels)), [f"{level:g}" for level in levels])
        panel.set_xlabel("requests at a time, for each model")
        panel.set_ylabel("dollars")
    return _with_legend(figure, panels)


def _label(panel: Axes, x: str, y: str, figures: Sequence[Any]) -> None:
    panel.set_xlabel(x)
    panel.set_ylabel(y)
    levels = sorted({one.workload.level for one in figures if one.workload.loop == "closed"})
    panel.set_xticks(levels, [f"{level:g}" for level in levels])


def _with_legend(figure: Figure, panels: Sequence[Axes]) -> Figure:
    for panel in panels:
        panel.set_ylim(bottom=0)  # after all of them: they share the axis, and this fixes its top
        panel.label_outer()
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=8, handlelength=3.5)
    return figure


def _colours() -> tuple[str, ...]:
    return COLOURS * 4
