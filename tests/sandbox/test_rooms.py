"""The rooms of the sandbox: which may import which, and no file that needs itself."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAY_IMPORT = {
    "cloud": {"cloud"},
    "preview": {"cloud", "preview"},
    "world": {"cloud", "world"},
    "engine": {"cloud", "world", "engine"},
}
"""Beside `sandbox.graph` and `sandbox.wire`, which all of them share."""


def module(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module(path): path for path in sorted((ROOT / "sandbox").glob("**/*.py"))}


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            below = {f"{node.module}.{name.name}" for name in node.names} & MODULES.keys()
            found |= below or {node.module}
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return found & MODULES.keys()


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_a_room_imports_what_lies_below_it(room: str) -> None:
    for path in sorted((ROOT / "sandbox" / room).glob("**/*.py")):
        rooms = {name.split(".")[1] for name in imported(path)} - {"graph", "wire"}
        assert rooms <= MAY_IMPORT[room], path


def test_no_file_needs_itself() -> None:
    # `prepare` raises CycleError, which names the files.
    TopologicalSorter({name: imported(path) for name, path in MODULES.items()}).prepare()
