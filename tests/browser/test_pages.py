"""The documentation site in a browser, at the width of a desktop and of a phone, and its strict build."""

import json
from urllib.parse import quote
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
DESKTOP = 1280
WIDTHS = (DESKTOP, 390)
CUT = """[...document.querySelectorAll('.md-typeset__scrollwrap')].filter(
  box => box.scrollWidth > box.clientWidth).length"""
"""The number of tables with columns that are cut off."""


@pytest.mark.parametrize("page", PAGES)
def test_a_page_neither_scrolls_sideways_nor_has_errors_nor_asks_another_host(
    browser: Browser, site: str, page: str
) -> None:
    """On a phone, a wide table scrolls in its own box. A desktop shows all of its columns."""
    for width in WIDTHS:
        found = browser.visit(f"{site}/{page}", width=width)
        assert (found.width, found.broken, found.errors) == (width, [], [])
        assert width < DESKTOP or browser.evaluate(CUT) == 0
        assert [url for url in found.requested if not url.startswith((site, "data:"))] == []


def test_a_desktop_shows_the_plan_on_the_home_page_in_full(browser: Browser, site: str) -> None:
    browser.visit(f"{site}/index.html", width=1280)
    code = "document.querySelector('.grid.plan code')"
    assert browser.evaluate(f"{code}.innerText.includes('Cost per hour')")
    assert browser.evaluate(f"{code}.scrollWidth <= {code}.clientWidth")


def test_the_picture_follows_the_colour_scheme(browser: Browser, site: str) -> None:
    pictures = "[...document.images].filter(one => one.offsetWidth && /architecture/.test(one.src))"
    shown = f"{pictures}.map(one => one.src.split('/').pop()).join()"
    for dark, name in ((False, "architecture-light.svg#only-light"), (True, "architecture-dark.svg#only-dark")):
        browser.visit(f"{site}/index.html", width=1280, dark=dark)
        assert browser.evaluate(shown) == name


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("park", "how-to/park-at-night.html"),
        ("max-usd-per-month", "reference/stack-file.html"),
        ("tandem leftovers", "reference/cli.html"),
    ],
)
def test_search_finds_the_page_that_a_reader_wants_without_another_host(
    browser: Browser, site: str, query: str, first: str
) -> None:
    found = browser.visit(f"{site}/index.html?q={quote(query)}", width=1280)
    link = "document.querySelector('.md-search-result__link')"
    browser.evaluate("document.querySelector('.md-search__input').focus()")
    browser.wait_for(link)
    page = browser.evaluate(f"{link}.href").partition("?")[0]
    assert page == f"{site}/{first}"
    assert found.errors == []


def test_the_first_answer_to_nvidia_smi_names_tandem_watch(browser: Browser, site: str) -> None:
    browser.visit(f"{site}/index.html?q=nvidia-smi", width=1280)
    result = "document.querySelector('.md-search-result__item')"
    browser.evaluate("document.querySelector('.md-search__input').focus()")
    browser.wait_for(result)
    assert "tandem watch" in browser.evaluate(f"{result}.innerText")


def test_the_search_leaves_the_decisions_out(site: str) -> None:
    with urlopen(f"{site}/search/search_index.json") as answer:
        found = {entry["location"].partition("#")[0] for entry in json.load(answer)["docs"]}
    written = {page for page in PAGES if not page.startswith("decisions/")}
    assert found == written
