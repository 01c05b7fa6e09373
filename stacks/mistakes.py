"""Turns what is wrong with a stack file into problems: all of them at once, each with its way out."""

import copy
import datetime
import json
import re
import types
import typing
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from sharing.assessment import Assessment, assess
from sharing.models import models
from sharing.modes import MODES, mode_names
from sharing.problems import Problem, did_you_mean, foreign_letters, near, told
from stacks import source
from stacks.shape import OWN_NUMBERS, SECTIONS, StackConfig

MOST_PASSES = 5
"""A repaired mistake can uncover the next (an unknown mode hides a wrong number of replicas); no more than these."""
MISSING = "is missing"
Loc = tuple[int | str, ...]

STAND_INS: dict[str, Any] = {
    "aws:region": "us-east-1",
    "sharing": {"mode": "timeslice"},
    "sharing.mode": "timeslice",
    "models": [{"name": "llama3.2:1b"}],
    "models[]": {"name": "llama3.2:1b"},
    "models[].name": "llama3.2:1b",
    "gpu-nodes.instance-types[]": "g4dn.xlarge",
    "cluster.system-nodes.instance-types[]": "t3.medium",
    "cluster.public-access-cidrs[]": "192.0.2.1/32",
}
"""What is put for an unreadable value that has no default, only to be able to judge the rest of the file."""
WAYS_OUT = {
    "sharing": "Write `tandem:sharing: {mode: timeslice}`, for example.",
    "sharing.mode": "Write `mode: timeslice`, for example.",
    "models": 'Write `tandem:models: [{name: "llama2:7b"}]`, for example.',
    "models[]": 'Write `{name: "llama2:7b"}`, for example.',
}
"""What to write where neither a hint nor a default says it."""


