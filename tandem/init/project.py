"""The project around a stack file: in an empty folder, the files that `pulumi` needs to run the program."""

import json
import sys
from pathlib import Path

import yaml

from sharing.names import PROJECT
from stacks import stack_file
from stacks.stack_file import schema
from tandem.terminal import CallError

PROGRAM = f"{stack_file.__name__.removesuffix('.stack_file')}.program"
"""The module of the program: the wheel has it below `tandem`."""


def missing_files(folder: Path) -> dict[Path, str]:
    """What `folder` lacks to be a project, by path; raises `CallError` where it is the project of another program."""
    description = folder / "Pulumi.yaml"
    if description.is_file():
        _require_ours(description)
        return {}
    program = folder / "__main__.py"
    if program.exists():
        raise CallError(f"{program} exists, but no Pulumi.yaml. Use an empty folder or a project of tandem.")
    return {
        description: yaml.safe_dump({"name": PROJECT, "runtime": _runtime(folder)}),
        program: f'"""The Pulumi program: `pulumi up`."""\n\nfrom {PROGRAM} import run\n\nrun()\n',
        folder / schema.FILE: json.dumps(schema.stack_schema()) + "\n",
    }


def _require_ours(description: Path) -> None:
    try:
        project = yaml.safe_load(description.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise CallError(f"{description} cannot be read. Correct it, or use an empty folder.") from error
    name = project.get("name") if isinstance(project, dict) else None
    if name != PROJECT:
        raise CallError(f"{description} is of the project `{name}`, not `{PROJECT}`. Use an empty folder.")


def _runtime(folder: Path) -> object:
    """How `pulumi` finds this Python: a virtual environment within the folder, or the one that is active."""
    environment = Path(sys.prefix)
    if sys.prefix == sys.base_prefix or not environment.is_relative_to(folder):
        return "python"
    return {"name": "python", "options": {"toolchain": "pip", "virtualenv": str(environment.relative_to(folder))}}
