"""The stack file of the guide to several pools: tests plan, deploy and compare exactly this file."""

import re
from pathlib import Path
from typing import Any

import yaml

GUIDE = Path(__file__).resolve().parent.parent / "docs" / "how-to" / "use-several-pools.md"


def stack_file() -> str:
    """The text of its stack file."""
    [text] = re.findall(r"```yaml\n(config:\n.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)
    return str(text)


def sections() -> dict[str, Any]:
    """Its sections, by their names without `tandem:`."""
    values = yaml.safe_load(stack_file())["config"]
    return {key.removeprefix("tandem:"): value for key, value in values.items()}
