"""The content of the figures, for viewers and for screen readers. `--regen` writes `tests/golden/figures`."""

import itertools
import math
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem import svg
from tandem.bench_results.result import Result, Run
from tandem.bench_results.summary import Summary, summary
from tandem.report.figures import EDGE, Line, Mark, _limit, _ticks, draw
from tests.conftest import Golden
from tests.tandem.results import paced, result, run, steady

SVG = "{http://www.w3.org/2000/svg}"


def runs(pace: float) -> Iterator[Run]:
    """Each load alone and together: two lengths of prompt, two levels, and one that comes at random moments."""
    loads: list[dict[str, Any]] = [
        {"prompt_words": words, "loop": "closed", "level": level} for words in (512, 64) for level in (2.0, 1.0)
    ]
    for load in [*loads, {"prompt_words": 2048, "loop": "open", "level": 0.5}]:
        slower = pace * load["level"]
        for name in "ab":
            yield run([name], steady(name, 50 * slower, 10 * slower), **load)
        both = [*steady("a", 80 * slower, 15 * slower), *steady("b", 90 * slower, 30 * slower)]
        yield run(["a", "b"], both, **load)


def printed(label: str, pace: float, usd: float | None) -> Result:
    return result(label, [*runs(pace)], usd_per_hour=usd)


def two() -> list[Summary]:
    return [summary(printed("mps", 1.0, 0.5754)), summary(printed("exclusive", 0.5, 1.1))]


def parsed(figures: list[Summary], name: str) -> ElementTree.Element:
    title = {"throughput": "Tokens/s", "latency": "Request latency"}[name]
    [drawing] = [figure.drawing for figure in draw(figures) if figure.title.startswith(title)]
    return ElementTree.fromstring(drawing)


