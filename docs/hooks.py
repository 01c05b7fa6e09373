"""What mkdocs.yml cannot say about single pages. MkDocs calls it (`hooks` in mkdocs.yml).

Front matter in the pages would do the same, but GitHub shows it as a table above the title.
"""

import re
from typing import Any

LONG = re.compile(r"<code>([^<\n]{25,})</code>")
"""Inline code that may not fit into a line or a column."""
CELL = re.compile(r"<td.*?</td>", re.DOTALL)
WORD = re.compile(r"(?<![^\s>])[^\s<>\"=]{25,}(?![^\s<])")
"""Text of a cell that would make its column wide: an address, or the name of a test."""
PLACES = re.compile(r"(?<=[/,_:])(?=\w)")
"""Where both may break."""

BACK = "\n\n[All decisions](README.md)\n"
"""The link on a page that is not in the navigation."""
BOOSTS = {
    "how-to/": 4,
    "recipes/": 2,
    "tutorials/": 2,
    "explanation/": 2,
    "reference/emulation": 0.5,
    "reference/real-world": 0.5,
}
BOOSTS |= {"benchmarks/": 0.5, "reference/changes": 0.5}
"""How the search weighs pages, by the start of their paths: guides first, tables of tests and figures last."""
HIDDEN = {
    "index.md": ["navigation", "toc"],
    # Wide tables, and hardly a heading.
    "reference/real-world-behaviours.md": ["toc"],
    "reference/sharing-modes.md": ["toc"],
}
"""Side bars that a page does without, so that its content gets the whole width."""


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Takes the decisions, half of all words, out of the search, and side bars out of single pages."""
    path = page.file.src_uri
    if path.startswith("decisions/"):
        page.meta["search"] = {"exclude": True}
    for start, boost in BOOSTS.items():
        if path.startswith(start):
            page.meta["search"] = {"boost": boost}
    if path.startswith("decisions/0"):
        markdown += BACK
    if hidden := HIDDEN.get(path):
        page.meta["hide"] = hidden
    return markdown


def on_page_content(html: str, **_: object) -> str:
    """Lets what is long break after a separator, and not within a word."""
    html = LONG.sub(lambda found: f'<code class="long">{_with_places(found[1])}</code>', html)
    return CELL.sub(lambda cell: WORD.sub(lambda word: _with_places(word[0]), cell[0]), html)


def _with_places(text: str) -> str:
    return PLACES.sub("<wbr>", text)
