"""The stack file that the README shows: tests plan, raise and compare exactly that text."""

import re
from pathlib import Path
from typing import Any

import yaml

README = Path(__file__).resolve().parent.parent / "README.md"


def stack_file() -> str:
    """The text of the README's stack file with several pools."""
    [text] = re.findall(r"```yaml\n(config:\n.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    return str(text)


def sections() -> dict[str, Any]:
    """Its sections, by their names without `tandem:`."""
    values = yaml.safe_load(stack_file())["config"]
    return {key.removeprefix("tandem:"): value for key, value in values.items()}
