"""The words for what pydantic finds: pydantic's own speak of Python, ours of the stack file."""

import re
import types
import typing
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from sharing.layouts import LIST, PRESET
from sharing.modes import MODES, mode_names
from sharing.printable import visible
from sharing.problems import Problem, did_you_mean, foreign_letters, near
from stacks.stack_file.shape import StackConfig
from stacks.stack_file.yaml import EXAMPLE

Loc = tuple[int | str, ...]
"""Where something stands: keys and numbers of list items."""
MISSING = "is missing"
BY_PROFILE = "The AWS CLI in the kubeconfig cannot send it: put role and setting into a profile, write `aws:profile`."
WAYS_OUT = {
    **{
        f"aws:assumeRoles[].{key}": BY_PROFILE
        for key in ("externalId", "policy", "policyArns", "sourceIdentity", "tags", "transitiveTagKeys")
    },
    "aws:assumeRoles[]": "Write `{roleArn: arn:aws:iam::111122223333:role/ci}`, for example.",
    "aws:defaultTags": "Write `aws:defaultTags: {tags: {team: ml}}`, for example.",
    "sharing": "Write `tandem:sharing: {mode: timeslice}`, for example.",
    "sharing.mode": "Write `mode: timeslice`, for example.",
    "gpu-nodes.name": "Only pools in a list have names: `[{name: fast, …}]`.",
    "gpu-nodes.sharing": "Only pools in a list have their own; here `tandem:sharing` is all.",
    "gpu-nodes[]": "Write `{name: fast, instance-types: [g6.xlarge]}`, for example.",
    "gpu-nodes[].sharing": "Write `sharing: {mode: timeslice}`, for example, or leave it out.",
    "gpu-nodes[].sharing.mode": "Write `mode: timeslice`, for example.",
    "models-clients": "Write `tandem:models-clients: {namespaces: [chat]}`, for example.",
    "models-clients.labels": 'Write `labels: {llm-client: "yes"}`, for example.',
    "models": 'Write `tandem:models: [{name: "llama2:7b"}]`, for example.',
    "models[]": 'Write `{name: "llama2:7b"}`, for example.',
}
TOO_MANY = {"aws:assumeRoles": "Keep one. Chain roles in a profile with `source_profile`."}
"""What to write where neither a hint nor a default says it."""


def place(detail: ErrorDetails) -> Loc:
    """Where the mistake is, in the file's own keys: without the tags that pydantic puts between."""
    loc = [part for part in detail["loc"] if part != "[key]"]
    if loc[:1] == ["gpu-nodes"] and len(loc) > 1:
        del loc[1]
    if "sharing" in loc[:-1] and loc[loc.index("sharing") + 1] in mode_names():
        del loc[loc.index("sharing") + 1]
        loc = [part for part in loc if part not in (PRESET, LIST)]
    if detail["type"].startswith("union_tag"):
        loc.append("mode")
    return tuple(loc)


