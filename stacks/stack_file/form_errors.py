"""Turns pydantic's errors about Python values into errors and fixes for the stack file."""

import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from sharing.modes.modes import MODES, TimeSlicing, mode_names
from sharing.names import PROJECT
from sharing.printable import visible, without_secrets
from sharing.problems import LIMIT, OBJECT, SUBJECT, Problem, did_you_mean, foreign_letters, in_quotes, near
from sharing.section import Fix, WrongFormError
from sharing.sections.config import StackConfig
from stacks.stack_file.yaml import as_yaml

Loc = tuple[int | str, ...]
"""Location of a value: keys and indexes of list items."""
OF_SEVERAL_FORMS = ("gpu-nodes", "sharing", "layout")
"""Keys after which pydantic adds the form of the value to a location."""
MISSING = "is missing"
MOST_SHOWN = 60
"""Characters of a wrong value in a message."""
# botocore reads none of them from a profile (credentials.py, `_get_role_config`).
_BY_PROCESS = (
    "It is not supported. Call `aws sts assume-role` in the `credential_process` of a profile and write `aws:profile`."
)
UNSUPPORTED = {
    "gpu-nodes.name": "Remove it, or write a list of pools: `[{name: fast, …}]`.",
    "gpu-nodes.sharing": "Use `tandem:sharing`, or write a list of pools.",
    "aws:assumeRoles[].externalId": "The AWS CLI in the kubeconfig cannot send it. "
    "Put it and `role_arn` into a profile and write `aws:profile`.",
    **{
        f"aws:assumeRoles[].{key}": _BY_PROCESS
        for key in ("policy", "policyArns", "sourceIdentity", "tags", "transitiveTagKeys")
    },
}
"""Fixes for keys that exist elsewhere, but not in a stack file."""
WAYS = {
    "mps-per-model": "Write `mode: mps` with `limits: per-model`.",
    "mig-single": "Write `mode: mig` with `strategy: single`.",
    "mig-mixed": "Write `mode: mig` with `strategy: mixed`.",
}
"""Fixes for names of modes (`Mode.way`) that commands show, and that a stack file writes as two settings."""
TOO_MANY = {
    "aws:assumeRoles": "Keep one, and chain roles in a profile with `source_profile`.",
    "budget.alert.emails": "Write the address of a mailing list.",
}
"""Fixes for lists that are too long."""
PERSONAL = frozenset({"budget.alert", "budget.alert.emails", "budget.alert.emails[]", "ui.admin-email"})
"""Keys whose values no message repeats: e-mail addresses are personal data, and messages end up in logs."""


@cache
def fields() -> dict[str, FieldInfo]:
    """Every key of a stack file by its path; those of a sharing mode with the mode: `sharing.mps.replicas`."""
    return dict(_fields_of(StackConfig, ""))


