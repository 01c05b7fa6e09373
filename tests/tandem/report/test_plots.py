"""What the plots show, as data: every line, band, bar, tick and name. `--regen` writes `tests/golden/plots.json`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from tandem.measured.result import Result, Run
from tandem.measured.summary import summary
from tandem.report import plots
from tests.conftest import Golden
from tests.tandem.results import result, run, steady


def runs(pace: float) -> Iterator[Run]:
    """Each load alone and together: two lengths of prompt, two levels, and one that comes at random moments."""
    loads: list[dict[str, Any]] = [
        {"prompt_words": words, "loop": "closed", "level": level} for words in (512, 64) for level in (8.0, 1.0)
    ]
    for load in [*loads, {"prompt_words": 2048, "loop": "open", "level": 0.5}]:
        slower = pace * load["level"]
        for name in "ab":
            yield run([name], steady(name, 50 * slower, 10 * slower), **load)
        both = [*steady("a", 80 * slower, 15 * slower), *steady("b", 90 * slower, 30 * slower)]
        yield run(["a", "b"], both, **load)


def told(label: str, pace: float, usd: float | None) -> Result:
    return result(label, [*runs(pace)], usd_per_hour=usd)


def close(numbers: Any) -> list[float]:
    return [round(float(number), 4) for number in numbers]


def of_panel(panel: Axes) -> dict[str, Any]:
    lines = [
        {
            **{"label": line.get_label(), "x": close(line.get_xdata()), "y": close(line.get_ydata())},
            **{"colour": str(line.get_color()), "dashes": line.get_linestyle(), "marker": line.get_marker()},
            **{"fill": str(line.get_markerfacecolor()), "size": line.get_markersize()},
        }
        for line in panel.get_lines()
    ]
    shapes: Any = panel
    bands = [
        (to_hex(one.get_facecolor()[0]), one.get_alpha(), one.get_paths()[0].vertices) for one in shapes.collections
    ]
    return {
        **{"title": panel.get_title(), "x": panel.get_xlabel(), "y": panel.get_ylabel()},
        "height": close(panel.get_ylim()),
        "ticks": list(zip(close(panel.get_xticks()), [one.get_text() for one in panel.get_xticklabels()], strict=True)),
        "lines": lines,
        "bands": [(colour, alpha, [close(point) for point in points]) for colour, alpha, points in bands],
        "bars": [
            (*close((bar.get_x(), bar.get_width(), bar.get_height())), to_hex(bar.get_facecolor()))
            for bar in shapes.patches
        ],
        "texts": [one.get_text() for one in panel.texts],
    }


def drawn(figure: Figure | None) -> Any:
    if figure is None:
        return None
    names = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    return {"inches": close(figure.get_size_inches()), "legend": names, "panels": list(map(of_panel, figure.axes))}


def test_the_plots_show_what_the_golden_says(golden: Golden) -> None:
    priced = [summary(told("mps", 1.0, 0.5754)), summary(told("exclusive", 0.5, 1.1))]
    free = [summary(told("free", 1.0, None))]
    makers = (plots._latency, plots._throughput, plots._cost, plots._fairness)
    shown = {
        f"{make.__name__[1:]} {name}": drawn(make(some))
        for name, some in (("two", priced), ("one", free))
        for make in makers
    }
    said = json.dumps(shown, indent=1) + "\n"
    golden("plots.json", said)
    assert shown["cost one"] is None


def test_nothing_is_drawn_of_nothing() -> None:
    nothing = [summary(result("none", []))]
    assert [make(nothing) for make in (plots._latency, plots._throughput, plots._cost, plots._fairness)] == [None] * 4


def test_the_settings_of_the_user_change_nothing(tmp_path: Path) -> None:
    figures = [summary(told("mps", 1.0, 0.5))]
    plots.draw(figures, tmp_path)
    first = (tmp_path / "cost.svg").read_bytes()
    with mpl.rc_context({"font.family": "serif", "lines.linewidth": 9, "axes.facecolor": "black"}):
        plots.draw(figures, tmp_path)
        assert mpl.rcParams["lines.linewidth"] == 9
    assert (tmp_path / "cost.svg").read_bytes() == first


@pytest.mark.parametrize(("usd", "files"), [(0.5, 4), (None, 3)])
def test_a_file_for_each_plot_that_there_is(tmp_path: Path, usd: float | None, files: int) -> None:
    named = plots.draw([summary(told("$a$\x1b[31m", 1.0, usd))], tmp_path)
    assert sorted(named) == sorted(file.name for file in tmp_path.iterdir())
    assert len(named) == files
    drawings = [file.read_text(encoding="utf-8") for file in tmp_path.iterdir()]
    assert all("<svg" in drawing for drawing in drawings)
    assert any(">$a$" in drawing for drawing in drawings)  # no formula
