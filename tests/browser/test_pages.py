"""The documentation site in a browser, at the width of a desktop and of a phone, and its strict build."""

import json
from urllib.request import urlopen

import pytest

from tests.browser.chromium import Browser
from tests.browser.site import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(
    str(page.relative_to(DOCS).with_suffix(".html")).replace("README", "index")
    for page in DOCS.glob("**/*.md")
    if not page.name.startswith("0") or page.name.startswith("0151")
)
"""Every page; of the decisions, which look alike, one."""
WIDTHS = (1280, 390)


@pytest.mark.parametrize("page", PAGES)
def test_a_page_neither_scrolls_sideways_nor_has_errors_nor_asks_another_host(
    browser: Browser, site: str, page: str
) -> None:
    for width in WIDTHS:
        found = browser.visit(f"{site}/{page}", width=width)
        assert (found.width, found.broken, found.errors) == (width, [], [])
        assert [url for url in found.requested if not url.startswith((site, "data:"))] == []


def test_the_picture_follows_the_colour_scheme(browser: Browser, site: str) -> None:
    shown = "[...document.images].filter(one => one.offsetWidth).map(one => one.src.split('/').pop()).join()"
    for dark, name in ((False, "architecture-light.svg#only-light"), (True, "architecture-dark.svg#only-dark")):
        browser.visit(f"{site}/index.html", width=1280, dark=dark)
        assert browser.evaluate(shown) == name


def test_search_finds_a_page_without_another_host(browser: Browser, site: str) -> None:
    found = browser.visit(f"{site}/index.html?q=MPS", width=1280)
    link = "document.querySelector('.md-search-result__link')"
    browser.evaluate("document.querySelector('.md-search__input').focus()")
    browser.wait_for(link)
    result = browser.evaluate(f"{link}.href")
    assert result.startswith(site)
    assert found.errors == []


def test_the_search_leaves_the_decisions_out(site: str) -> None:
    with urlopen(f"{site}/search/search_index.json") as answer:
        found = {entry["location"].partition("#")[0] for entry in json.load(answer)["docs"]}
    written = {page for page in PAGES if not page.startswith("decisions/")}
    assert found == written