def _fields_of(model: type[BaseModel], above: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        path = f"{above}{field.alias or name}"
        yield path, field
        for member, listed in _members(field.annotation):
            mode = f"{member.model_fields['mode'].default}." if member in MODES else ""
            yield from _fields_of(member, f"{path}{'[]' * listed}.{mode}")


def _members(annotation: Any, listed: bool = False) -> Iterator[tuple[type[BaseModel], bool]]:
    """The models in the type of a field, and whether they are in a list."""
    origin = typing.get_origin(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, listed
    elif origin in (list, typing.Annotated, typing.Union, types.UnionType):
        for each in typing.get_args(annotation):
            yield from _members(each, listed or origin is list)


def hint(path: str) -> str:
    """The fix for the key at a path of `fields`, or for an item of its list: its `Fix`, or else its examples."""
    field = _field(path)
    if field is None:
        return ""
    fix = next((each.text for each in field.metadata if isinstance(each, Fix)), "")
    return fix or _by_examples(path, field.examples or [])


def _by_examples(path: str, examples: Sequence[Any]) -> str:
    """E.g. ``Write `replicas: 2`, for example.``; empty without examples."""
    key = path.removesuffix("[]").rpartition(".")[2]
    settings = [f"`{key if '.' in path or ':' in key else f'{PROJECT}:{key}'}: {as_yaml(each)}`" for each in examples]
    if path.endswith("[]"):
        items = [item for each in examples if isinstance(each, list) for item in each if isinstance(item, dict)]
        settings = [f"`{as_yaml(item)}`" for item in items] or settings
    if len(settings) == 1:
        return f"Write {settings[0]}, for example."
    return f"Write {' or '.join(settings)}." if settings else ""


def _without_mode(path: str) -> str:
    return re.sub(rf"\bsharing\.({'|'.join(mode_names())})\.", "sharing.", path)


def place(detail: ErrorDetails) -> Loc:
    """Location of the error in the keys of the file, without the tags that pydantic adds."""
    parts = pairwise(("", *detail["loc"]))
    loc = [part for before, part in parts if part != "[key]" and before not in OF_SEVERAL_FORMS]
    if detail["type"].startswith("union_tag"):
        loc.append("mode")
    return tuple(loc)


def where(loc: Loc) -> str:
    """The location as messages name it, e.g. `models[0].name`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).lstrip(".")


def pattern(loc: Loc) -> str:
    """The path without its numbers, e.g. `models[].name`."""
    return "".join("[]" if isinstance(part, int) else f".{part}" for part in loc).lstrip(".")


def problem(detail: ErrorDetails, loc: Loc) -> Problem:
    """The problem that pydantic found at `loc`, with its rule and its fix."""
    kind, path, value, context = detail["type"], where(loc), detail.get("input"), detail.get("ctx", {})
    key = _path_with_mode(detail, loc)
    fix = hint(key)
    shown = "" if key in PERSONAL else _shown(value)
    if kind == "union_tag_not_found" and (misspelt := near("mode", map(str, detail["input"]))):
        wrong = where((*loc[:-1], misspelt[0]))
        return Problem(wrong, "", "unknown key", did_you_mean(misspelt[0], keys(loc[:-1])))
    if detail["type"].startswith("union_tag"):
        fix = _by_examples(f"sharing.{loc[-1]}", [TimeSlicing().mode])
    if kind in ("missing", "union_tag_not_found") or (kind == "union_tag_invalid" and context["tag"] == "None"):
        return Problem(path, "", MISSING, fix)
    if kind == "extra_forbidden" and loc[:-1] == ("aws:defaultTags",) and not near(str(loc[-1]), ["tags"]):
        return Problem(path, "", "unknown key", f"Write `{{tags: {{{loc[-1]}: …}}}}`.")
    if kind == "extra_forbidden":
        return Problem(path, "", "unknown key", UNSUPPORTED.get(key) or did_you_mean(str(loc[-1]), keys(loc[:-1])))
    if kind == "union_tag_invalid":
        tag = str(context["tag"])
        return Problem(path, _shown(tag), "unknown mode", WAYS.get(tag) or did_you_mean(tag, mode_names()), OBJECT)
    if kind in ("literal_error", "enum"):
        words = [word.strip("'` ") for word in context["expected"].replace(" or ", ",").split(",")]
        is_near = bool(near(str(value), words))
        if not is_near and not fix:
            return Problem(path, _shown(value), "unknown value", did_you_mean(str(value), words), OBJECT)
        rule = f"must be {context['expected']}".replace("'", "`")
        return Problem(path, _shown(value), rule, did_you_mean(str(value), words) if is_near else fix, LIMIT)
    rule, wording = _rule(kind, context, detail["msg"])
    rule = rule.removeprefix(f"{value!r} ").removeprefix(f"{value} ")
    own_fix = getattr(context.get("error"), "fix", "")
    return Problem(path, shown, rule, own_fix or _fix(kind, value, loc, key), wording)


def _rule(kind: str, context: Mapping[str, Any], message: str) -> tuple[str, str]:
    """The rule, and how it makes a sentence with the value."""
    musts = {
        "int_type": "must be a whole number",
        "float_type": "must be a number",
        "finite_number": "must be a finite number",
        "string_type": "must be text",
        "bool_type": "must be true or false",
        "list_type": "must be a list",
        "dict_type": "must be a mapping",
        "model_type": "must be a mapping",
    }
    bounds = {
        "greater_than_equal": ("must be at least {}", "ge"),
        "less_than_equal": ("must be at most {}", "le"),
        "greater_than": ("must be more than {}", "gt"),
        "too_short": ("must have at least {} entries", "min_length"),
        "too_long": ("must have at most {} entries", "max_length"),
    }
    if kind in bounds:
        text, key = bounds[kind]
        return text.format(f"{context[key]:,}").replace("1 entries", "1 entry"), LIMIT
    if kind == "string_pattern_mismatch":
        return "is not valid", SUBJECT
    if kind == "value_error":
        error = context["error"]
        return str(error), LIMIT if isinstance(error, WrongFormError) else SUBJECT
    return musts.get(kind, message), LIMIT


def _fix(kind: str, value: object, loc: Loc, path: str) -> str:
    key, fix, field = loc[-1], hint(path), _field(path)
    if isinstance(value, str) and foreign_letters(value):
        return f"It contains {foreign_letters(value)}. {fix}".rstrip()
    if kind in ("int_type", "float_type", "bool_type"):
        # The hint of a number is about its bounds.
        plainer = _plainer(value)
        is_truth = plainer in ("true", "false")
        if kind == "float_type" and (is_truth or not plainer):
            return fix or "Write a number such as 1.50, or remove the key."
        if is_truth != (kind == "bool_type"):
            return _default(field) if is_truth else fix or _default(field)
        return f"Write `{key}: {plainer}`{' without quotes' * isinstance(value, str)}." if plainer else _default(field)
    if kind == "less_than_equal":
        return fix if fix and field is not None and field.default is None else _default(field)
    if kind == "too_long":
        return TOO_MANY.get(path, "Remove some.")
    if kind == "value_error" and not fix:
        return "Write another value."
    if kind == "list_type" and isinstance(value, str) and "[" not in fix and field is not None:
        # A list within text that is not quite JSON, or words with commas or spaces between them.
        items = [word for part in re.findall(r"[\w./:@+=-]+", value[:MOST_SHOWN]) if (word := part.strip("-:"))]
        return f"Write `{key}: [{', '.join(items)}]`." if items else _default(field)
    if kind == "string_type" and isinstance(value, int | float) and not fix:
        return in_quotes(_shown(value) if isinstance(value, bool) else f"{value}")
    if kind == "string_type" and field is None:
        # A key of the user's own, e.g. that of a tag.
        return f'Write `{key}: ""`, or any text.'
    return fix or _default(field)


def _plainer(value: object) -> str:
    """The number or boolean that a text probably means; empty if unclear."""
    plain = _shown(value).strip("' ").lower().removesuffix(".0")
    words = {"yes": "true", "on": "true", "no": "false", "off": "false", "true": "true", "false": "false"}
    return words.get(plain, plain if re.fullmatch(r"\d{1,9}", plain) else "")


def _default(field: FieldInfo | None) -> str:
    if field is None or field.default is None:
        return "Remove the key."
    return f"Remove the key for the default, {_shown(field.default)}."


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return _shortened(f"{value}")
    if isinstance(value, str):
        return f"'{_shortened(visible(without_secrets(value)))}'"
    if isinstance(value, list):
        alone = len(value) == 1 and not isinstance(value[0], list | dict)
        return f"[{_shown(value[0]).strip(chr(39))}]" if alone else f"a list of {len(value)}" if value else "[]"
    if isinstance(value, dict):
        return f"a mapping of {len(value)}" if len(value) > 1 else "a mapping"
    return "nothing"


def _shortened(text: str) -> str:
    return f"{text[:MOST_SHOWN]}…" if len(text) > MOST_SHOWN else text


def keys(loc: Loc) -> list[str]:
    """The keys that the mapping at `loc` can have."""
    above = pattern(loc)
    places = (_without_mode(path).rpartition(".") for path in fields())
    return list(dict.fromkeys(key for home, _, key in places if home == above))


def _path_with_mode(detail: ErrorDetails, loc: Loc) -> str:
    """The path of the key in `fields`."""
    parts = detail["loc"]
    mode = next((part for before, part in pairwise(parts) if before == "sharing"), "")
    return pattern(loc).replace("sharing.", f"sharing.{mode}.", 1) if mode else pattern(loc)


def _field(path: str) -> FieldInfo | None:
    """The field at a path; the item of a list has the field of the list."""
    return fields().get(path) or fields().get(path.removesuffix("[]"))
