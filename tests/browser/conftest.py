"""One browser and one site for all tests."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.chromium import NAMES, VARIABLE, Browser, find_browser, opened_browser
from tests.browser.site import build, served


@pytest.fixture(scope="session")
def generator() -> None:
    """Skips where what builds the site is not installed."""
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip("mkdocs is not installed; `make site` installs it")


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Skips where there is no browser."""
    program = find_browser()
    if program is None:
        pytest.skip(f"no browser: set {VARIABLE}, or put one of these on the PATH: {', '.join(NAMES)}")
    with opened_browser(program, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="session")
def site(generator: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the built site."""
    folder: Path = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stderr
    with served(folder) as address:
        yield address
