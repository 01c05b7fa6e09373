"""Moves the packages of a checkout under `tandem`, and rewrites their imports.

A wheel with `components` or `stacks` at the top would hide a folder of that name in the program of a user. Imports,
and module names that `files(…)` and `import_module(…)` take, are found in the syntax tree. Other strings stay as they
are: `sharing.mode` is a module, and a key of a stack file, too.
"""

import ast
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MOVED = {
    "sharing": "tandem.sharing",
    "components": "tandem.components",
    "stacks": "tandem.stacks",
    "sandbox": "tandem.emulator",
}
"""The name in the wheel of each package of the checkout."""
TAKE_MODULES = ("files", "import_module")
"""Functions whose first argument is the name of a module."""
IGNORED = shutil.ignore_patterns("__pycache__")
FROM = re.compile(rb"from\s+")


class Edit(NamedTuple):
    """New text for some bytes of a line."""

    line: int
    start: int
    end: int
    text: str


def move(checkout: Path, target: Path) -> None:
    """Copies all packages of `checkout` into `target`, in the layout of the wheel."""
    shutil.copytree(checkout / "tandem", target / "tandem", ignore=IGNORED)
    for package, moved in MOVED.items():
        shutil.copytree(checkout / package, target.joinpath(*moved.split(".")), ignore=IGNORED)
    for path in target.glob("tandem/**/*.py"):
        path.write_bytes(rewritten(path.read_bytes(), str(path.relative_to(target))))


def rewritten(source: bytes, name: str) -> bytes:
    """A module with the imports of the wheel. `ValueError` names an import that cannot be moved."""
    lines = source.splitlines(keepends=True)
    for edit in sorted(_edits(ast.parse(source, name), lines, name), reverse=True):
        line = lines[edit.line - 1]
        lines[edit.line - 1] = line[: edit.start] + edit.text.encode() + line[edit.end :]
    return b"".join(lines)


def _edits(tree: ast.Module, lines: list[bytes], name: str) -> Iterator[Edit]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=[ast.alias(name=package, asname=None)]) if package in MOVED:
                home, _, new = MOVED[package].rpartition(".")
                text = f"from {home} import {new} as {package}"
                yield Edit(node.lineno, node.col_offset, node.end_col_offset or 0, text)
            case ast.Import(names=names):
                for alias in names:
                    if moved := _moved(alias.name):
                        if not alias.asname:
                            raise ValueError(
                                f"{name}:{node.lineno}: `import {alias.name}` cannot be moved. Use `from`."
                            )
                        yield Edit(alias.lineno, alias.col_offset, alias.col_offset + len(alias.name), moved)
            case ast.ImportFrom(module=str(module), level=0):
                if moved := _moved(module):
                    before = FROM.match(lines[node.lineno - 1], node.col_offset)
                    start = before.end() if before else -1
                    if lines[node.lineno - 1][start : start + len(module)] != module.encode():
                        raise ValueError(f"{name}:{node.lineno}: import of {module} has several lines. Join them.")
                    yield Edit(node.lineno, start, start + len(module), moved)
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called), args=[first, *_]):
                if called in TAKE_MODULES and (edit := _of_argument(first, name)):
                    yield edit


def _of_argument(node: ast.expr, name: str) -> Edit | None:
    """The new name in a call that takes one."""
    match node:
        case ast.Constant(value=str(module)):
            if moved := _moved(module):
                assert node.end_col_offset is not None
                return Edit(node.lineno, node.col_offset, node.end_col_offset, f'"{moved}"')
        case ast.JoinedStr(values=[ast.Constant(value=str(begins)), *_]):
            if _moved(begins):
                raise ValueError(f"{name}:{node.lineno}: {begins!r} begins the name of a module. Use `__package__`.")
    return None


def _moved(module: str) -> str | None:
    """The name of our module in the wheel; None for any other module."""
    package, dot, rest = module.partition(".")
    return MOVED[package] + dot + rest if package in MOVED else None
