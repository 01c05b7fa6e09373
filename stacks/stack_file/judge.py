"""Judges a stack once. Returns a `Plan`, which Pulumi deploys and every command uses, or all its errors."""

import copy
import datetime
import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from sharing.aws.tags import warn_of_claimed_volumes
from sharing.hardware.prices import Book
from sharing.problems import Problem, format_problems, near
from sharing.stack.config import SECTIONS, StackConfig
from sharing.stack.setup import Setup
from sharing.verdict.assessment import Assessment, assess
from sharing.verdict.rules.budget import find_wrong_limits
from stacks.stack_file import hints
from stacks.stack_file.clients import warn_of_clients
from stacks.stack_file.contradictions import find_contradictions, is_named_in_doubt
from stacks.stack_file.park_schedules import warn_of_park
from stacks.stack_file.provider_keys import HONOURED, refuse_keys
from stacks.stack_file.yaml import Source, as_json, from_json, read


class RefusedError(Exception):
    """A stack that must not be created: the message lists every error."""

    def __init__(self, judged: "Judged") -> None:
        super().__init__("\n".join(format_problems(judged.name, "error", judged.problems)))
        self.judged = judged


MOST_PASSES = 5
"""Fixing one error can reveal the next (an unknown mode hides a wrong number of replicas); this limits the passes."""

STAND_INS: dict[str, Any] = {
    "aws:region": "us-east-1",
    "sharing": {"mode": "timeslice"},
    "sharing.mode": "timeslice",
    "sharing.layout[]": {"profile": "1g.5gb"},
    "sharing.layout[].profile": "1g.5gb",
    "models": [{"name": "llama3.2:1b"}],
    "models[]": {"name": "llama3.2:1b"},
    "models[].name": "llama3.2:1b",
    "models[].spill[]": "gpu",
    "gpu-nodes.instance-types[]": "g4dn.xlarge",
    "gpu-nodes[]": {"name": "gpu"},
    "gpu-nodes[].name": "gpu",
    "gpu-nodes[].instance-types[]": "g4dn.xlarge",
    "cluster.system-nodes.instance-types[]": "t3.medium",
    "cluster.public-access-cidrs[]": "192.0.2.1/32",
    "aws:assumeRoles[]": {"roleArn": "arn:aws:iam::111122223333:role/ci"},
    "aws:assumeRoles[].roleArn": "arn:aws:iam::111122223333:role/ci",
    "aws:allowedAccountIds[]": "111122223333",
    "cluster.admins[]": "arn:aws:iam::111122223333:role/ci",
    "cluster.zone-names[]": "us-east-1a",
    "models-clients.namespaces[]": "default",
    "park.schedule": hints.PARKS,
    "park.wake": hints.WAKES,
    "budget.alert.max-usd": 1000,
    "budget.alert.emails": ["ops@example.com"],
    "budget.alert.emails[]": "ops@example.com",
}
"""Values that replace unreadable ones without a default, so that the rest of the file can be judged. A pool's own
sharing uses the stand-ins of `sharing`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A stack that the rules accept."""

    stack: str
    config: StackConfig
    setup: Setup
    assessment: Assessment


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A stack, read and judged as far as possible."""

    name: str
    """Name of its file, for messages."""
    config: StackConfig
    """With stand-ins for unreadable values: use it only if there are no problems."""
    setup: Setup
    assessment: Assessment
    problems: tuple[Problem, ...]

    @property
    def stack(self) -> str:
        """The stack's name."""
        return stack_name(self.name)

    @property
    def refused(self) -> bool:
        """Whether the stack must not be created."""
        return bool(self.problems)

    def plan(self) -> Plan:
        """The plan. Raises `RefusedError` with every problem, if there are any."""
        if self.refused:
            raise RefusedError(self)
        return Plan(stack=self.stack, config=self.config, setup=self.setup, assessment=self.assessment)


def judge_file(
    path: Path,
    *,
    today: datetime.date | None = None,
    find_prices: Callable[[object], Book | None] | None = None,
    strict: bool = False,
) -> Judged:
    """Judges the stack file at `path`, with the prices that `find_prices` returns for its `aws:region`.

    `strict` turns warnings about missing data into errors. Raises `UnreadableError` if the file is not YAML.
    """
    source = read(path, SECTIONS)
    book = find_prices(source.region) if find_prices else None
    return judge(source, path.name, today=today, book=book, strict=strict)


