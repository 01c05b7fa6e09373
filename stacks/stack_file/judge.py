"""Judges a stack once: it becomes a `Plan`, which Pulumi deploys and every command works on, or all its errors."""

import datetime
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from sharing.assessment import Assessment, assess
from sharing.prices import Book
from sharing.problems import Problem, told
from sharing.setup import Setup
from stacks.stack_file.clients import warn_of_clients
from stacks.stack_file.contradictions import find_contradictions, is_named_in_doubt
from stacks.stack_file.provider_keys import HONOURED, refuse_keys
from stacks.stack_file.repairs import validate
from stacks.stack_file.shape import SECTIONS, StackConfig
from stacks.stack_file.yaml import Source, read


class RefusedError(Exception):
    """A stack that must not be created: the message has every reason."""

    def __init__(self, judged: "Judged") -> None:
        super().__init__("\n".join(told(judged.name, "mistake", judged.problems)))
        self.judged = judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A stack that the rules accept."""

    stack: str
    config: StackConfig
    setup: Setup
    assessment: Assessment


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A stack, read and judged as far as it can be."""

    name: str
    """Of its file, as messages show it."""
    config: StackConfig
    """With stand-ins for what could not be read: to be used only when there are no problems."""
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
        """The plan. Raises `RefusedError`, with every problem, where there is one."""
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
    """Judges the stack file at `path`, at the prices that `find_prices` finds for its `aws:region`.

    `strict` refuses what the rules cannot judge. Raises `UnreadableError` when the file is not YAML.
    """
    source = read(path, SECTIONS)
    book = find_prices(source.region) if find_prices else None
    return judge(source, path.name, today=today, book=book, strict=strict)


def judge(
    source: Source, name: str, *, today: datetime.date | None = None, book: Book | None = None, strict: bool = False
) -> Judged:
    """Judges the values of a stack file; `name` is the file's, for messages."""
    problems = (*source.problems, *refuse_keys(source.provider))
    honoured = {key: value for key, value in source.provider.items() if key in HONOURED}
    raw = {key: value for key, value in {**source.sections, **honoured}.items() if value is not None}
    config, misread, doubtful = validate(raw, source.unread)
    unreadable = {problem.path for problem in (*problems, *misread)} | doubtful
    wrong = [*misread, *find_contradictions(config, unreadable)]
    unreadable |= {problem.path for problem in wrong}
    if is_named_in_doubt(config, unreadable):
        # Which model runs on which pool is not known, then.
        unreadable |= {f"models[{index}].pool" for index in range(len(config.models))}
    setup = replace(config.setup(today or datetime.date.today()), book=book)
    assessment = assess(setup, unreadable)
    problems = (*problems, *wrong, *assessment.problems)
    warnings = (*assessment.warnings, *warn_of_clients(config.models_clients))
    if strict:
        problems = (*problems, *(warning for warning in warnings if not warning.judged))
        warnings = tuple(warning for warning in warnings if warning.judged)
    assessment = replace(assessment, warnings=warnings)
    return Judged(name=name, config=config, setup=setup, assessment=assessment, problems=problems)


def stack_name(file: str | Path) -> str:
    """`timeslice` for `Pulumi.timeslice.yaml`, else the file's name without its ending."""
    return Path(file).stem.removeprefix("Pulumi.")
