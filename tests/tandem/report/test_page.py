"""The report as one page: it loads nothing, and text from outside stays text."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from tandem.bench_results.result import Result
from tandem.bench_results.summary import summary
from tandem.report.command import name_models
from tandem.report.document import document
from tandem.report.figures import draw
from tandem.report.page import page
from tests.tandem.results import failed, mps, run, session

ATTACKS = (
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "</title><script>", "</style><b>", "--><b>",
    "&lt;b&gt;", "[x](javascript:alert(1))", "![x](http://evil.example/x.png)", "![x](latency.svg)", "<http://evil.example>",
    "| x | y |", "# x", "`</code><b>", '"onload="x', "{title}", "%(ink)s",
)  # fmt: skip
OURS = {
    "html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "h3", "p", "ul", "li", "strong", "code",
    "table", "thead", "tbody", "tr", "th", "td", "div", "svg", "desc", "rect", "line", "text", "g", "circle", "polygon",
}  # fmt: skip


class Reader(HTMLParser):
    """The page as a browser reads it: tags, attributes, text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def written(result: Result) -> str:
    named = name_models(result)
    shown = [summary(named)]
    figures = draw(shown)
    return page(document([named], shown, figures), figures)


def hostile(text: str) -> Result:
    servers = [
        replace(one, model=f"{text} {one.id}", ollama=text, quantization=text, parameter_size=text)
        for one in mps().servers
    ]
    call = session("x", servers=servers, command=["tandem", text], versions={"tandem": text})
    spoiled = run(["a"], [replace(failed(), error=text), *mps().runs[0].rows], repeat=4)
    return replace(mps(sessions=[call], runs=[*mps().runs, spoiled]), label=text, ended=text)


@pytest.mark.parametrize("text", ATTACKS)
def test_text_from_outside_makes_no_tag_and_asks_for_nothing(text: str) -> None:
    seen = Reader(written(hostile(text)))
    assert set(seen.tags) <= OURS
    harmless = Reader(written(hostile("x")))
    assert seen.tags == harmless.tags
    assert {name for name, _ in seen.attributes} == {name for name, _ in harmless.attributes}
    assert seen.text.count(text.replace("`", "'")) + seen.text.count(text) >= 3


def test_a_page_needs_nothing_but_itself() -> None:
    """CSP level 3: with `default-src 'none'` a browser loads nothing; and there is nothing to load."""
    text = written(mps())
    assert "content=\"default-src 'none'; style-src 'unsafe-inline'\"" in text
    seen = Reader(text)
    assert {name for name, _ in seen.attributes} & {"src", "href", "srcset", "data", "action"} == set()
    assert not re.search(r"url\(|@import", text)
    assert "http" not in text.replace('xmlns="http://www.w3.org/2000/svg"', "").replace("http-equiv", "")


def test_a_page_has_the_figures_and_all_words_of_the_document() -> None:
    seen = Reader(written(mps()))
    assert seen.tags.count("svg") == 2
    assert "Cost of sharing" in seen.text
    assert "llama2:7b and mistral:7b: mps" in seen.text
    ids = [value for name, value in seen.attributes if name == "id"]
    assert len(ids) == len(set(ids)) == 4


def test_html_in_the_document_is_text_even_if_nothing_escaped_it() -> None:
    seen = Reader(page("# <b>t</b>\n\n<script>x</script> [y](javascript:z)\n", []))
    assert {"script", "b", "a"} & set(seen.tags) == set()
    assert "<script>x</script>" in seen.text