def words(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def test_a_figure_is_its_golden(golden: Golden) -> None:
    throughput, _ = draw(two())
    golden("figures/throughput.svg", throughput.drawing)


def test_a_value_is_at_its_position_on_the_axis() -> None:
    """Two models of 99 intervals of 10 ms alone, and 20, 40 and 50 ms together: 101 and 51, 25 and 20 tokens/s."""
    root = parsed([summary(paced("mps", (20.0, 40.0, 50.0)))], "throughput")
    ticks = {
        text.text: float(text.get("x", "")) for text in root.iter(f"{SVG}text") if text.get("text-anchor") == "middle"
    }
    zero, hundred = ticks["0"], ticks["100"]
    expected = {
        value: zero + value / 100 * (hundred - zero) for value in (100 / 0.99, 100 / 3.96, 100 / 1.98, 100 / 4.95)
    }
    alone, together, highest, lowest = expected.values()
    [*_, circle] = root.iter(f"{SVG}circle")
    assert float(circle.get("cx", "")) == pytest.approx(alone, abs=0.1)
    [*_, diamond] = root.iter(f"{SVG}polygon")
    assert float(diamond.get("points", "").split(",")[0]) == pytest.approx(together, abs=0.1)
    whiskers = [line for line in root.iter(f"{SVG}line") if line.get("class") == "line-orange"]
    ends = [float(whiskers[0].get(name, "")) for name in ("x1", "x2")]
    assert ends == pytest.approx([lowest, highest], abs=0.1)
    assert "101 → 25.3" in words(root)


def test_the_latency_has_a_panel_for_each_model_and_length_and_a_row_for_each_load_and_target() -> None:
    shown = words(parsed(two(), "latency"))
    assert [shown.count(model) for model in "ab"] == [1, 1]
    for length in ("64", "512", "2,048"):
        assert shown.count(f"prompts of {length} words") == 2
    assert (
        shown.count("mps") == shown.count("exclusive") == 10
    )  # two models; two loads of 64 and 512 words, one of 2,048
    assert shown.count("2 at a time") == 4
    assert shown.count("0.5 per second") == 2


@pytest.mark.parametrize("name", ["throughput", "latency"])
def test_no_text_lies_on_another_or_outside(name: str) -> None:
    root = parsed(two(), name)
    width, height = (float(root.get(side, "")) for side in ("width", "height"))
    boxes = []
    for text in root.iter(f"{SVG}text"):
        long = len(text.text or "") * svg.SIZE * 0.45
        left = float(text.get("x", "")) - {"middle": long / 2, "end": long}.get(text.get("text-anchor", ""), 0)
        below = float(text.get("y", ""))
        boxes.append((left, below - svg.SIZE + 2, left + long, below))
    assert all(left >= 0 and top >= 0 and right <= width and below <= height for left, top, right, below in boxes)
    bands = [rect for rect in root.iter(f"{SVG}rect") if rect.get("class") == "fill-band"]
    panels = sorted({(float(band.get("x", "")), float(band.get("width", ""))) for band in bands})
    assert panels
    for (left, long), (after, _) in itertools.pairwise([*panels, (width - EDGE, 0.0)]):
        assert left >= EDGE
        assert left + long <= after
    for one, other in itertools.combinations(boxes, 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1], (one, other)


def test_a_model_that_ran_only_alone_has_no_second_value() -> None:
    alone = summary(result("x", [run(["a"], steady("a", 100.0, 10.0))]))
    [figure] = draw([alone])
    assert figure.title == "Request latency alone and together"
    assert "1.1 → –" in words(ElementTree.fromstring(figure.drawing))


def test_an_axis_without_a_value_ends_at_one() -> None:
    assert [_limit([Line("a", mark, None)]) for mark in (None, Mark(0, 0, 0), Mark(1, 1, 7))] == [1, 1, 7]


def test_without_data_nothing_is_drawn() -> None:
    assert draw([summary(result("none", []))]) == []


@pytest.mark.parametrize("name", ["throughput", "latency"])
def test_a_screen_reader_gets_a_title_a_description_and_each_row(name: str) -> None:
    root = parsed(two(), name)
    ids = {element.get("id"): element.text for element in root if element.get("id")}
    assert root.get("role") == "img"
    named, described = (ids[key] for key in root.get("aria-labelledby", "").split())
    assert named
    assert described
    assert described.startswith(named)
    rows = [group.findtext(f"{SVG}title") for group in root.iter(f"{SVG}g")]
    assert rows
    assert all(": " in (row or "") for row in rows)


def test_the_description_of_the_throughput_has_its_values() -> None:
    root = parsed([summary(paced("mps", (20.0, 40.0, 50.0)))], "throughput")
    described = root.findtext(f"{SVG}desc") or ""
    assert "mps, a: 101 alone, 25.3 together; mps, b: 101 alone, 25.3 together." in described


def luminance(colour: str) -> float:
    """WCAG 2.2, relative luminance."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(part * weight for part, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("palette", [svg.LIGHT, svg.DARK])
def test_text_and_marks_can_be_read_in_light_and_dark(palette: dict[str, str]) -> None:
    for behind in ("paper", "band"):
        for name in ("ink", "quiet", "blue", "orange"):
            assert contrast(palette[name], palette[behind]) >= 4.5, name  # WCAG 2.2, 1.4.3; marks need 3 (1.4.11)


@given(st.floats(1e-6, 1e9), st.integers(3, 9))
def test_an_axis_has_round_steps_from_zero(limit: float, most: int) -> None:
    ticks = _ticks(limit, most)
    assert ticks[0] == 0
    assert 2 <= len(ticks) <= most + 1
    assert ticks[-1] <= limit * (1 + 1e-6)
    assert limit < ticks[-1] + ticks[1] * (1 + 1e-6)
    assert f"{ticks[1] / 10 ** math.floor(math.log10(ticks[1]) + 1e-9):.6f}" in ("1.000000", "2.000000", "5.000000")


def test_a_name_from_outside_stays_text_and_a_long_one_is_shortened() -> None:
    drawing = next(iter(draw([summary(printed("$a$<b>&\x1b[31m" + "x" * 99, 1.0, None))]))).drawing
    root = ElementTree.fromstring(drawing)
    assert any(text.startswith("$a$<b>&[31mxx") and text.endswith("…") for text in words(root))
    assert "$a$<b>&[31m" + "x" * 99 in (root.findtext(f"{SVG}desc") or "")
