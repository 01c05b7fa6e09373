"""Reads a stack file as YAML, safely: bounded in size and depth, no tags, no doubled keys, aliases counted.

Why not ruamel.yaml (0.19.1, measured 2026-11-22 on CPython 3.11): it imports as fast as PyYAML and takes 9 ms CPU for
Pulumi.dev.yaml instead of 0.3. But it names only the first doubled key, makes dates of dates, which are text below,
and needs the same bounds: 200,000 open brackets keep it busy for 1.6 s.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import yaml

from sharing.names import PROJECT
from sharing.problems import Problem, did_you_mean, near
from stacks.stack_file.errors import UnreadableError
from stacks.stack_file.provider_keys import REGION

MOST_BYTES = 256 * 1024
MOST_NODES = 20_000
"""Values in a file, aliases counted as often as they are used. A stack file has fewer than a hundred."""
FILE_KEYS = ("config", "secretsprovider", "encryptedkey", "encryptionsalt", "environment")
"""What Pulumi itself reads from a stack file."""

MOST_DEPTH = 100
"""Lists and mappings in each other. libyaml's composer recurses in C: 100,000 of them end the whole process."""

EXAMPLE = "Pulumi.dev.yaml shows every key."
IN_OTHER_WORDS = {
    "but found another document": "it holds more than one document",
    "found unhashable key": "a key is a list or a mapping",
    "found character that cannot start any token": "found a character that cannot begin a value (tab, @, ` or %)",
}
"""What libyaml says of a file, and what a reader understands."""

