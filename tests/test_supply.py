"""Every installed package and every build tool has a hash."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from tandem.installation import install_command

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("sharing", "components", "stacks", "sandbox", "tandem")
INSTALLED = Path("site-packages")
LOCKS = ("requirements.txt", "requirements-dev.txt", "requirements-docs.txt", "policy/requirements.txt")
HASHED = re.compile(r"\\\n +--hash=sha256:[0-9a-f]{64}")
REQUIREMENT = re.compile(r"^([a-z0-9][a-z0-9._-]*)==\S+", re.MULTILINE)


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_build_tools_are_in_the_lock_that_is_installed_first() -> None:
    project = tomllib.loads(text("pyproject.toml"))
    builds = project["build-system"]["requires"]
    assert project["project"]["optional-dependencies"]["build"] == builds
    locked = set(REQUIREMENT.findall(text("requirements.txt")))
    assert {re.split(r"[<>=!~]", need)[0] for need in builds} <= locked


def test_every_install_command_of_the_documents_is_the_one_that_messages_print() -> None:
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
    documents = [path for path in documents if path.parent.name != "decisions"]
    lines = [line for path in documents for line in path.read_text(encoding="utf-8").splitlines()]
    commands = [command for line in lines for command in re.findall(r"[.\w/-]*(?: -m)? ?pip install .*?\]'", line)]
    assert len(commands) >= 5
    # tandem-gpu is not published: anyone who registers the name there could run code on the reader's machine.
    assert install_command(INSTALLED) == "pip install '.[all]'"
    assert set(commands) == {install_command(ROOT)} == {"pip install -e '.[all]'"}


def test_pip_builds_with_nothing_that_it_fetches_itself() -> None:
    installs = [line for line in text("Makefile").splitlines() if re.search(r"install .*-e ", line)]
    assert installs
    assert [line for line in installs if "--no-build-isolation -e " not in line] == []


TYPES_ALONE = {"_typeshed"}
"""Packages that only type checkers provide, and no program imports."""


@pytest.mark.slow
def test_every_package_that_we_import_is_declared() -> None:
    project = tomllib.loads(text("pyproject.toml"))["project"]
    extras = project["optional-dependencies"]
    needs = [
        *project["dependencies"],
        *(need for name in extras if name not in ("build", "dev") for need in extras[name]),
    ]
    declared = {normalized(re.split(r"[<>=!~\[]", need)[0]) for need in needs}
    homes = packages_distributions()
    for path in (path for room in ROOMS for path in sorted((ROOT / room).glob("**/*.py"))):
        for name in (
            {module.partition(".")[0] for module in imports(path)} - sys.stdlib_module_names - TYPES_ALONE - set(ROOMS)
        ):
            assert declared & set(map(normalized, homes[name])), f"{path}: {name}"


def normalized(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_package_has_a_hash_and_no_address(lock: str) -> None:
    entries = re.split(r"^(?=[a-z0-9])", text(lock), flags=re.MULTILINE)[1:]
    assert len(entries) > 20
    assert [entry.split()[0] for entry in entries if not REQUIREMENT.match(entry) or not HASHED.search(entry)] == []
    assert "://" not in text(lock)
