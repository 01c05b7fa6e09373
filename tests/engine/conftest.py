"""Stacks that have never been up, and copies of such that are."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest
import yaml

from tandem.sandbox.pulumi import NoPulumiError, executable
from tests.engine.emulated import ROOT, STACKS, Raise, Stack


@pytest.fixture(scope="session")
def pulumi() -> None:
    """Skips where there is no engine."""
    try:
        executable()
    except NoPulumiError as reason:
        pytest.skip(str(reason).split(". ")[0])


@pytest.fixture(scope="session")
def nothing(pulumi: None, tmp_path_factory: pytest.TempPathFactory) -> Raise:
    """A stack that has never been up; with other sections than its file has, where they are given."""

    def prepare(name: str, sections: Mapping[str, Any] | None = None) -> Stack:
        folder = tmp_path_factory.mktemp(name)
        project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text(encoding="utf-8"))
        (folder / "Pulumi.yaml").write_text(yaml.safe_dump({**project, "main": str(ROOT)}), encoding="utf-8")
        shutil.copy(ROOT / f"Pulumi.{name}.yaml", folder)
        stack = Stack(folder, name)
        stack.configure(sections or {})
        return stack

    return prepare


@pytest.fixture(scope="session")
def raised(nothing: Raise, tmp_path_factory: pytest.TempPathFactory) -> Raise:
    """A stack that is up: each caller gets a copy of one that is raised once."""

    @cache
    def original(name: str, sections: str) -> Stack:
        stack = nothing(name, json.loads(sections))
        run = stack.up()
        assert run.code == 0, run.errors
        return stack

    def copied(name: str, sections: Mapping[str, Any] | None = None) -> Stack:
        first = original(name, json.dumps(sections or {}, sort_keys=True))
        return first.copied_to(tmp_path_factory.mktemp(name))

    return copied


@pytest.fixture(params=STACKS)
def any_stack(request: pytest.FixtureRequest) -> str:
    return str(request.param)
