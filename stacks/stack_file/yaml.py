"""Reads a stack file as YAML, safely: limited size and depth, no tags, no duplicate keys, limited aliases.

Why not ruamel.yaml (0.19.1, measured 2026-11-22 on CPython 3.11): it imports as fast as PyYAML and takes 9 ms CPU for
Pulumi.dev.yaml instead of 0.3. But it reports only the first duplicate key, converts dates, which are text below, and
needs the same limits: 200,000 open brackets keep it busy for 1.6 s.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import yaml

from sharing.names import PROJECT
from sharing.problems import LIMIT, Problem, did_you_mean, near
from stacks.stack_file.errors import UnreadableError
from stacks.stack_file.provider_keys import REGION

DECIMALS = 10
"""Of a number that is written."""
MOST_BYTES = 256 * 1024
MOST_NODES = 20_000
"""Limit for the values in a file, including each use of an alias. A stack file has fewer than a hundred."""
FILE_KEYS = ("config", "secretsprovider", "encryptedkey", "encryptionsalt", "environment")
"""Keys of a stack file that Pulumi reads."""

MOST_DEPTH = 100
"""Limit for nested lists and mappings. libyaml's composer recurses in C: 100,000 levels crash the process."""

EXAMPLE = "`tandem init` writes a valid file."
IN_OTHER_WORDS = {
    "but found another document": "it holds more than one document",
    "found unhashable key": "a key is a list or a mapping",
    "found character that cannot start any token": "found a character that cannot begin a value (tab, @, ` or %)",
}
"""Messages of libyaml, and plainer ones."""

PLAIN = re.compile(
    r"(?!(null|true|false|yes|no|on|off|y|n)$)"
    r"([a-z][a-z0-9._/-]*|[a-z0-9._+-]+@[a-z0-9.-]+|arn:[a-z0-9:/._-]+|[1-9][0-9]*[a-df-z][a-z0-9.]*)",
    re.IGNORECASE,
)
"""Text that needs no quotes in YAML. A tag has a colon, and quotes in the shipped stacks."""

_Safe: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


WHOLE = "[-+]?(0|[1-9][0-9_]{0,399}|0b_*[01][01_]{0,399}|0o?_*[0-7][0-7_]{0,399}|0x_*[0-9a-fA-F][0-9a-fA-F_]{0,399})"
"""A whole number. Python refuses those of more than 4,300 digits. Here one of more than 400 digits is text."""


class _Loader(_Safe):  # type: ignore[misc, valid-type]
    """Reads plain values as Pulumi itself does (Go's yaml.v3): `yes`, `on`, 1:30 and dates are text, 1e3 a number."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}


for _tag, _pattern, _first in (
    ("bool", "true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", WHOLE, "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]{1,400}(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("float", r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", "-+."),
    ("null", "~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("merge", "<<", "<"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^({_pattern})$"), list(_first))


@dataclass(frozen=True, slots=True)
class Source:
    """The values of a stack file, not yet validated."""

    sections: dict[str, Any]
    """The values of the `tandem:` keys, by key."""
    provider: dict[str, Any]
    """The values of the `aws:` keys, by full key."""
    problems: tuple[Problem, ...] = ()
    """Errors in the structure of the file: duplicate and misspelt keys."""
    unread: tuple[str, ...] = ()
    """Settings that are probably in the file, but under a misspelt key."""
    root: yaml.Node | None = None
    """The file's root node: each node has a position. None for an empty file, or if the values have another source."""
    folder: Path = Path()
    """The folder of relative paths in the values: that of the file, or the current one."""

    @property
    def region(self) -> Any:
        """The value of `aws:region`; None when it is missing."""
        return self.provider.get(REGION)


def read(path: Path, sections: tuple[str, ...]) -> Source:
    """Reads the file at `path`, whose `tandem:` keys should be among `sections`."""
    return replace(parse(read_text(path), path.name, sections), folder=path.parent)