def where(loc: Loc) -> str:
    """The place as messages name it, e.g. `models[0].name`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).lstrip(".")


def pattern(loc: Loc) -> str:
    """The path without its numbers, e.g. `models[].name`."""
    return "".join("[]" if isinstance(part, int) else f".{part}" for part in loc).lstrip(".")


def problem(detail: ErrorDetails, loc: Loc) -> Problem:
    """The problem that pydantic found at `loc`, with its rule and its way out."""
    kind, path, value, context = detail["type"], where(loc), detail.get("input"), detail.get("ctx", {})
    field = _field(*_home(detail, loc))
    hint = _hint(field)
    if kind in ("missing", "union_tag_not_found") or (kind == "union_tag_invalid" and context["tag"] == "None"):
        return Problem(path, "", MISSING, hint or WAYS_OUT.get(pattern(loc), EXAMPLE))
    if kind == "extra_forbidden":
        way_out = WAYS_OUT.get(pattern(loc)) or did_you_mean(str(loc[-1]), keys(loc[:-1]))
        return Problem(path, "", "unknown key", way_out)
    if kind == "union_tag_invalid":
        tag = str(context["tag"])
        return Problem(path, _shown(tag), "unknown mode", did_you_mean(tag, mode_names()))
    if kind in ("literal_error", "enum"):
        rule = f"must be {context['expected']}".replace("'", "`")
        words = [word.strip("'` ") for word in context["expected"].replace(" or ", ",").split(",")]
        fix = did_you_mean(str(value), words) if near(str(value), words) or not hint else hint
        return Problem(path, _shown(value), rule, fix)
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
    otherwise = hint or WAYS_OUT.get(pattern(loc)) or _default(field)
    if isinstance(value, str) and foreign_letters(value):
        return f"It is written with {foreign_letters(value)}. {hint}".rstrip()
    if kind in ("int_type", "int_from_float", "float_type", "bool_type"):
        # The hint of a number is about its bounds.
        plainer = _plainer(value)
        if kind == "bool_type" and plainer not in ("true", "false"):
            return hint or _default(field)
        return f"Write `{key}: {plainer}`{' without quotes' * isinstance(value, str)}." if plainer else _default(field)
    if kind == "less_than_equal":
        return _default(field)
    if kind == "too_long":
        return TOO_MANY.get(pattern(loc), "Leave some out.")
    if kind == "value_error" and not hint:
        return "Write another."
    if kind == "list_type" and isinstance(value, str) and field is not None and _model_of(field, listed=True) is None:
        return f"Write `{key}: [{value[:60]}]`."
    if kind == "string_type" and isinstance(value, int | float) and not hint:
        return f'Put it in quotes: "{_shown(value) if isinstance(value, bool) else value}".'
    return otherwise


def _plainer(value: object) -> str:
    """What was meant by a number or a truth value in other clothes; empty when that cannot be told."""
    plain = _shown(value).strip("' ").lower().removesuffix(".0")
    words = {"yes": "true", "on": "true", "no": "false", "off": "false", "true": "true", "false": "false"}
    return words.get(plain, plain if re.fullmatch(r"\d{1,9}", plain) else "")


def _default(field: FieldInfo | None) -> str:
    if field is None or field.is_required() or isinstance(field.default, BaseModel | dict):
        return EXAMPLE
    if field.default is None:
        return "Remove the key."
    return f"Remove the key for the default, {_shown(field.default)}."


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
        text = visible(value)
        return f"'{text[:60]}…'" if len(text) > 60 else f"'{text}'"
    if isinstance(value, list):
        alone = len(value) == 1 and not isinstance(value[0], list | dict)
        return f"[{_shown(value[0]).strip(chr(39))}]" if alone else f"a list of {len(value)}" if value else "[]"
    return "nothing" if value is None else "a mapping"


def keys(loc: Loc) -> list[str]:
    """The keys that the mapping at `loc` may have."""
    if loc[-1:] == ("sharing",):
        return list(dict.fromkeys(field.alias or name for mode in MODES for name, field in mode.model_fields.items()))
    model: Any = _model_of(_field(StackConfig, loc), isinstance(loc[-1], int)) if loc else StackConfig
    return [field.alias or name for name, field in model.model_fields.items()] if model else []


def _home(detail: ErrorDetails, loc: Loc) -> tuple[type[BaseModel], Loc]:
    """The model to look a place up in, and the place there: for sharing, the mode that the file has."""
    for mode in MODES:
        if detail["loc"][:2] == ("sharing", mode.model_fields["mode"].default):
            return mode, loc[1:]
    return StackConfig, loc


def _field(model: type[BaseModel], loc: Loc) -> FieldInfo | None:
    """The field at `loc`; the item of a list answers for the list."""
    field: FieldInfo | None = None
    current: type[BaseModel] | None = model
    for part, after in zip(loc, (*loc[1:], ""), strict=True):
        if isinstance(part, int):
            continue
        if current is None:
            return field
        found = {f.alias or name: f for name, f in current.model_fields.items()}.get(str(part))
        if found is None:
            return None
        field, current = found, _model_of(found, isinstance(after, int))
    return field


def _model_of(field: FieldInfo | None, listed: bool) -> type[BaseModel] | None:
    """The model that a field holds, or a list in it where `listed`; of a union, the member that has most to say."""
    pending: list[tuple[Any, bool]] = [(field.annotation, False)] if field else []
    while pending:
        annotation, in_list = pending.pop()
        origin = typing.get_origin(annotation)
        if in_list is listed and isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return annotation
        if origin in (list, typing.Annotated, typing.Union, types.UnionType):
            pending.extend((each, in_list or origin is list) for each in typing.get_args(annotation))
    return None
