"""Stack files and the output of commands, as the documents show them."""

import os
import re
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
AGE = re.compile(r", \d[\d,]* days ago")
"""The age grows every day, so a document leaves it out."""


def plan(stack: str) -> str:
    """The screen of `tandem plan` at 80 columns, as a code block."""
    done = _run_plan(stack)
    done.check_returncode()
    lines = [line.rstrip() for line in AGE.sub("", done.stdout).splitlines()]
    return "\n".join(["```text", *lines, "```", ""])


def stack_file(stack: str) -> str:
    """A shipped stack file as a code block, without the line for editors."""
    _, rest = (ROOT / f"Pulumi.{stack}.yaml").read_text(encoding="utf-8").split("\n", 1)
    return f"```yaml\n{rest}```\n"


def refusal() -> str:
    """The answer of `tandem plan` to the stack file of the first tutorial, folded at 80 columns."""
    tutorial = (ROOT / "docs" / "tutorials" / "first-plan.md").read_text(encoding="utf-8")
    _, _, rest = tutorial.partition("cat > Pulumi.large.yaml <<'END'\n")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "Pulumi.large.yaml").write_text(rest.partition("END\n")[0], encoding="utf-8")
        said = AGE.sub("", _run_plan("large", Path(folder)).stdout).splitlines()
    lines = [textwrap.fill(line, 80, subsequent_indent="    ", break_on_hyphens=False) for line in said]
    return "\n".join(["```text", *lines, "```", ""])


def _run_plan(stack: str, folder: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    env = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "PYTHONUTF8": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tandem", "plan", stack]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, encoding="utf-8", check=False)