def read_text(path: Path) -> str:
    """The text of a file that is small enough to be a stack file; raises `UnreadableError`."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise UnreadableError(f"{path.name} is larger than {MOST_BYTES // 1024} KiB, the limit for a stack file.")
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableError(f"{path.name} is not UTF-8 text (byte {error.start}). Save it as UTF-8.") from None
    except OSError as error:
        raise UnreadableError(f"{path.name} cannot be read: {error.strerror}.") from None


def parse(text: str, name: str, sections: tuple[str, ...]) -> Source:
    """Parses `text`; `name` is for messages."""
    loaded = load(text, name)
    return replace(_sort(loaded.value, loaded.duplicates, sections), root=loaded.root)


def _sort(document: object, duplicates: Sequence[Problem], sections: tuple[str, ...]) -> Source:
    """The values of a document by their namespace, and the keys that belong to none."""
    problems = [*duplicates]
    everything = (*sections, REGION)
    if not isinstance(document, dict):
        kind = "" if document is None else f": the file is {_kind(document)}"
        return Source({}, {}, (*problems, Problem("config", "", f"is missing{kind}", EXAMPLE)), everything)
    unknown = [str(key) for key in document if key not in FILE_KEYS]
    problems += [Problem(key, "", "unknown key", did_you_mean(key, FILE_KEYS)) for key in unknown]
    config = document.get("config")
    if not isinstance(config, dict):
        if not near("config", unknown):
            rule = "is missing" if config is None else "must be a mapping"
            problems.append(Problem("config", "" if config is None else _kind(config), rule, EXAMPLE, LIMIT))
        return Source({}, {}, tuple(problems), everything)
    ours, misspelt, unread = _sections(config, sections)
    duplicate_config = any(problem.path == "config" for problem in duplicates)
    provider = {str(key): value for key, value in config.items() if str(key).startswith("aws:")}
    return Source(ours, provider, (*problems, *misspelt), everything if duplicate_config else unread)


def _kind(value: object) -> str:
    return {list: "a list", str: "text", bool: "true or false"}.get(type(value), "a number")


def _sections(config: dict[Any, Any], names: tuple[str, ...]) -> tuple[dict[str, Any], list[Problem], tuple[str, ...]]:
    """The sections, errors about misspelt keys, and the sections that these probably mean."""
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    unread: list[str] = []
    for key, value in config.items():
        space, colon, section = str(key).partition(":")
        if not colon:
            fix = f"Write `{PROJECT}:{space}`." if space in names else did_you_mean(space, names)
            problems.append(Problem(space, "", f"needs the prefix `{PROJECT}:`", fix))
            unread += near(space, names)
        elif space == PROJECT and section in names:
            values[section] = decode(value)
        elif space == PROJECT:
            root = re.split(r"[.\[]", section)[0]
            by_path = f"Set it under `{PROJECT}:{root}` with `pulumi config set --path`."
            problems.append(
                Problem(section, "", "unknown key", by_path if root in names else did_you_mean(section, names))
            )
            unread += near(section, names)
        elif space.lower() != space or not space.isascii():
            problems.append(Problem(str(key), "", "unknown key", did_you_mean(space, (PROJECT, "aws"))))
            unread.append(REGION if section == "region" else section)
    return values, problems, tuple(unread)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A YAML file that was read."""

    value: Any = None
    root: yaml.Node | None = None
    """The root node; every node has a position, and merged keys are part of a mapping. None for an empty file."""
    duplicates: tuple[Problem, ...] = ()


def load(text: str, name: str) -> Loaded:
    """Reads the YAML in `text`; raises `UnreadableError`."""
    try:
        _refuse_depth_and_tags(text, name)
        node = _Loader(text).get_single_node()
        if node is None:
            return Loaded()
        duplicates = tuple(_duplicates(node))
        if _size(node, set(), {}) > MOST_NODES:
            raise UnreadableError(f"{name} has more than {MOST_NODES:,} values, including aliases. Shorten it.")
        return Loaded(construct(node), node, duplicates)
    except yaml.YAMLError as error:
        raise UnreadableError(f"{name} cannot be read as YAML: {_one_line(error)}.") from None


