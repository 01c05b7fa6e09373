"""The reference of stack files: each section, and each key with its type, default and example, from the models."""

import re
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import Annotated, Any, NamedTuple

from pydantic import TypeAdapter
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from sharing.modes.base import UNUSED
from sharing.modes.modes import mode_names
from sharing.names import PROJECT
from stacks.stack_file.form_errors import fields
from stacks.stack_file.yaml import as_yaml

AWS, SINGLE = "AWS account and region", "Single values"
"""Headings of keys that are in no section."""
EXAMPLES: dict[str, Any] = {
    "aws:assumeRoles[].sessionName": "ci",
    "aws:profile": "ml",
    "budget.alert.max-usd": 400,
    "budget.max-usd-per-hour": 0.5,
    "budget.max-usd-per-month": 350,
    "cluster.cidr": "10.20.0.0/16",
    "cluster.existing.name": "platform",
    "cluster.existing.node-subnets": ["subnet-0a1b2c3d"],
    "cluster.existing.security-groups": ["sg-0a1b2c3d"],
    "cluster.public-access-cidrs": ["203.0.113.7/32"],
    "cluster.vpc.id": "vpc-0a1b2c3d",
    "cluster.vpc.node-subnets": ["subnet-0a1b2c3d"],
    "cluster.vpc.security-groups": ["sg-0a1b2c3d"],
    "cluster.vpc.subnets": ["subnet-0a1b2c3d", "subnet-0d3c2b1a"],
    "cluster.system-nodes.count": 1,
    "cluster.zone-names": ["us-east-1a", "us-east-1d"],
    "cluster.zones": 3,
    "gpu-nodes.desired": 0,
    "gpu-nodes.instance-types": ["g4dn.xlarge", "g4dn.2xlarge"],
    "gpu-nodes.max": 3,
    "gpu-nodes.min": 1,
    "gpu-nodes.volume-gib": 200,
    "gpu-nodes[].name": "fast",
    "gpu-nodes[].sharing": {"mode": "timeslice"},
    "models-clients.namespaces": ["chat"],
    "models[].context": 8192,
    "models[].id": "chat",
    "models[].name": "llama2:7b",
    "models[].pool": "fast",
    "models[].prompt-cache-mib": 2048,
    "models[].slots": 2,
    "models[].spill": ["rest"],
    "scale-to-zero.idle-minutes": 30,
    "sharing.layout[].count": 2,
    "sharing.replicas": 4,
}
"""Values of keys whose type does not show what to write."""
UNITS = {
    "batch": "tokens",
    "bytes": "bytes",
    "context": "tokens",
    "gib": "GiB",
    "mib": "MiB",
    "minutes": "minutes",
    "percent": "percent",
    "usd": "USD",
}
"""The unit of a number, by a word of its key."""
BOUNDS = {"gt": "more than {}", "exclusiveMinimum": "more than {}", "minimum": "at least {}"}
BOUNDS |= {"maximum": "at most {}", "le": "at most {}"}
"""Bounds of a number, by their names in its schema. pydantic does not translate those of a number that may be text."""
NUMBERS = {"integer": "whole number", "number": "number"}
IN_ITS_SECTION = ("sharing.layout",)
"""Keys with keys of their own that need no heading."""
OF_A_MODE = re.compile(rf"(gpu-nodes\[\]\.)?sharing\.({'|'.join(mode_names())})\.")
WIDTH = 120
ByMode = dict[str, FieldInfo]
"""A key's field, by sharing mode where it has one in each, and else under an empty name."""


class Part(NamedTuple):
    """A section of the page."""

    title: str
    about: str
    example: str
    paths: list[str]
    """Its keys."""


def reference() -> str:
    """A list of all sections, and each with a heading for each key, in the order of a stack file."""
    parts = [*_parts()]
    rows = [f"| [{_code(part.title)}](#{_anchor(part.title)}) | {_first(part.about)} |\n" for part in parts]
    return "\n".join(["| section | contents |\n| --- | --- |\n" + "".join(rows), *chain(*map(_part, parts))])


