"""The figures of a report: what each model does alone and together, and how long requests take.

Both speak one language: a row for each sharing mode, a hollow circle alone, a filled diamond together, and a line as
long as the spread. So five modes need no more colours than one.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from xml.etree.ElementTree import Element

from tandem import svg
from tandem.bench_results.equal_load import reference
from tandem.bench_results.summary import Figures, Summary, Workload

PANEL = 200
"""Width of a column of panels: two of them fit a phone."""
EDGE = 10
ROW = 46
HEAD = 26
AXIS = 52
LEGEND = 54
TICK = 45
"""Room for the number below a line of the grid."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing."""

    title: str
    width: float
    drawing: str
    """SVG, with a description for those who do not see it."""


class Mark(NamedTuple):
    """A value with the ends of its line."""

    middle: float
    low: float
    high: float


class Line(NamedTuple):
    """A row of a panel: alone and together, where they were measured."""

    name: str
    alone: Mark | None
    together: Mark | None

    def words(self) -> str:
        """The values, from alone to together."""
        return " → ".join(number(mark.middle) if mark else "–" for mark in (self.alone, self.together))

    def spoken(self) -> str:
        """The values as a sentence has them."""
        values = (("alone", self.alone), ("together", self.together))
        return f"{self.name}: " + ", ".join(f"{number(mark.middle)} {when}" for when, mark in values if mark)


Group = tuple[str, list[Line]]
"""A heading, and the rows below it."""


def draw(shown: Sequence[Summary]) -> list[Figure]:
    """The figures for which there are values."""
    return [figure for figure in (_throughput(shown), _latency(shown)) if figure]


