"""The stack files that this project ships. A user has files of their own beside them, which no test may read."""

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STACKS = tuple(re.findall(r"^!/Pulumi\.(.+)\.yaml$", (ROOT / ".gitignore").read_text(encoding="utf-8"), re.MULTILINE))
"""Their names, as git tracks them: it ignores all others."""
FILES = tuple(ROOT / f"Pulumi.{stack}.yaml" for stack in STACKS)


def copy_project(folder: Path) -> None:
    """Copies Pulumi.yaml and the shipped stack files, as in a fresh clone."""
    for file in (ROOT / "Pulumi.yaml", *FILES):
        shutil.copy(file, folder)
