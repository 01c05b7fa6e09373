"""A project with a stub `pulumi` whose output a test defines, and nothing else on the PATH."""

import shutil
from pathlib import Path

import pytest


def bare_project(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the folder a project, and leaves only what shells need on the PATH."""
    (folder / "Pulumi.yaml").write_text("name: tandem\n")
    (folder / "bin").mkdir()
    for program in ("sh", "cat"):
        (folder / "bin" / program).symlink_to(shutil.which(program) or "")
    monkeypatch.setenv("PATH", str(folder / "bin"))


def pulumi(project: Path, *, prints: str = "", says: str = "", code: int = 0) -> None:
    """Puts a `pulumi` on the PATH that prints this and notes how it was called."""
    (project / "out").write_text(prints)
    (project / "err").write_text(says)
    script = project / "bin" / "pulumi"
    script.write_text(
        f'#!/bin/sh\necho "$PWD $*" >{project}/called\ncat {project}/out\ncat {project}/err >&2\nexit {code}\n'
    )
    script.chmod(0o755)