_Safe: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_Safe):  # type: ignore[misc, valid-type]
    """Reads plain values as Pulumi itself does (Go's yaml.v3): `yes`, `on`, 1:30 and dates are text, 1e3 a number."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}


for _tag, _pattern, _first in (
    ("bool", "true|True|TRUE|false|False|FALSE", "tTfF"),
    # Python refuses integers of more than 4,300 digits: what has more than 400 is text here.
    ("int", "[-+]?(0|[1-9][0-9_]{0,399}|0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+)", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]{1,400}(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+."),
    ("null", "~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("merge", "<<", "<"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^({_pattern})$"), list(_first))


@dataclass(frozen=True, slots=True)
class Source:
    """What a stack file says, before anything is known about it."""

    sections: dict[str, Any]
    """The values of the `tandem:` keys, by key."""
    provider: dict[str, Any]
    """The values of the `aws:` keys, by whole key."""
    problems: tuple[Problem, ...] = ()
    """Mistakes of the file as a file: doubled and misspelt keys."""
    unread: tuple[str, ...] = ()
    """Settings that probably stand in the file, but under a misspelt key."""

    @property
    def region(self) -> Any:
        """The value of `aws:region`; None when it is missing."""
        return self.provider.get(REGION)


def read(path: Path, sections: tuple[str, ...]) -> Source:
    """The source in the file at `path`, whose `tandem:` keys should be among `sections`."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UnreadableError(f"{path.name} is larger than {MOST_BYTES // 1024} KiB: not read as a stack file.")
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableError(f"{path.name} is not UTF-8 text (byte {error.start}). Save it as UTF-8.") from None
    except OSError as error:
        raise UnreadableError(f"{path.name} cannot be read: {error.strerror}.") from None
    return parse(text, path.name, sections)


def parse(text: str, name: str, sections: tuple[str, ...]) -> Source:
    """The source in `text`; `name` stands in messages."""
    document, doubled = load(text, name)
    problems = [*doubled]
    everything = (*sections, REGION)
    if not isinstance(document, dict):
        found = "" if document is None else f"{_kind(document)} instead"
        return Source({}, {}, (*problems, Problem("config", found, "is missing", EXAMPLE)), everything)
    unknown = [str(key) for key in document if key not in FILE_KEYS]
    problems += [Problem(key, "", "unknown key", did_you_mean(key, FILE_KEYS)) for key in unknown]
    config = document.get("config")
    if not isinstance(config, dict):
        if not near("config", unknown):
            rule = "is missing" if config is None else "must be a mapping"
            problems.append(Problem("config", "" if config is None else _kind(config), rule, EXAMPLE))
        return Source({}, {}, tuple(problems), everything)
    known, misspelt, unread = _sections(config, sections)
    doubled_config = any(problem.path == "config" for problem in doubled)
    provider = {str(key): value for key, value in config.items() if str(key).startswith("aws:")}
    return Source(known, provider, (*problems, *misspelt), everything if doubled_config else unread)


def _kind(value: object) -> str:
    return {list: "a list", str: "text", bool: "true or false"}.get(type(value), "a number")


def _sections(config: dict[Any, Any], known: tuple[str, ...]) -> tuple[dict[str, Any], list[Problem], tuple[str, ...]]:
    """The sections, the misspelt keys, and which sections those may have been meant to be."""
    found: dict[str, Any] = {}
    problems: list[Problem] = []
    unread: list[str] = []
    for key, value in config.items():
        space, colon, section = str(key).partition(":")
        if not colon:
            fix = f"Write `{PROJECT}:{space}`." if space in known else did_you_mean(space, known)
            problems.append(Problem(space, "", f"needs the project's name before it, as `{PROJECT}:…`", fix))
            unread += near(space, known)
        elif space == PROJECT and section in known:
            found[section] = value
        elif space == PROJECT:
            root = re.split(r"[.\[]", section)[0]
            by_path = f"`pulumi config set --path` puts it under `{PROJECT}:{root}`."
            problems.append(
                Problem(section, "", "unknown key", by_path if root in known else did_you_mean(section, known))
            )
            unread += near(section, known)
        elif space.lower() != space or not space.isascii():
            problems.append(Problem(str(key), "", "unknown key", did_you_mean(space, (PROJECT, "aws"))))
            unread.append(REGION if section == "region" else section)
    return found, problems, tuple(unread)


def load(text: str, name: str) -> tuple[Any, list[Problem]]:
    """What the YAML in `text` says, and the keys that stand twice in it; raises `UnreadableError`."""
    try:
        _refuse_what_no_stack_file_has(text, name)
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None, []
            doubled = list(_doubled(node))
            if _size(node, set(), {}) > MOST_NODES:
                raise UnreadableError(f"{name} has more than {MOST_NODES:,} values (aliases count): no stack file has.")
            return loader.construct_document(node), doubled
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise UnreadableError(f"{name} cannot be read as YAML: {_one_line(error)}.") from None


def _refuse_what_no_stack_file_has(text: str, name: str) -> None:
    """Refuses depth and tags, from the parser's events: they need no recursion and build nothing."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MOST_DEPTH:
            raise UnreadableError(f"{name} is nested too deeply (more than {MOST_DEPTH}): no stack file is.")
        if tag := getattr(event, "tag", None):
            shown = tag.replace("tag:yaml.org,2002:", "!!")
            raise UnreadableError(f"{name} uses the tag {shown}{_where(event.start_mark)}. Remove it: none is needed.")


def _one_line(error: Exception) -> str:
    what = str(getattr(error, "problem", None) or str(error).splitlines()[0]).rstrip(".")
    return f"{IN_OTHER_WORDS.get(what, what)}{_where(getattr(error, 'problem_mark', None))}"


def _where(mark: Any) -> str:
    return f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""


def _size(node: yaml.Node, within: set[int], known: dict[int, int]) -> int:
    """Values below and with `node`, each alias counted again; a node inside itself is endless."""
    key = id(node)
    if key in within:
        raise UnreadableError("an alias in the file contains itself. Write the value out.")
    if key not in known:
        within.add(key)
        known[key] = 1 + sum(_size(child, within, known) for child in _children(node))
        within.discard(key)
    return known[key]


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for pair in node.value:
            yield from pair
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def _doubled(node: yaml.Node, path: str = "", seen: set[int] | None = None) -> Iterator[Problem]:
    """Keys that stand twice in one mapping: YAML forbids it, PyYAML would silently keep the last."""
    seen = set() if seen is None else seen
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            here = f"{path}.{key.value}".lstrip(".") if isinstance(key, yaml.ScalarNode) else path
            if isinstance(key, yaml.ScalarNode) and key.value in keys:
                where = here.removeprefix("config.").removeprefix(f"{PROJECT}:")
                line = key.start_mark.line + 1
                yield Problem(where, "", f"is listed twice, again in line {line}", "Keep one of the two.")
            keys.add(str(key.value))
            yield from _doubled(value, here, seen)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _doubled(item, f"{path}[{index}]", seen)


def as_json(value: object) -> str:
    """The value as Pulumi hands it to a program: JSON, in which YAML's own types (dates, sets) are text."""
    return json.dumps(value, default=str)
