"""The positions of a stack's values (file, line and column), or else their origin."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from sharing.names import PROJECT
from sharing.problems import Position, Problem, in_quotes, place_in_file
from stacks.stack_file.errors import UnreadableError
from stacks.stack_file.yaml import compose, construct, decode, load, read_text

ITEM = re.compile(r"\[(\d{1,9})\]")
FORMS = ("", ".value", ".default")
"""Pulumi.yaml has the value of a setting as it is, or below one of these keys.
Source: https://www.pulumi.com/docs/iac/concepts/projects/project-file/ (config options)."""


@dataclass(frozen=True, slots=True)
class Document:
    """A file that was read as YAML."""

    name: str
    root: yaml.Node | None
    """The root node; every node has a position. None for an empty file."""


def read_documents(folders: Iterable[Path], stack_file: str) -> list[Document]:
    """The stack's file and Pulumi.yaml, as far as they can be read. Only positions come from them."""
    documents = [_read(folder / name) for name in (stack_file, "Pulumi.yaml") for folder in folders]
    return [document for document in documents if document]


def _read(path: Path) -> Document | None:
    try:
        return Document(path.name, load(read_text(path), path.name).root)
    except UnreadableError:
        return None


class _Found(NamedTuple):
    """The result of following a path."""

    key: yaml.Node | None
    """None for an item of a list."""
    node: yaml.Node
    rest: str
    """The part of the path for which there is no node."""


def locate(problems: Iterable[Problem], documents: Sequence[Document]) -> tuple[Problem, ...]:
    """The problems of a file that was read, in its order, each with its place.

    A value that is not in the file is a default.
    """
    placed = (_in_files(problem, documents) or _default(problem) for problem in problems)
    return tuple(sorted(placed, key=place_in_file))


def locate_given(
    problems: Iterable[Problem], given: Mapping[str, Any], documents: Sequence[Document]
) -> tuple[Problem, ...]:
    """The problems of values from Pulumi, by whole key. Each gets its place in a file with the same value.

    They have the order of the file.
    """
    values = compose({"config": given})
    placed = (_of_given(problem, values, documents) for problem in problems)
    return tuple(sorted(placed, key=place_in_file))


def _of_given(problem: Problem, values: yaml.Node | None, documents: Sequence[Document]) -> Problem:
    given = [construct(node) for _, node, rest in _places(values, problem.path) if not rest]
    if not given:
        return _in_files(problem, documents) or _default(problem)
    for document in documents:
        for setting in _places(document.root, problem.path):
            if not setting.rest and _are_alike(construct(setting.node), given[0]):
                return _placed(problem, document, setting)
    # Not from `-c`: pulumi writes its values into the stack's file first (3.260, pkg/cmd/pulumi/operations/io.go,
    # parseAndSaveConfigArray).
    others = " or ".join(dict.fromkeys(document.name for document in documents))
    elsewhere = f"not in {others}: from" if others else "from"
    return replace(problem, place=Position(origin=f"{elsewhere} `--config-file` or an environment"))


def _are_alike(first: object, second: object) -> bool:
    """Whether both are the same setting: `pulumi config set` writes some numbers and truth values as text."""
    return first == second or str(first).lower() == str(second).lower()


def _default(problem: Problem) -> Problem:
    is_option = problem.path.startswith("--")
    return replace(problem, place=Position(origin="default") if problem.found and not is_option else None)


def _in_files(problem: Problem, documents: Sequence[Document]) -> Problem | None:
    """The value in the first file that has it, or its key if the key itself is wrong.

    A missing setting has the place of the section where it belongs.
    """
    around = None
    for document in documents:
        for setting in _places(document.root, problem.path, is_key_wrong=not problem.found):
            placed = _placed(problem, document, setting)
            if not setting.rest:
                return placed
            around = around or placed
    return None if problem.found else around


def _placed(problem: Problem, document: Document, setting: _Found) -> Problem:
    """The problem with its place. A number that must be text is quoted as the file has it: `0815`, not 815.0."""
    mark = (setting.node if problem.found or setting.key is None else setting.key).start_mark
    place = Position(file=document.name, line=mark.line + 1, column=mark.column + 1)
    if problem.fix == in_quotes(problem.found) and not setting.rest:
        return replace(problem, place=place, found=setting.node.value, fix=in_quotes(setting.node.value))
    return replace(problem, place=place)


def _places(root: yaml.Node | None, path: str, *, is_key_wrong: bool = False) -> Iterator[_Found]:
    """The place of a setting, or of the section where it belongs, in a stack file or in Pulumi.yaml.

    Of a section that stands there with and without its prefix, the wrong key is the one without.
    """
    if root is None:
        return
    first = re.split(r"[.\[]", path)[0]
    below = path.removeprefix(first)
    keys = (f"{PROJECT}:{first}", first)
    for key in reversed(keys) if is_key_wrong and not below else keys:
        for form in FORMS:
            setting = _find(root, f"config.{key}{form}{below}")
            if len(setting.rest) <= len(below):
                yield setting
    beside = _find(root, path)
    if not beside.rest:
        # `config` itself, or a key that Pulumi does not know.
        yield beside


def _find(node: yaml.Node, path: str) -> _Found:
    """Follows a path as far as there are nodes. A key may contain dots: the longest match counts.

    What is in JSON text has the position of the text.
    """
    key: yaml.Node | None = None
    while path:
        if isinstance(node, yaml.MappingNode):
            wanted = path.removeprefix(".")
            fitting = [pair for pair in node.value if _begins(wanted, pair[0].value)]
            if not fitting:
                break
            # The last of two duplicate keys counts.
            key, node = max(reversed(fitting), key=lambda pair: len(pair[0].value))
            path = wanted[len(key.value) :]
        elif isinstance(node, yaml.SequenceNode) and (item := ITEM.match(path)) and int(item[1]) < len(node.value):
            key, node, path = None, node.value[int(item[1])], path[item.end() :]
        elif isinstance(node, yaml.ScalarNode) and (section := _compose_json(node.value)):
            deeper = _find(section, path)
            for inner in (deeper.key, deeper.node):
                if inner is not None:
                    inner.start_mark = node.start_mark
            return deeper
        else:
            break
    return _Found(key, node, path)


def _compose_json(text: str) -> yaml.Node | None:
    """The nodes of a section that `-c key=value` or `pulumi config set` without `--path` has written as JSON text."""
    value = decode(text)
    return compose(value) if isinstance(value, dict | list) else None


def _begins(path: str, key: object) -> bool:
    return isinstance(key, str) and (path == key or path.startswith((f"{key}.", f"{key}[")))
