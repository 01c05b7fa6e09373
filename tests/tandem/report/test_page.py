"""The report as one page: it loads nothing, and text from outside stays text."""

import re
from dataclasses import replace
from functools import cache

import pytest

from tandem.bench_results.foreign.load_point import LoadPoint
from tandem.bench_results.result import Result
from tandem.bench_results.summary import Goals, summary
from tandem.report.command import name_models
from tandem.report.document import document
from tests.tandem.report.reader import Reader, page
from tests.tandem.report.test_figures import printed
from tests.tandem.results import failed, mps, run, session, timed

ATTACKS = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "</title><script>", "</style><b>", "--><b>",
    "&lt;b&gt;", "[x](javascript:alert(1))", "![x](http://evil.example/x.png)", "![x](latency.svg)", "<http://evil.example>",
    "| x | y |", "# x", "`</code><b>", '"onload="x', "{title}", "%(ink)s",
)  # fmt: skip
OURS = {
    "html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "h3", "p", "ul", "li", "dl", "dt", "dd",
    "strong", "code", "table", "tr", "th", "td", "div", "svg", "desc", "rect", "line", "text", "g", "circle", "polygon",
}  # fmt: skip


def hostile(text: str) -> Result:
    servers = [
        replace(one, model=f"{text} {one.id}", ollama=text, quantization=text, parameter_size=text)
        for one in mps().servers
    ]
    call = session("x", servers=servers, command=["tandem", text], versions={"tandem": text})
    spoiled = run(["a"], [replace(failed(), error=text), *mps().runs[0].rows], repeat=4)
    return replace(mps(sessions=[call], runs=[*mps().runs, spoiled]), label=text, ended=text)


@cache
def read_harmless() -> Reader:
    return Reader(page(hostile("x")))


@pytest.mark.parametrize("text", ATTACKS)
def test_text_from_outside_makes_no_tag_and_asks_for_nothing(text: str) -> None:
    seen = Reader(page(hostile(text)))
    assert set(seen.tags) <= OURS
    harmless = read_harmless()
    assert seen.tags == harmless.tags
    assert {name for name, _ in seen.attributes} == {name for name, _ in harmless.attributes}
    assert seen.text.count(text) >= 3


def test_a_page_needs_nothing_but_itself() -> None:
    """CSP level 3: with `default-src 'none'` a browser loads nothing; and there is nothing to load."""
    text = page(mps())
    assert "content=\"default-src 'none'; style-src 'unsafe-inline'\"" in text
    seen = Reader(text)
    assert {name for name, _ in seen.attributes} & {"src", "href", "srcset", "data", "action"} == set()
    assert not re.search(r"url\(|@import", text)
    assert "http" not in text.replace('xmlns="http://www.w3.org/2000/svg"', "").replace("http-equiv", "")


def test_every_cell_of_a_table_has_a_title() -> None:
    point = LoadPoint(
        file="f", tool="t", label="", model=None, at_a_time=1, per_second=None, sent=1, answered=1, failed=0,
        tokens_per_s=1.0, ttft_p50_ms=1.0, ttft_p95_ms=1.0, itl_p50_ms=1.0,
    )  # fmt: skip
    named = name_models(timed(printed("mps", 1.0, 0.5), 40.0))
    goals = Goals(120.0, 50.0)
    seen = Reader(document([named], [summary(named, goals)], goals, others=[point]))
    assert len(seen.tables) >= 6
    assert [rows for rows in seen.tables if len(set(rows)) != 1 or len(rows) < 2] == []


def test_a_page_has_the_figures_and_all_words_of_the_document() -> None:
    seen = Reader(page(mps()))
    assert seen.open == []
    assert seen.tags.count("svg") == 2
    assert "Cost of sharing, at equal load" in seen.text
    assert "llama2:7b and mistral:7b: mps" in seen.text
    ids = [value for name, value in seen.attributes if name == "id"]
    assert len(ids) == len(set(ids)) == 4
