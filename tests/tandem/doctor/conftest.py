"""A case for each test: an emulated account, and a machine with programs that a test defines."""

import datetime
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from stacks.stack_file.judge import judge_file
from tandem.doctor.case import Case, Stack
from tandem.dry_run.program import run
from tests.tandem.aws.conftest import cleaning, creation, emulated, requests
from tests.tandem.aws.creation import Creation
from tests.tandem.aws.emulated import REGION, Emulated
from tests.tandem.doctor.scenes import Play, Stage
from tests.tandem.fake_pulumi import bare_project

__all__ = ["cleaning", "creation", "emulated", "requests"]
ROOT = Path(__file__).resolve().parents[3]
NOW = datetime.datetime(2099, 1, 1, 12, tzinfo=datetime.UTC)
"""Later than the real time of any test run, because botocore compares expiries with the real clock."""
Cases = Callable[..., Case]


@cache
def planned(stack: str) -> Stack:
    plan = judge_file(ROOT / f"Pulumi.{stack}.yaml").plan()
    return Stack(plan, run(plan))


@pytest.fixture
def case(tmp_path: Path) -> Cases:
    def made(stack: str | None = None, region: str = REGION, profile: str | None = None) -> Case:
        named = planned(stack) if stack else None
        return Case(project=tmp_path, region=region, profile=profile, now=NOW, stack=named)

    return made


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts a program that prints this on an otherwise empty PATH."""
    bare_project(tmp_path, monkeypatch)

    def program(name: str, prints: str = "", code: int = 0, says: str = "") -> None:
        script = tmp_path / "bin" / name
        script.write_text(f"#!/bin/sh\ncat <<'END'\n{prints}\nEND\ncat >&2 <<'END'\n{says}\nEND\nexit {code}\n")
        script.chmod(0o755)

    return program


@pytest.fixture
def play(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    emulated: Emulated,
    creation: Creation,
    case: Cases,
    machine: Callable[..., None],
) -> Play:
    return Stage(tmp_path, monkeypatch, emulated, creation, case, machine).play
