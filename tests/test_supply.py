"""What is installed and what builds the project have a hash each."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ("requirements.txt", "requirements-dev.txt")
HASHED = re.compile(r"\\\n +--hash=sha256:[0-9a-f]{64}")
REQUIREMENT = re.compile(r"^([a-z0-9][a-z0-9._-]*)==\S+", re.MULTILINE)


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_what_builds_the_project_is_in_the_lock_that_is_installed_first() -> None:
    project = tomllib.loads(text("pyproject.toml"))
    builds = project["build-system"]["requires"]
    assert project["project"]["optional-dependencies"]["build"] == builds
    locked = set(REQUIREMENT.findall(text("requirements.txt")))
    assert {re.split(r"[<>=!~]", need)[0] for need in builds} <= locked


def test_pip_builds_with_nothing_that_it_fetches_itself() -> None:
    files = ["Makefile", "README.md", "tandem/extras.py", *(f"docs/how-to/{path.name}" for path in guides())]
    installs = [line for name in files for line in text(name).splitlines() if re.search(r"install .*-e ", line)]
    assert len(installs) >= 5
    assert [line for line in installs if "--no-build-isolation -e " not in line] == []


def guides() -> list[Path]:
    return sorted((ROOT / "docs" / "how-to").glob("*.md"))


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_package_has_a_hash_and_no_address(lock: str) -> None:
    entries = re.split(r"^(?=[a-z0-9])", text(lock), flags=re.MULTILINE)[1:]
    assert len(entries) > 20
    assert [entry.split()[0] for entry in entries if not REQUIREMENT.match(entry) or not HASHED.search(entry)] == []
    assert "://" not in text(lock)