@cache
def keys() -> dict[str, ByMode]:
    """Every key by its path, in the order of a stack file: once for all modes, and for pools in and outside a list."""
    found: dict[str, ByMode] = {}
    for path, field in fields().items():
        if in_mode := OF_A_MODE.match(path):
            if not in_mode[1]:
                found.setdefault(f"sharing.{path[in_mode.end() :]}", {})[in_mode[2]] = field
        elif path.replace("gpu-nodes[].", "gpu-nodes.") not in found:
            found[path] = {"": field}
    return found


def _parts() -> Iterator[Part]:
    provider = [path for path in keys() if path.startswith("aws:")]
    ours = [path for path in keys() if path not in provider]
    sections = [path for path in ours if _has_keys(path) and path not in IN_ITS_SECTION]
    yield Part(AWS, "Keys of the AWS provider for Pulumi that a stack file may have.", "", provider)
    of_sections: dict[str, list[str]] = defaultdict(list)
    for path in ours:
        if path not in sections:
            above = [section for section in sections if path.startswith((f"{section}.", f"{section}[]."))]
            of_sections[max(above, key=len, default=SINGLE)].append(path)
    for section in sections:
        [field] = keys()[section].values()
        yield Part(section, field.description or "", _examples(section, field), of_sections[section])
    single = of_sections[SINGLE]
    yield Part(SINGLE, f"Keys that are in no section: {', '.join(f'`{path}`' for path in single)}.", "", single)


def _has_keys(path: str) -> bool:
    return any(other.startswith((f"{path}.", f"{path}[].")) for other in keys())


def _part(part: Part) -> Iterator[str]:
    yield f"## {_code(part.title)}\n"
    yield f"{_folded(part.about)}\n"
    if part.example:
        yield f"```yaml\n{part.example}```\n"
    for path in part.paths:
        yield from _key(path)


def _first(text: str) -> str:
    """The first sentence, without an example."""
    return re.split(r", e\.g\. |\. ", text)[0].rstrip(".") + "."


def _anchor(title: str) -> str:
    """As GitHub and MkDocs make it from a heading."""
    return re.sub(r"[^\w -]", "", title).lower().replace(" ", "-")


def _examples(section: str, field: FieldInfo) -> str:
    """How a section looks."""
    name = f"{PROJECT}:{section}" if "." not in section else section.rpartition(".")[2]
    return "# or\n".join(f"{name}: {as_yaml(example)}\n" for example in field.examples or [])


def _key(path: str) -> Iterator[str]:
    yield f"### {_code(path)}\n"
    if path == "sharing.mode":
        yield "How pods share a GPU. [Sharing modes](sharing-modes.md) compares the modes.\n"
        yield f"**Type** {_values(mode_names())} ·\n**Required** ·\n**Example** `mode: mps`\n"
        return
    fields = _with_effect(keys()[path])
    abouts, modes = dict.fromkeys(field.description or "" for field in fields.values()), defaultdict(list)
    for mode, field in fields.items():
        modes[field.description or "", _facts(path, field)].append(mode)
    for about in abouts:
        said = {facts: names for (other, facts), names in modes.items() if other == about}
        is_first = about == next(iter(abouts))
        yield _folded(about if is_first else f"{_values([*chain(*said.values())])}: {about}") + "\n"
        for facts, names in said.items():
            is_of_all = len(modes) == 1 or not is_first
            yield f"{facts}\n" if is_of_all else f"With {_values(names)}:\n{facts}\n"


def _with_effect(fields: ByMode) -> ByMode:
    """The modes in which a key has an effect: one whose default is none has no use for it, or other words for it."""
    used = {mode: field for mode, field in fields.items() if field.description != UNUSED}
    ours = {mode: field for mode, field in used.items() if field.default is not None}
    said = {field.description for field in ours.values()}
    others = {mode: field for mode, field in used.items() if field.description not in said}
    return {**ours, **others} if ours else {mode: field for mode, field in used.items() if mode in ("", "mig")}


