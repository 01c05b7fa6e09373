"""The table of real-world behaviours that the tests check, from the `real_world` markers in `tests/`.

The markers are read from the source, not collected by pytest: most of these tests need an engine or a control plane.
"""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

MARKER = "real_world"
ARGUMENTS = ("behaviour", "source")
HEAD = """\
# Real-world behaviours

Each row has a behaviour of AWS, NVIDIA, Kubernetes, Helm or Pulumi, its source, and the test that checks it. Tests in
`tests/sandbox` check the emulated cloud, in which `tests/engine` runs the program. `make docs` writes this table
from the `real_world` markers of the tests.

| behaviour | source | test |
| --- | --- | --- |
"""


class Behaviour(NamedTuple):
    """One marker."""

    behaviour: str
    source: str
    test: str
    """`tests/path.py::name`."""


def document(root: Path) -> str:
    """The whole document, for the tests under `root`."""
    rows = (f"| {' | '.join(map(_cell, one))} |\n" for one in sorted(behaviours(root)))
    return HEAD + "".join(rows)


def is_same(written: str, right: str) -> bool:
    """Whether both have the same rows. In any order: git merges this file row by row (`.gitattributes`)."""
    return sorted(written.splitlines()) == sorted(right.splitlines())


def behaviours(root: Path) -> Iterator[Behaviour]:
    """Every marker of the tests under `root`."""
    for path in sorted((root / "tests").glob("**/*.py")):
        text = path.read_text(encoding="utf-8")
        if MARKER in text:
            yield from in_source(text, path.relative_to(root).as_posix())


def in_source(text: str, path: str) -> Iterator[Behaviour]:
    """The markers of one file. Raises ValueError for one that is no decorator with both arguments as literal text."""
    tree = ast.parse(text)
    seen = set[int]()
    for test, decorator in _decorators(tree.body, path):
        if isinstance(decorator, ast.Call) and _is_marker(decorator.func):
            seen.add(id(decorator.func))
            yield Behaviour(**_literals(decorator, path), test=test)
    for node in ast.walk(tree):
        if _is_marker(node) and id(node) not in seen:
            raise ValueError(_wrong(path, node))


def _decorators(body: Iterable[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.expr]]:
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{prefix}::{node.name}"
            yield from ((name, decorator) for decorator in node.decorator_list)
            if isinstance(node, ast.ClassDef):
                yield from _decorators(node.body, name)


def _is_marker(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == MARKER


def _literals(call: ast.Call, path: str) -> dict[str, str]:
    found = {
        word.arg: word.value.value.strip()
        for word in call.keywords
        if word.arg and isinstance(word.value, ast.Constant) and isinstance(word.value.value, str)
    }
    if call.args or len(call.keywords) != len(ARGUMENTS) or not all(found.get(name) for name in ARGUMENTS):
        raise ValueError(_wrong(path, call))
    return found


def _wrong(path: str, node: ast.AST) -> str:
    line, marker = getattr(node, "lineno", 0), f"@pytest.mark.{MARKER}"
    return f'{path}:{line}: marker {MARKER} has no literal text. Write {marker}(behaviour="…", source="…").'


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