class RefusedError(Exception):
    """A stack that must not be created; says every reason, and carries them as `problems`."""

    def __init__(self, problems: tuple[Problem, ...], name: str) -> None:
        self.problems = problems
        super().__init__("\n".join(told(name, "mistake", problems)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A stack file, read as far as it can be."""

    name: str
    config: StackConfig
    """With stand-ins for what could not be read: to be used only when there are no problems."""
    problems: tuple[Problem, ...]
    assessment: Assessment

    def accepted(self) -> StackConfig:
        """The config; raises `RefusedError` with every problem when there is one."""
        if self.problems:
            raise RefusedError(self.problems, self.name)
        return self.config


def read_file(path: Path, today: datetime.date | None = None) -> Reading:
    """Reads and judges the stack file at `path`; raises `stacks.source.UnreadableError` when it is no YAML."""
    found = source.read(path, SECTIONS)
    return read_values(found.sections, found.region, path.name, found.problems, today, found.unread)


def read_values(
    sections: Mapping[str, Any],
    region: object,
    name: str,
    problems: tuple[Problem, ...] = (),
    today: datetime.date | None = None,
    unread: Collection[str] = (),
) -> Reading:
    """Judges the values of a stack file; `name` stands in messages, `problems` and `unread` were found before."""
    raw = {key: value for key, value in sections.items() if value is not None}
    config, misread, doubtful = _validated(raw if region is None else {**raw, source.REGION: region}, unread)
    unreadable = {problem.path for problem in (*problems, *misread)} | doubtful
    wrong = [*misread, *_contradictions(config, unreadable)]
    assessment = assess(config.setup(today or datetime.date.today()), {*unreadable, *(each.path for each in wrong)})
    return Reading(name=name, config=config, problems=(*problems, *wrong, *assessment.problems), assessment=assessment)


def _validated(raw: dict[str, Any], unread: Collection[str]) -> tuple[StackConfig, list[Problem], set[str]]:
    """The config with stand-ins, its mistakes, and what probably stands in the file under a misspelt key."""
    values = json.loads(source.as_json(raw))
    found, doubtful = {}, set(unread)
    for loc in [*_encrypted(values)]:
        way_out = "Set it again without `--secret`: it is none."
        found[_path(loc)] = Problem(_path(loc), "an encrypted value", "must be readable", way_out)
        _repair(values, loc)
    for _ in range(MOST_PASSES):
        try:
            config = StackConfig.model_validate_json(source.as_json(values), by_name=False, by_alias=True)
        except ValidationError as error:
            details = [(detail, _place(detail)) for detail in error.errors(include_url=False)]
        else:
            return (
                config,
                [each for each in found.values() if each.rule != MISSING or each.path not in doubtful],
                doubtful,
            )
        for detail, loc in details:
            if detail["type"] == "extra_forbidden":
                doubtful |= {_path((*loc[:-1], key)) for key in near(str(loc[-1]), _keys(loc[:-1]))}
            found.setdefault(_path(loc), _problem(detail, loc))
        for _, loc in sorted(details, key=lambda pair: [str(part) for part in pair[1]], reverse=True):
            _repair(values, loc)
    raise AssertionError(f"stand-ins are mistakes themselves: {sorted(found)}")


def _encrypted(value: object, loc: Loc = ()) -> Iterator[Loc]:
    """Where Pulumi keeps secrets: `{secure: …}`, as `pulumi config set --secret` writes it."""
    if isinstance(value, dict) and [*value] == ["secure"] and isinstance(value["secure"], str):
        yield loc
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _encrypted(item, (*loc, key))


def _place(detail: ErrorDetails) -> Loc:
    """Where the mistake is, in the file's own keys: without the tags that pydantic puts between."""
    loc = [part for part in detail["loc"] if part != "[key]"]
    if loc[:1] == ["sharing"] and len(loc) > 1 and loc[1] in mode_names():
        del loc[1]
    if detail["type"].startswith("union_tag"):
        loc.append("mode")
    return tuple(loc)


def _path(loc: Loc) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).lstrip(".")


def _pattern(loc: Loc) -> str:
    """The path without its numbers, e.g. `models[].name`."""
    return "".join("[]" if isinstance(part, int) else f".{part}" for part in loc).lstrip(".")


def _repair(values: dict[str, Any], loc: Loc) -> None:
    """Puts a stand-in at `loc`, or takes the value away so that its default holds."""
    parent: Any = values
    for part in loc[:-1]:
        if isinstance(parent, dict) and part not in parent:
            return
        parent = parent[part]
    if (pattern := _pattern(loc)) in STAND_INS:
        parent[loc[-1]] = copy.deepcopy(STAND_INS[pattern])
    elif isinstance(parent, dict):
        parent.pop(loc[-1], None)


def _problem(detail: ErrorDetails, loc: Loc) -> Problem:
    kind, path, value, context = detail["type"], _path(loc), detail.get("input"), detail.get("ctx", {})
    field = _field(StackConfig, loc)
    hint = _hint(field)
    if kind in ("missing", "union_tag_not_found") or (kind == "union_tag_invalid" and context["tag"] == "None"):
        return Problem(path, "", MISSING, hint or WAYS_OUT.get(_pattern(loc), source.EXAMPLE))
    if kind == "extra_forbidden":
        return Problem(path, "", "unknown key", did_you_mean(str(loc[-1]), _keys(loc[:-1])))
    if kind == "union_tag_invalid":
        tag = str(context["tag"])
        return Problem(path, _shown(tag), "unknown mode", did_you_mean(tag, mode_names()))
    if kind in ("literal_error", "enum"):
        rule = f"must be {context['expected']}".replace("'", "`")
        words = [word.strip("'` ") for word in context["expected"].replace(" or ", ",").split(",")]
        return Problem(path, _shown(value), rule, hint or did_you_mean(str(value), words))
    rule = _rule(kind, context, detail["msg"]).removeprefix(f"{value!r} ").removeprefix(f"{value} ")
    return Problem(path, _shown(value), rule, _way_out(kind, value, loc, field))


def _rule(kind: str, context: Mapping[str, Any], message: str) -> str:
    plain = {
        "int_type": "must be a whole number",
        "int_from_float": "must be a whole number",
        "float_type": "must be a number",
        "finite_number": "must be a finite number",
        "string_type": "must be text",
        "bool_type": "must be true or false",
        "list_type": "must be a list",
        "dict_type": "must be a mapping",
        "model_type": "must be a mapping",
        "model_attributes_type": "must be a mapping",
        "string_pattern_mismatch": "is not written as it must be",
    }
    bounds = {
        "greater_than_equal": ("must be at least {}", "ge"),
        "less_than_equal": ("must be at most {}", "le"),
        "greater_than": ("must be more than {}", "gt"),
        "too_short": ("must have at least {} entries", "min_length"),
        "too_long": ("must have at most {} entries", "max_length"),
    }
    if kind in plain:
        return plain[kind]
    if kind in bounds:
        text, key = bounds[kind]
        return text.format(f"{context[key]:,}").replace("1 entries", "1 entry")
    return str(context.get("error", message))


def _way_out(kind: str, value: object, loc: Loc, field: FieldInfo | None) -> str:
    key, hint = loc[-1], _hint(field)
    otherwise = hint or WAYS_OUT.get(_pattern(loc)) or _default(field)
    if isinstance(value, str) and foreign_letters(value):
        return f"It is written with {foreign_letters(value)}. {hint}".rstrip()
    if kind in ("int_type", "int_from_float", "float_type", "bool_type"):
        # The hint of a number is about its bounds.
        plainer = _plainer(value)
        return f"Write `{key}: {plainer}`{' without quotes' * isinstance(value, str)}." if plainer else _default(field)
    if kind == "less_than_equal":
        return _default(field)
    if kind == "too_long":
        return "Leave some out."
    if kind == "value_error" and not hint:
        return "Write another."
    if kind == "list_type" and isinstance(value, str) and field is not None and _model_of(field) is None:
        return f"Write `{key}: [{value[:60]}]`."
    if kind == "string_type" and isinstance(value, int | float) and not hint:
        return f'Put it in quotes: "{value}".'
    return otherwise


def _plainer(value: object) -> str:
    """What was meant by a number or a truth value in other clothes; empty when that cannot be told."""
    plain = _shown(value).strip("' ").lower().removesuffix(".0")
    words = {"yes": "true", "on": "true", "no": "false", "off": "false", "true": "true", "false": "false"}
    return words.get(plain, plain if re.fullmatch(r"\d{1,9}", plain) else "")


def _default(field: FieldInfo | None) -> str:
    if field is None or field.is_required() or isinstance(field.default, BaseModel | dict):
        return source.EXAMPLE
    if field.default is None:
        return "It can be left out."
    return f"Left out, it is {_shown(field.default)}."


def _hint(field: FieldInfo | None) -> str:
    """The way out that a field gives, or the items of its list."""
    items = (
        [arg for arg in typing.get_args(field.annotation) if typing.get_origin(arg) is typing.Annotated]
        if field
        else []
    )
    within = [one for item in items for one in typing.get_args(item) if isinstance(one, FieldInfo)]
    for extra in (each.json_schema_extra for each in (field, *within) if each):
        if isinstance(extra, dict) and "fix" in extra:
            return str(extra["fix"])
    return ""


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{value}"[:40]
    if isinstance(value, str):
        text = "".join(char if char.isprintable() else "?" for char in value)
        return f"'{text[:60]}…'" if len(text) > 60 else f"'{text}'"
    if isinstance(value, list):
        alone = len(value) == 1 and not isinstance(value[0], list | dict)
        return f"[{_shown(value[0]).strip(chr(39))}]" if alone else f"a list of {len(value)}" if value else "[]"
    return "nothing" if value is None else "a mapping"


def _keys(loc: Loc) -> list[str]:
    """The keys that the mapping at `loc` may have."""
    if loc == ("sharing",):
        return list(dict.fromkeys(field.alias or name for mode in MODES for name, field in mode.model_fields.items()))
    model: Any = StackConfig if not loc else _model_of(_field(StackConfig, loc))
    return [field.alias or name for name, field in model.model_fields.items()] if model else []


def _field(model: type[BaseModel], loc: Loc) -> FieldInfo | None:
    """The field at `loc`; the item of a list answers for the list."""
    field: FieldInfo | None = None
    current: type[BaseModel] | None = model
    for part in loc:
        if isinstance(part, int):
            continue
        if current is None:
            return field
        found = {f.alias or name: f for name, f in current.model_fields.items()}.get(str(part))
        if found is None:
            return None
        field, current = found, _model_of(found)
    return field


def _model_of(field: FieldInfo | None) -> type[BaseModel] | None:
    """The model that a field holds, alone, in a list, or as the member of a union that has most to say."""
    pending: list[Any] = [field.annotation] if field else []
    while pending:
        annotation = pending.pop()
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return annotation
        if typing.get_origin(annotation) in (list, typing.Annotated, typing.Union, types.UnionType):
            pending.extend(typing.get_args(annotation))
    return None


def _contradictions(config: StackConfig, misread: set[str]) -> Iterator[Problem]:
    """Values that are fine alone and wrong together."""
    nodes = config.gpu_nodes
    if not {"gpu-nodes.min", "gpu-nodes.desired", "gpu-nodes.max"} & misread:
        if nodes.desired > nodes.max:
            rule = f"must be at most `max`, {nodes.max}"
            yield Problem("gpu-nodes.desired", str(nodes.desired), rule, f"Write `max: {nodes.desired}` as well.")
        if nodes.desired and nodes.min > nodes.desired:
            rule = f"must be at most `desired`, {nodes.desired}"
            yield Problem("gpu-nodes.min", str(nodes.min), rule, "Write `min: 0`.")
        if not nodes.desired and nodes.min:
            yield Problem(
                "gpu-nodes.min", str(nodes.min), "must be 0 for a parked stack (`desired: 0`)", "Write `min: 0`."
            )
    for path, names in (
        ("gpu-nodes.instance-types", nodes.instance_types),
        ("cluster.system-nodes.instance-types", config.cluster.system_nodes.instance_types),
    ):
        for index, name in enumerate(names):
            if name in names[:index] and f"{path}[{index}]" not in misread:
                yield Problem(f"{path}[{index}]", name, "stands twice", "Keep one of the two.")
    yield from _model_contradictions(config, misread)


def _model_contradictions(config: StackConfig, misread: set[str]) -> Iterator[Problem]:
    ids = [settings.id for settings in config.models]
    for index, settings in enumerate(config.models):
        path = f"models[{index}]"
        if settings.id and settings.id in ids[:index]:
            yield Problem(f"{path}.id", settings.id, "must be different for each model", "Leave it out, or number it.")
        if {path, f"{path}.name", *(f"{path}.{key}" for key in OWN_NUMBERS)} & misread:
            continue
        own = settings.own_numbers
        if own and (missing := [key for key in OWN_NUMBERS if key not in own]):
            rule = "a model of one's own is described by " + ", ".join(OWN_NUMBERS)
            yield Problem(path, ", ".join(own), rule, f"Add {', '.join(missing)}.")
        elif settings.model() is None:
            fix = f"{did_you_mean(settings.name, models())} Or describe your own by {', '.join(OWN_NUMBERS)}."
            yield Problem(f"{path}.name", f"'{settings.name}'", "unknown model", fix)
