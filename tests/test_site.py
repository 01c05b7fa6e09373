"""The navigation of the documentation site, and the pages that list the same."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
sys.path.append(str(DOCS))  # `mkdocs` loads its hooks from there by path
import hooks  # noqa: E402

NAV: list[dict[str, Any]] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
TABS: dict[str, Any] = {title: content for entry in NAV for title, content in entry.items()}
MOST_IN_A_GROUP = 8
"""Lines that a reader takes in at a glance."""


def pages(content: object) -> Iterator[str]:
    """The pages of a part of the navigation, in order."""
    if isinstance(content, str):
        yield content
    for inner in content if isinstance(content, list) else content.values() if isinstance(content, dict) else ():
        yield from pages(inner)


def groups(tab: str) -> dict[str, list[str]]:
    """The groups of a tab with their pages, without the tab's own page."""
    [first, *others] = TABS[tab]
    assert first == f"{Path(first).parent}/index.md"
    return {title: list(pages(content)) for group in others for title, content in group.items()}


def test_the_index_of_guides_has_the_groups_and_pages_of_the_navigation() -> None:
    text = (DOCS / "how-to" / "index.md").read_text(encoding="utf-8")
    [_, *sections] = re.split(r"^## ", text, flags=re.MULTILINE)
    listed = {
        section.partition("\n")[0]: [f"how-to/{name}" for name in re.findall(r"^- \[.+?\]\((\S+?)\)", section, re.M)]
        for section in sections
    }
    assert listed == groups("How-to guides")
    assert list(listed) == list(groups("How-to guides"))


def test_no_group_of_pages_is_a_long_list() -> None:
    for tab in ("How-to guides", "Reference", "Explanation"):
        assert max(len(each) for each in groups(tab).values()) <= MOST_IN_A_GROUP


def test_every_page_is_in_the_navigation_once_but_for_the_decisions() -> None:
    named = list(pages(NAV))
    written = [str(path.relative_to(DOCS)) for path in DOCS.glob("**/*.md")]
    assert sorted(named) == sorted(name for name in written if not name.startswith("decisions/"))


def test_the_decisions_can_be_reached_from_a_page_of_the_navigation() -> None:
    assert "(../decisions/README.md)" in (DOCS / "explanation" / "index.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("path", "meta", "added"),
    [
        ("decisions/0151-x.md", {"search": {"exclude": True}}, "\n\n[All decisions](README.md)\n"),
        ("decisions/README.md", {"search": {"exclude": True}}, ""),
        ("how-to/upgrade.md", {"search": {"boost": 4}}, ""),
        ("reference/real-world-behaviours.md", {"search": {"boost": 0.5}, "hide": ["toc"]}, ""),
        ("reference/cli.md", {}, ""),
        ("index.md", {"hide": ["navigation", "toc"]}, ""),
    ],
)
def test_pages_have_their_place_in_search_and_their_side_bars(path: str, meta: dict[str, Any], added: str) -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri=path), meta={})
    assert hooks.on_page_markdown("# Text", page) == f"# Text{added}"
    assert page.meta == meta


@pytest.mark.parametrize(
    ("html", "shown"),
    [
        ("<p><code>short/name</code></p>", "<p><code>short/name</code></p>"),
        (
            "<p><code>--mode {exclusive,timeslice,mps}</code></p>",
            '<p><code class="long">--mode {exclusive,<wbr>timeslice,<wbr>mps}</code></p>',
        ),
        ("<pre><code>a/long/line/of/a/block/of/code\n</code></pre>", None),
        ("<td>one/two/three/four_five/it</td>", "<td>one/<wbr>two/<wbr>three/<wbr>four_<wbr>five/<wbr>it</td>"),
        ("<p>a/long/path/to/a/test_of_it.py</p>", None),
        ('<td><a href="https://a.example/long/path/to/it">a page</a></td>', None),
    ],
)  # fmt: skip
def test_only_what_is_long_may_break_after_a_separator(html: str, shown: str | None) -> None:
    assert hooks.on_page_content(html) == (html if shown is None else shown)
