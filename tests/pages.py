"""The commands of the README and the tutorials, as readers copy them."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TUTORIALS = ROOT / "docs" / "tutorials"
PAGES = (ROOT / "README.md", *sorted(TUTORIALS.glob("*.md")))
BLOCK = re.compile(r"(?:^\*Not tested: (?P<reason>.+)\.\*\n\n)?^```(?P<head>.*)\n(?P<text>(?s:.*?))^```$", re.MULTILINE)
INSTALLS = "python3 -m venv"
"""How a block begins that `tests/wheel/test_install_line.py` runs in a fresh clone."""
STAND_INS = ("tandem doctor", "tandem verify", "tandem run", "tandem leftovers")
"""What needs an account or a cluster: `tests/tandem/test_pages.py` runs it against stand-ins for them."""


EXIT_CODE = re.compile(r"# exit code (\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of code in a page."""

    head: str
    """The text after the backticks: none for commands."""
    text: str
    reason: str | None
    """Why a test does not run it; None where one does."""

    def run(self, folder: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        """Runs the commands in a shell; fails unless they end with the exit code that the block names, or 0."""
        [code] = EXIT_CODE.findall(self.text) or ["0"]
        command = ["bash", "-e", "-c", self.text]
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == int(code), f"{self.text}{done.stdout}{done.stderr}"
        return done


@cache
def blocks(page: Path) -> list[Block]:
    """Every block of code, in order."""
    found = BLOCK.finditer(page.read_text(encoding="utf-8"))
    return [Block(one["head"], one["text"], one["reason"]) for one in found]


def lines(block: Block) -> list[str]:
    """The commands of a block: those of a terminal's copy begin with a prompt."""
    text = block.text.replace("\\\n", "")
    found = re.findall(r"^\$ (.+)$", text, flags=re.MULTILINE) if block.head == "console" else text.splitlines()
    return [line for line in found if line]


def commands(page: Path) -> list[Block]:
    """The blocks of commands that a test runs in a shell."""
    shown = [block for block in blocks(page) if not block.head and block.reason is None]
    return [block for block in shown if not block.text.startswith((INSTALLS, *STAND_INS))]


def with_stand_ins() -> list[list[str]]:
    """The lines of the tutorials that ask an account or a cluster, as words; those of the README name another stack."""
    lines = [line for page in PAGES[1:] for block in blocks(page) if not block.head for line in block.text.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith(STAND_INS)]


def environment() -> dict[str, str]:
    """The environment of a reader after `source .venv/bin/activate`."""
    path = os.pathsep.join((str(Path(sys.prefix) / "bin"), os.environ["PATH"]))
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}