def _facts(path: str, field: FieldInfo) -> str:
    """Type, default and example, in one line."""
    example = _example(path, field)
    parts = [f"**Type** {_type(path, field)}", *_default(field)]
    if example is not None:
        key = path.rpartition(".")[2] if {".", ":"} & {*path} else f"{PROJECT}:{path}"
        parts.append(f"**Example** `{key}: {as_yaml(example)}`")
    return " ·\n".join(parts)


def _type(path: str, field: FieldInfo) -> str:
    # `path` only makes it more than one argument, which `Annotated` needs.
    kind: Any = Annotated[field.annotation, path, *field.metadata]
    schema = TypeAdapter(kind).json_schema(by_alias=True)
    return _kind(schema, schema.get("$defs", {}), _unit(path))


def _unit(path: str) -> str:
    words = path.rpartition(".")[2].split("-")
    return next((UNITS[word] for word in words if word in UNITS), "")


def _kind(schema: dict[str, Any], defs: dict[str, Any], unit: str = "", plural: bool = False) -> str:
    """The type in words."""
    if "$ref" in schema:
        return _kind(defs[schema["$ref"].rpartition("/")[2]], defs, unit, plural)
    if inner := schema.get("anyOf") or schema.get("oneOf"):
        kinds = [_kind(each, defs, unit, plural) for each in inner if each.get("type") != "null"]
        return ", or ".join(dict.fromkeys(kinds))
    if values := schema.get("enum") or ([schema["const"]] if "const" in schema else None):
        return _values(values)
    match schema.get("type"):
        case "boolean":
            return "`true` or `false`"
        case "integer" | "number" as kind:
            return _number(NUMBERS[kind], schema, unit)
        case "array":
            return f"list of {_kind(schema['items'], defs, plural=True)}{_length(schema)}"
        case "object" if inner := schema.get("properties"):
            return f"{'sections' if plural else 'section'} with {', '.join(f'`{key}`' for key in inner)}"
        case "object":
            return "names with text values"
    return "text"


def _length(schema: dict[str, Any]) -> str:
    """How many items a list may have."""
    least, most = schema.get("minItems"), schema.get("maxItems")
    if most:
        return f" ({least} to {most})" if least else f" (at most {most})"
    return f" (at least {least})" if least else ""


def _number(kind: str, schema: dict[str, Any], unit: str) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f"{kind} from {low:,} to {high:,}{unit and f' {unit}'}"
    bounds = dict.fromkeys(words.format(f"{schema[bound]:,}") for bound, words in BOUNDS.items() if bound in schema)
    return ", ".join([f"{kind} of {unit}" if unit else kind, *bounds])


def _values(values: Any) -> str:
    *most, last = (f"`{as_yaml(value)}`" for value in values)
    return f"{', '.join(most)} or {last}" if most else last


def _default(field: FieldInfo) -> list[str]:
    if field.is_required():
        return ["**Required**"]
    if field.default is None:
        return [] if "default" in (field.description or "").lower() else ["**Default** none"]
    default = field.get_default(call_default_factory=True)
    if hasattr(default, "model_dump"):
        default = default.model_dump(by_alias=True)
    return [f"**Default** `{as_yaml(default)}`"]


def _example(path: str, field: FieldInfo) -> Any:
    """A value that means something else than the default, where there is one."""
    if path in EXAMPLES:
        return EXAMPLES[path]
    default = None if field.default is PydanticUndefined else field.default
    given = field.examples or _choices(field)
    others = [each for each in given if each != default]
    return others[0] if others else given[0] if given else default


def _choices(field: FieldInfo) -> list[Any]:
    """The values of a key that has few."""
    if field.annotation is bool:
        return [True, False]
    kind: Any = field.annotation
    schema = TypeAdapter(kind).json_schema()
    kinds = [*schema.get("$defs", {}).values(), schema, *schema.get("anyOf", [])]
    return [value for kind in kinds for value in kind.get("enum", [])]


def _code(text: str) -> str:
    return text if " " in text else f"`{text}`"


def _folded(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_on_hyphens=False, break_long_words=False)
