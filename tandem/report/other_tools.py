"""The figures of other tools on the page: as they wrote them, compared with nothing."""

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from html import escape
from pathlib import Path

from sharing.printable import one_line
from tandem.bench_results.foreign.load_point import LoadPoint
from tandem.report.figures import number
from tandem.report.page import frame, paragraph, table
from tandem.terminal import in_words

TITLE = "Results of other tools"


def page_of_other_tools(points: Sequence[LoadPoint]) -> str:
    """A page with nothing else."""
    tools = in_words(list(dict.fromkeys(_text(point.tool) for point in points)))
    return frame(f"Measured by {tools}", section_of_other_tools(points))


def section_of_other_tools(points: Sequence[LoadPoint]) -> Iterator[str]:
    """The table with its explanation; nothing without points. Their text may come from anybody: it stays text."""
    if not points:
        return
    yield f"<h2>{TITLE}</h2>"
    yield paragraph(
        "These files do not say what else ran on the GPU, so nothing here is compared with it, nor with a model alone. "
        "Times are in milliseconds. Between tokens is the median of (last token - first token) / (tokens - 1)."
    )
    names = _names({point.file for point in points})
    yield table(
        ("file", "tool", "model", "load", "tokens/s", "first token p50", "first token p95", "between tokens", "failed"),
        (
            (
                _text(names[point.file] + (f" ({point.label})" if point.label else "")), _text(point.tool),
                _text(point.model or "not recorded"), point.load,
                *map(_number, (point.tokens_per_s, point.ttft_p50_ms, point.ttft_p95_ms, point.itl_p50_ms)),
                f"{point.failed} of {point.answered + point.failed}",
            )
            for point in points
        ),
    )  # fmt: skip
    if any(point.lacks_p95 for point in points):
        yield paragraph(
            "A p95 is missing because the file has none. Pass <code>--metric-percentiles 50,95,99</code> to "
            "<code>vllm bench serve</code>."
        )


def _names(files: Set[str]) -> dict[str, str]:
    """What the page calls the files: without their folders, which are not the reader's, unless two have one name."""
    often = Counter(Path(file).name for file in files)
    return {file: file if often[Path(file).name] > 1 else Path(file).name for file in files}


def _text(text: str) -> str:
    return escape(one_line(text))


def _number(value: float | None) -> str:
    return "–" if value is None else number(value)
