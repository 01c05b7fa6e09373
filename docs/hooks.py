"""What mkdocs.yml cannot say about single pages. MkDocs calls it (`hooks` in mkdocs.yml).

Front matter in the pages would do the same, but GitHub shows it as a table above the title.
"""

from typing import Any

HOME = "index.md"


def on_page_markdown(markdown: str, page: Any, **_: object) -> None:
    """Takes the decisions, half of all words, out of the search. Gives the home page the whole width."""
    if page.file.src_uri.startswith("decisions/"):
        page.meta["search"] = {"exclude": True}
    elif page.file.src_uri == HOME:
        page.meta["hide"] = ["navigation", "toc"]