def judge(
    source: Source,
    name: str,
    *,
    today: datetime.date | None = None,
    book: Book | None = None,
    strict: bool = False,
    compared_modes: Collection[str] = (),
) -> Judged:
    """Judges the values of a stack file; `name` is the name of the file, for messages.

    Fixes do not suggest `compared_modes`, which the caller judges, too.
    """
    problems = (*source.problems, *refuse_keys(source.provider))
    honoured = {key: value for key, value in source.provider.items() if key in HONOURED}
    raw = {key: value for key, value in {**source.sections, **honoured}.items() if value is not None}
    config, misread, doubtful = _validate(raw, source.unread)
    unreadable = {problem.path for problem in (*problems, *misread)} | doubtful
    wrong = [*misread, *find_contradictions(config, unreadable)]
    unreadable |= {problem.path for problem in wrong}
    if is_named_in_doubt(config, unreadable):
        # Then it is unknown which model runs on which pool.
        unreadable |= {f"models[{index}].pool" for index in range(len(config.models))}
    setup = config.setup(today or datetime.date.today())
    setup = replace(setup, book=book, compared_modes=frozenset(compared_modes))
    assessment = assess(setup, unreadable)
    problems = (*problems, *wrong, *find_wrong_limits(setup, assessment.cost), *assessment.problems)
    warnings = (
        *assessment.warnings,
        *warn_of_clients(config.models_clients),
        *warn_of_park(config, setup),
        *warn_of_claimed_volumes(config.given_tags()),
    )
    if strict:
        problems = (*problems, *(warning for warning in warnings if not warning.judged))
        warnings = tuple(warning for warning in warnings if warning.judged)
    if source.text and (problems or warnings):
        from stacks.stack_file.positions import Document, locate

        document = Document(name, source.text)
        problems, warnings = locate(problems, [document]), locate(warnings, [document])
    assessment = replace(assessment, warnings=warnings)
    return Judged(name=name, config=config, setup=setup, assessment=assessment, problems=problems)


def stack_name(file: str | Path) -> str:
    """`timeslice` for `Pulumi.timeslice.yaml`, else the file's name without its ending."""
    return Path(file).stem.removeprefix("Pulumi.")


def _validate(raw: dict[str, Any], unread: Collection[str]) -> tuple[StackConfig, list[Problem], set[str]]:
    """The config with stand-ins, its errors, and the settings that a misspelt key probably means."""
    values: dict[str, Any] = json.loads(as_json(from_json(raw)))
    found: dict[str, Problem] = {}
    doubtful = set(unread)
    for loc in list(_encrypted(values)):
        fix = "Set it again without `--secret`."
        found[hints.where(loc)] = Problem(hints.where(loc), "an encrypted value", "is not supported here", fix)
        _repair(values, loc)
    for _ in range(MOST_PASSES):
        try:
            config = StackConfig.model_validate_json(as_json(values), by_name=False, by_alias=True)
        except ValidationError as error:
            details = [(detail, hints.place(detail)) for detail in error.errors()]
        else:
            # A key that is probably there, but misspelt, is not reported as missing.
            errors = [each for each in found.values() if each.rule != hints.MISSING or each.path not in doubtful]
            return config, errors, doubtful
        for detail, loc in details:
            if detail["type"] == "extra_forbidden":
                doubtful |= {hints.where((*loc[:-1], key)) for key in near(str(loc[-1]), hints.keys(loc[:-1]))}
            found.setdefault(hints.where(loc), hints.problem(detail, loc))
        for _, loc in sorted(details, key=lambda pair: [str(part) for part in pair[1]], reverse=True):
            _repair(values, loc)
    raise AssertionError(f"stand-ins are invalid themselves: {sorted(found)}")


def _encrypted(value: object, loc: hints.Loc = ()) -> Iterator[hints.Loc]:
    """Locations of secrets: `{secure: …}`, as `pulumi config set --secret` writes them."""
    if isinstance(value, dict) and [*value] == ["secure"] and isinstance(value["secure"], str):
        yield loc
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _encrypted(item, (*loc, key))


def _repair(values: dict[str, Any], loc: hints.Loc) -> None:
    """Puts a stand-in at `loc`, or removes the value so that its default applies."""
    parent: Any = values
    for part in loc[:-1]:
        if isinstance(parent, dict) and part not in parent:
            return
        parent = parent[part]
    if (pattern := hints.pattern(loc).replace("gpu-nodes[].sharing.", "sharing.")) in STAND_INS:
        parent[loc[-1]] = copy.deepcopy(STAND_INS[pattern])
    elif isinstance(parent, dict):
        parent.pop(loc[-1], None)
