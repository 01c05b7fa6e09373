"""`python -m tests.browser`: writes the screenshots of docs/how-to/work-on-the-documentation.md."""

import sys
import tempfile
from pathlib import Path

from tests.browser.chromium import VARIABLE, find_browser, opened_browser
from tests.browser.site import ROOT, build, served

SHOTS = {
    "site-desktop.webp": ("index.html", 1280, 800, False),
    "site-phone.webp": ("tutorials/first-plan.html", 390, 800, True),
}


def main() -> int:
    """Builds the site and photographs two pages; returns the exit code."""
    program = find_browser()
    if program is None:
        print(f"error: no browser was found. Set {VARIABLE} to one.", file=sys.stderr)
        return 1
    for name in SHOTS:
        (ROOT / "docs" / "assets" / name).touch()  # the build fails on an image that is missing
    with tempfile.TemporaryDirectory() as folder:
        done = build(Path(folder, "site"))
        if done.returncode:
            print(done.stderr, file=sys.stderr)
            return 1
        with served(Path(folder, "site")) as address, opened_browser(program, Path(folder, "profile")) as browser:
            for name, (page, width, height, dark) in SHOTS.items():
                browser.visit(f"{address}/{page}", width=width, height=height, dark=dark)
                (ROOT / "docs" / "assets" / name).write_bytes(browser.screenshot())
    return 0


if __name__ == "__main__":
    sys.exit(main())
