"""Stack files and the output of commands, as the documents show them."""

import contextlib
import io
import os
import re
import tempfile
import textwrap
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from tandem.main import main

ROOT = Path(__file__).resolve().parent.parent
# As in tests/shipped.py.
STACKS = re.findall(r"^!/Pulumi\.(.+)\.yaml$", (ROOT / ".gitignore").read_text(encoding="utf-8"), re.MULTILINE)
WIDTH = 80
AGE = re.compile(r", \d[\d,]* days ago| \(\d[\d,]* days ago\)")
"""The age grows every day, so a document leaves it out."""


def plan(stack: str) -> str:
    """The screen of `tandem plan` at 80 columns, as a code block."""
    code, said = run(["plan", stack])
    assert code == 0, said
    return "\n".join(["```text", *folded(said), "```", ""])


def folded(said: str) -> list[str]:
    """The lines of a screen; those that a pipe gets unfolded are folded at 80 columns."""
    lines = [line.rstrip() for line in said.splitlines()]
    return [one for line in lines for one in _fold(line)]


def _fold(line: str) -> list[str]:
    return textwrap.wrap(line, WIDTH, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False) or [""]


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
        _, said = run(["plan", "large"], Path(folder))
    return "\n".join(["```text", *folded(said), "```", ""])


def run(arguments: Sequence[str], folder: Path = ROOT) -> tuple[int, str]:
    """Exit code and output of `tandem` in a folder, at 80 columns and without colours."""
    said = io.StringIO()
    with (
        mock.patch.dict(os.environ, {"COLUMNS": f"{WIDTH}", "NO_COLOR": "1"}),
        # A busy machine prints the same as an idle one: no progress messages.
        mock.patch("tandem.terminal.PATIENCE_SECONDS", 10_000.0),
        contextlib.chdir(folder),
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
    ):
        code = main(arguments)
    return code, AGE.sub("", said.getvalue())
