"""`python -m tests.browser`: writes the screenshots of the documentation.

They are those of docs/how-to/work-on-the-documentation.md, and of chat-in-a-browser.md if Open WebUI is installed. With
`--pages FOLDER`, it photographs each kind of page there instead, at both widths and in both colour schemes.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.browser import chat_page
from tests.browser.chromium import VARIABLE, Browser, find_browser, opened_browser
from tests.browser.site import ROOT, build, served

SHOTS = {
    "site-desktop.webp": ("index.html", 1280, 800, False),
    "site-phone.webp": ("tutorials/first-plan.html", 390, 800, True),
}
KINDS = {
    "home": "index.html",
    "guides": "how-to/index.html",
    "guide": "how-to/verify-a-stack.html",
    "recipe": "recipes/rag.html",
    "commands": "reference/cli.html",
    "stack-file": "reference/stack-file.html",
    "sharing-modes": "reference/sharing-modes.html",
    "components": "reference/components.html",
    "decision": "decisions/0151-material-for-mkdocs.html",
    "not-found": "404.html",
}
"""A page of each kind."""
ASSETS = ROOT / "docs" / "assets"
CHAT_PAGE = "chat-page.webp"
SIZES = ((1280, 900), (390, 844))
"""Windows of a desktop and of a phone."""


def main() -> int:
    """Photographs pages of the site, and the chat page; returns the exit code."""
    program = find_browser()
    if program is None:
        print(f"error: no browser was found. Set {VARIABLE} to one.", file=sys.stderr)
        return 1
    arguments = argparse.ArgumentParser(prog="python -m tests.browser")
    arguments.add_argument("--pages", type=Path, metavar="FOLDER")
    pages: Path | None = arguments.parse_args().pages
    for name in (*SHOTS, CHAT_PAGE):
        (ASSETS / name).touch()  # the build fails on an image that is missing
    with tempfile.TemporaryDirectory() as folder:
        done = build(Path(folder, "site"))
        if done.returncode:
            print(done.stderr, file=sys.stderr)
            return 1
        with served(Path(folder, "site")) as address, opened_browser(program, Path(folder, "profile")) as browser:
            if pages:
                photograph_pages(browser, address, pages)
                return 0
            for name, (page, width, height, dark) in SHOTS.items():
                browser.visit(f"{address}/{page}", width=width, height=height, dark=dark)
                (ASSETS / name).write_bytes(browser.screenshot())
            if open_webui := chat_page.find_program():
                photograph_chat_page(browser, open_webui, Path(folder))
    return 0


def photograph_pages(browser: Browser, address: str, folder: Path) -> None:
    """A page of each kind, as `KIND-WIDTH-SCHEME.png`."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind, page in KINDS.items():
        for width, height in SIZES:
            for dark in (False, True):
                browser.visit(f"{address}/{page}", width=width, height=height, dark=dark)
                name = f"{kind}-{width}-{'dark' if dark else 'light'}.png"
                (folder / name).write_bytes(browser.screenshot("png"))


def photograph_chat_page(browser: Browser, program: str, folder: Path) -> None:
    """The page after logging in, with the list of models open."""
    with chat_page.running(program, folder) as page:
        browser.visit(page.url, width=1280, height=720)
        page.log_in_with(browser)
        browser.wait_for("document.querySelector('#model-selector-model-button')")
        browser.evaluate("document.querySelector('#model-selector-model-button').click()")
        browser.wait_for("document.body.innerText.includes('mistral:7b')")
        (ASSETS / CHAT_PAGE).write_bytes(browser.screenshot())


if __name__ == "__main__":
    sys.exit(main())
