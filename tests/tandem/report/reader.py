"""A report as a browser reads it: its tags, its attributes and its text."""

from collections.abc import Sequence
from html.parser import HTMLParser

from tandem.bench_results.result import Result
from tandem.bench_results.summary import Goals, summary
from tandem.report.command import name_models
from tandem.report.document import document

LINES = {"h1", "h2", "h3", "p", "li", "tr", "dt"}
"""Tags that begin a line."""
UNSEEN = {"svg", "style", "title"}


class Reader(HTMLParser):
    """`lines` is the text, without that of figures: a line for each paragraph and each row of a table."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.lines: list[str] = []
        self.open: list[str] = []
        """Tags that have not ended."""
        self.tables: list[list[int]] = []
        """The number of cells in each row of each table."""
        self._unseen: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag != "meta":
            self.open.append(tag)
        self.attributes += attrs
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append(0)
        elif tag in ("td", "th"):
            self.tables[-1][-1] += 1
        if tag in UNSEEN:
            self._unseen.append(tag)
        elif self._unseen:
            return
        elif tag in LINES:
            self.lines.append({"h1": "# ", "h2": "## ", "h3": "### ", "li": "- "}.get(tag, ""))
        elif tag in ("td", "th"):
            self.lines[-1] += "| "
        elif tag == "dd":
            self.lines[-1] += ": "

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if self._unseen[-1:] == [tag]:
            self._unseen.pop()
        elif tag in ("td", "th") and not self._unseen:
            self.lines[-1] += " "

    def handle_data(self, data: str) -> None:
        self.text += data
        if not self._unseen and data.strip():
            self.lines[-1] += data

    def below(self, title: str) -> list[str]:
        """The lines of the part with this title."""
        first = self.lines.index(f"## {title}") + 1
        after = [number for number, line in enumerate(self.lines) if number > first and line.startswith("## ")]
        return self.lines[first : after[0] if after else None]


def page(*results: Result, goals: Goals | None = None) -> str:
    """The page that `tandem report` writes."""
    named: Sequence[Result] = [name_models(result) for result in results]
    return document(named, [summary(result, goals) for result in named], goals)


def read(*results: Result, goals: Goals | None = None) -> Reader:
    """The same as its reader sees it."""
    return Reader(page(*results, goals=goals))
