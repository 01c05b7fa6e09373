"""What commands print, as the documents show it."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
AGE = re.compile(r", \d[\d,]* days ago")
"""Grows every day, so a document leaves it out."""


def plan(stack: str) -> str:
    """The screen of `tandem plan` at 80 columns, as a code block."""
    env = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "PYTHONUTF8": "1"}
    command = [sys.executable, "-m", "tandem", "plan", stack]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, encoding="utf-8", check=True)
    lines = [line.rstrip() for line in AGE.sub("", done.stdout).splitlines()]
    return "\n".join(["```text", *lines, "```", ""])
