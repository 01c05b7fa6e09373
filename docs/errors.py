"""The reference of errors: the answer to a stack file with each error of `errors.yaml`."""

import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from stacks.stack_file.judge import judge_file

ROOT = Path(__file__).resolve().parent.parent
HEAD = """# Errors

A stack file is checked in two stages: first the form of its keys and values, then the rules of GPUs, models and budget.
Nearly all errors of a stage are shown at once, and nothing is deployed. After errors of form, a hint says that the
rules come next. An unknown sharing `mode` hides errors of the
other keys of its `sharing`, and a wrong value hides conflicts between values. A limit of 0 or less in `budget` is an
error of the rules.

`tandem plan` and `pulumi up` show the same errors. An error starts with the key that is wrong, and ends with the fix.
`tandem plan --json` has the errors in `problems`.

[Exit codes and errors](exit-codes.md) has the errors of commands, and errors as JSON.

`make docs` writes the examples from the code. Each starts from the stack `dev` and changes the keys shown. For errors
of a deployment, see [troubleshoot](../how-to/troubleshoot.md).
"""


def document() -> str:
    """Every example with its answer."""
    rows = yaml.safe_load((ROOT / "docs" / "errors.yaml").read_text(encoding="utf-8"))
    return HEAD + "".join(line for row in rows for line in _example(row))


def _example(row: dict[str, Any]) -> Iterator[str]:
    changed = [f"{key}: {_flow(value)}" for key, value in row["change"].items()]
    yield "\n".join([f"\n## {row['title']}\n", "```yaml", *changed, "```", "", ""])
    said = [str(problem) for problem in problems(row["change"])]
    assert any(row["error"] in text for text in said), (row["title"], said)
    lines = [textwrap.fill(text, 78, subsequent_indent="    ", break_on_hyphens=False) for text in said]
    yield "\n".join(["```text", *lines, "```", ""])


def _flow(value: object) -> str:
    return yaml.safe_dump(value, default_flow_style=True, width=100).removesuffix("...\n").strip()


def problems(change: dict[str, Any]) -> Iterator[object]:
    """The problems of the stack `dev` after the change."""
    values = yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text(encoding="utf-8"))
    for section, content in change.items():
        key = section if section.startswith("aws:") else f"tandem:{section}"
        before = values["config"].get(key)
        merged = isinstance(content, dict) and isinstance(before, dict)
        values["config"][key] = {**before, **content} if merged else content
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "Pulumi.dev.yaml")
        path.write_text(yaml.safe_dump(values), encoding="utf-8")
        yield from judge_file(path).problems