def _refuse_depth_and_tags(text: str, name: str) -> None:
    """Refuses deep nesting and tags, from the parser's events, without recursion and without building objects."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MOST_DEPTH:
            raise UnreadableError(f"{name} is nested too deeply: more than {MOST_DEPTH} levels. Flatten it.")
        if tag := getattr(event, "tag", None):
            shown = tag.replace("tag:yaml.org,2002:", "!!")
            raise UnreadableError(f"{name} uses the tag {shown}{_where(event.start_mark)}. Remove the tag.")


def _one_line(error: Exception) -> str:
    what = str(getattr(error, "problem", None) or str(error).splitlines()[0]).rstrip(".")
    return f"{IN_OTHER_WORDS.get(what, what)}{_where(getattr(error, 'problem_mark', None))}"


def _where(mark: Any) -> str:
    return f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""


def _size(node: yaml.Node, within: set[int], sizes: dict[int, int]) -> int:
    """Number of values in `node`, including each use of an alias; raises if a node contains itself."""
    key = id(node)
    if key in within:
        raise UnreadableError("an alias in the file contains itself. Write its value instead.")
    if key not in sizes:
        within.add(key)
        sizes[key] = 1 + sum(_size(child, within, sizes) for child in _children(node))
        within.discard(key)
    return sizes[key]


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for pair in node.value:
            yield from pair
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value


def _duplicates(node: yaml.Node, path: str = "", seen: set[int] | None = None) -> Iterator[Problem]:
    """Duplicate keys of a mapping: YAML forbids them, but PyYAML silently keeps the last."""
    seen = set() if seen is None else seen
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        keys: dict[str, int] = {}
        for key, value in node.value:
            here = f"{path}.{key.value}".lstrip(".") if isinstance(key, yaml.ScalarNode) else path
            if isinstance(key, yaml.ScalarNode) and key.value in keys:
                where = here.removeprefix("config.").removeprefix(f"{PROJECT}:")
                rule = f"duplicate key; the first is in line {keys[key.value]}"
                yield Problem(where, "", rule, "Keep one of the two.")
            keys.setdefault(str(key.value), key.start_mark.line + 1)
            yield from _duplicates(value, here, seen)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _duplicates(item, f"{path}[{index}]", seen)


def decode(value: object) -> object:
    """A top-level value as a program receives it. Pulumi passes lists, mappings, numbers and truth values as JSON text.
    `pulumi config set` without `--path` writes every value as text. Other text stays as it is.
    """
    if not isinstance(value, str) or _depth(value) > MOST_DEPTH:
        return value
    try:
        decoded: object = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return decoded


def _depth(text: str) -> int:
    """How deeply a text nests lists and mappings, if it is JSON: a limit for all that recurse into its value."""
    depth = deepest = 0
    for bracket in re.findall(r"[][{}]", text):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def compose(value: object) -> yaml.Node:
    """The nodes of a value that is not from a file."""
    node = yaml.compose(as_json(value), Loader=_Loader)
    assert node, "JSON is never an empty document"
    return node


def construct(node: yaml.Node) -> Any:
    """The value of a node."""
    return _Loader("").construct_document(node)


def as_json(value: object) -> str:
    """The value as Pulumi passes it to a program: JSON, in which YAML types such as dates are text."""
    return json.dumps(value, default=str)


def from_json(value: object) -> object:
    """The value, with each list or mapping that is written as JSON text, as `pulumi config set` writes it with and
    without `--path` (pulumi, resource/config/object.go)."""
    if isinstance(value, dict):
        return {key: from_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [from_json(item) for item in value]
    is_json = isinstance(value, str) and value.lstrip()[:1] in ("[", "{")
    return decode(value) if is_json else value


def as_yaml(value: object) -> str:
    """A value in one line of YAML; a tag in quotes, as the shipped stacks have it."""
    match value:
        case dict():
            return "{" + ", ".join(f"{as_yaml(str(key))}: {as_yaml(item)}" for key, item in value.items()) + "}"
        case list():
            return f"[{', '.join(map(as_yaml, value))}]"
        case str() if PLAIN.fullmatch(value):
            return value
        case float():
            return f"{value:.{DECIMALS}f}".rstrip("0").rstrip(".")
    return json.dumps(value, ensure_ascii=False)