def number(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _throughput(shown: Sequence[Summary]) -> Figure | None:
    """Tokens/s at the load of the answer: a row for each mode and model, over the repeats."""
    common = reference(shown)
    if common is None:
        return None

    def mark(figures: Figures) -> Mark | None:
        speed = figures.tokens_per_s
        return Mark(speed.median, speed.lowest, speed.highest) if speed else None

    groups = [
        (summary.label, [_line(endpoint, endpoint, summary, common, mark) for endpoint in _endpoints([summary])])
        for summary in shown
    ]
    title = f"Tokens/s alone and together: {common}"
    spoken = [f"{heading}, {line.spoken()}" for heading, lines in groups for line in lines]
    alt = f"{title}. Median of the repeats. {'; '.join(spoken)}."
    root = svg.start("throughput", title, alt, svg.PHONE)
    top = _legend(root, "tokens/s, median and range of the repeats")
    limit = _limit(line for _, lines in groups for line in lines)
    bottom = _panel(root, EDGE, top, svg.PHONE - 2 * EDGE, groups, limit, "tokens per second: more is better")
    return Figure(title, svg.PHONE, svg.finish(root, bottom))


def _latency(shown: Sequence[Summary]) -> Figure | None:
    """How long requests take: a row of panels for each model, a column for each length of prompt."""
    loads = sorted({figures.workload for summary in shown for figures in summary.figures if figures.latency_ms})
    lengths = sorted({load.prompt_words for load in loads})
    if not loads:
        return None

    def mark(figures: Figures) -> Mark | None:
        seconds = figures.latency_ms
        return Mark(seconds.p50 / 1e3, seconds.p50 / 1e3, seconds.p95 / 1e3) if seconds else None

    panels = {
        (endpoint, words): [
            (
                str(load).split(", ", 1)[1],
                [_line(summary.label, endpoint, summary, load, mark) for summary in shown],
            )
            for load in loads
            if load.prompt_words == words
        ]
        for endpoint in _endpoints(shown)
        for words in lengths
    }
    title = "Request latency alone and together"
    alt = (
        f"{title}, in seconds: median and 95th percentile, a row for each model, a column for each length of prompt. "
        'The table "All figures" has the values.'
    )
    width = max(PANEL * len(lengths) + 2 * EDGE, svg.PHONE)
    inner = width - 2 * EDGE
    panel = inner / len(lengths)
    root = svg.start("latency", title, alt, width)
    top = _legend(root, "seconds, median and 95th percentile")
    limit = _limit(line for groups in panels.values() for _, lines in groups for line in lines)
    for endpoint in _endpoints(shown):
        _heading(root, EDGE, top + 18, endpoint, inner)
        top += HEAD
        bottoms = []
        for column, words in enumerate(lengths):
            left = EDGE + column * panel
            svg.label(root, left, top + 16, f"prompts of {words:,} words")
            groups = panels[endpoint, words]
            bottoms.append(_panel(root, left, top + HEAD, panel - 12, groups, limit, "seconds: less is better"))
        top = max(bottoms)
    return Figure(title, width, svg.finish(root, top))


def _endpoints(shown: Sequence[Summary]) -> list[str]:
    return list(dict.fromkeys(figures.endpoint for summary in shown for figures in summary.figures))


def _line(name: str, endpoint: str, summary: Summary, load: Workload, mark: Callable[[Figures], Mark | None]) -> Line:
    marks = {
        figures.together: mark(figures)
        for figures in summary.figures
        if (figures.endpoint, figures.workload) == (endpoint, load)
    }
    return Line(name, marks.get(False), marks.get(True))


def _limit(lines: Iterable[Line]) -> float:
    return max((mark.high for line in lines for mark in (line.alone, line.together) if mark), default=0.0) or 1.0


def _legend(root: Element, words: str) -> float:
    _symbol(root, EDGE + 6, 16, together=False)
    svg.label(root, EDGE + 18, 21, "alone")
    _symbol(root, EDGE + 76, 16, together=True)
    svg.label(root, EDGE + 88, 21, "together")
    svg.label(root, EDGE, 42, words, fill="quiet")
    return LEGEND


def _panel(
    root: Element, left: float, top: float, width: float, groups: Sequence[Group], limit: float, unit: str
) -> float:
    """Rows over one axis; returns where it ends."""
    ticks = _ticks(limit, int(width / TICK))

    def place(value: float) -> float:
        return left + 8 + value / limit * (width - 16)

    bottom = top + sum(HEAD + ROW * len(lines) for _, lines in groups)
    for tick in ticks:
        svg.add(root, "line", x1=place(tick), y1=top, x2=place(tick), y2=bottom, line_="rule")
        svg.label(root, place(tick), bottom + 18, f"{tick:,g}", fill="quiet", text_anchor="middle")
    svg.label(root, left + 8, bottom + 38, unit, fill="quiet")
    for heading, lines in groups:
        svg.add(root, "rect", x=left, y=top, width=width, height=HEAD - 4, fill_="band")
        _heading(root, left + 4, top + 16, heading, width - 8)
        top += HEAD
        for line in lines:
            _row(root, left, top, width, line, place)
            top += ROW
    return bottom + AXIS


def _heading(root: Element, x: float, y: float, words: str, width: float) -> None:
    svg.label(root, x, y, svg.shorten(words, width), kind="bold")


def _row(root: Element, left: float, top: float, width: float, line: Line, place: Callable[[float], float]) -> None:
    group = svg.add(root, "g")
    svg.add(group, "title", line.spoken())
    values = line.words()
    room = width - 16 - len(values) * svg.SIZE * svg.LETTER
    svg.label(group, left + 8, top + 14, svg.shorten(line.name, room), kind="halo")
    svg.label(group, left + width - 8, top + 14, values, fill="quiet", kind="halo", text_anchor="end")
    for mark, height, colour in ((line.alone, top + 24, "blue"), (line.together, top + 35, "orange")):
        if mark is None:
            continue
        low, high = place(mark.low), place(mark.high)
        svg.add(group, "line", x1=low, y1=height, x2=high, y2=height, line_=colour, stroke_width=2)
        for end in (low, high):
            svg.add(group, "line", x1=end, y1=height - 4, x2=end, y2=height + 4, line_=colour, stroke_width=2)
        _symbol(group, place(mark.middle), height, together=colour == "orange")


def _symbol(parent: Element, x: float, y: float, *, together: bool) -> None:
    if together:
        points = f"{x:.1f},{y - 6:.1f} {x + 6:.1f},{y:.1f} {x:.1f},{y + 6:.1f} {x - 6:.1f},{y:.1f}"
        svg.add(parent, "polygon", points=points, fill_="orange")
    else:
        svg.add(parent, "circle", cx=x, cy=y, r=4.5, fill_="paper", line_="blue", stroke_width=2)


def _ticks(limit: float, most: int) -> list[float]:
    """Round steps from 0 up to `limit` or just below it: 1, 2 or 5 times a power of ten; `most` is at least 3."""
    power = 10.0 ** math.floor(math.log10(limit / most))
    step = next(power * factor for factor in (2, 5, 10) if limit <= power * factor * most)
    return [round(step * count, 10) for count in range(int(limit / step + 1e-9) + 1)]
