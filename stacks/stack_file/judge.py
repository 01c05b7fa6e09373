"""Judges a stack once: all errors of form, or else the decision of the rules.

`Judged.plan` returns the `Plan` that they accept. Pulumi deploys it, and every command uses it.
"""

import datetime
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from sharing.aws.tags import warn_of_claimed_volumes
from sharing.hardware.prices import Book
from sharing.models.catalogue import Model
from sharing.names import cluster_name
from sharing.problems import Problem, format_errors, near
from sharing.sections.config import SECTIONS, Circumstances, StackConfig
from sharing.speed.measured import Measurement
from stacks.stack_file import form_errors
from stacks.stack_file.clients import warn_of_clients
from stacks.stack_file.models import find_models, refuse_old_keys
from stacks.stack_file.provider_keys import HONOURED, refuse_keys
from stacks.stack_file.yaml import Source, as_json, from_json, read

if TYPE_CHECKING:
    from sharing.verdict.full import FullVerdict

RULES_WAIT = "hint: memory, GPUs and cost are checked once these are fixed."


class RefusedError(Exception):
    """A stack that must not be created: the message lists every error."""

    def __init__(self, judged: "Judged") -> None:
        super().__init__("\n".join(judged.refusal))
        self.judged = judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A stack on which the rules have decided; `Judged.plan` returns one that they accept."""

    stack: str
    config: StackConfig
    verdict: "FullVerdict"

    @property
    def cluster_name(self) -> str:
        """Name of the EKS cluster in which it runs."""
        existing = self.config.cluster.existing
        return existing.name if existing else cluster_name(self.stack)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A stack file, judged: errors of form, or else the decision of the rules."""

    name: str
    """Name of its file, for messages."""
    problems: tuple[Problem, ...]
    """All its errors of form; if it has none, all its errors of the rules."""
    decided: Plan | None
    """None for a file with an error of form: the rules cannot read it."""

    @property
    def stack(self) -> str:
        """The stack's name."""
        return stack_name(self.name)

    @property
    def refused(self) -> bool:
        """Whether the stack must not be created."""
        return bool(self.problems)

    @property
    def refusal(self) -> list[str]:
        """Its errors under a heading, and whether there may be more; nothing for a stack that may be created."""
        return [*format_errors(self.name, self.problems), *([] if self.decided else [RULES_WAIT])]

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What is allowed but unwise; none for a file with an error of form."""
        return self.decided.verdict.warnings if self.decided else ()

    @property
    def config(self) -> StackConfig:
        """The values of the file. Raises `RefusedError` for an error of form."""
        return self._read().config

    @property
    def verdict(self) -> "FullVerdict":
        """What the rules say. Raises `RefusedError` for an error of form."""
        return self._read().verdict

    def plan(self) -> Plan:
        """The plan. Raises `RefusedError` with every problem, if there are any."""
        if self.problems:
            raise RefusedError(self)
        return self._read()

    def _read(self) -> Plan:
        if self.decided is None:
            raise RefusedError(self)
        return self.decided

    def with_places(self, locate: Callable[[Iterable[Problem]], tuple[Problem, ...]]) -> "Judged":
        """The same, with the places that `locate` gives to errors and warnings."""
        decided = self.decided
        if decided:
            verdict = replace(decided.verdict, warnings=locate(self.warnings))
            decided = replace(decided, verdict=verdict)
        return replace(self, problems=locate(self.problems), decided=decided)


def judge_file(
    path: Path,
    *,
    today: datetime.date | None = None,
    find_prices: Callable[[object], Book | None] | None = None,
    strict: bool = False,
    measured: Iterable[Measurement] = (),
) -> Judged:
    """Judges the stack file at `path`, with the prices that `find_prices` returns for its `aws:region`.

    `strict` turns warnings about missing data into errors. Raises `UnreadableError` if the file is not YAML.
    """
    source = read(path, SECTIONS)
    book = find_prices(source.region) if find_prices else None
    return judge(source, path.name, today=today, book=book, strict=strict, measured=measured)


def judge(
    source: Source,
    name: str,
    *,
    today: datetime.date | None = None,
    book: Book | None = None,
    strict: bool = False,
    compared_modes: Collection[str] = (),
    measured: Iterable[Measurement] = (),
    known: Mapping[int, Model] | None = None,
) -> Judged:
    """Judges the values of a stack file; `name` is the name of the file, for messages.

    `known` are models that are not looked up, by their index. Fixes do not suggest `compared_modes`, which the caller
    judges, too. Speeds of `measured` replace forecasts.
    """
    config = _read_form(source, known or {})
    if isinstance(config, StackConfig):
        day = today or datetime.date.today()
        circumstances = Circumstances(
            today=day, book=book, compared_modes=frozenset(compared_modes), measured=tuple(measured)
        )
        judged = _apply_rules(name, config.under(circumstances), strict=strict)
    else:
        judged = Judged(name=name, problems=tuple(config), decided=None)
    if source.root and (judged.problems or judged.warnings):
        from stacks.stack_file.positions import Document, locate

        document = Document(name, source.root)
        return judged.with_places(lambda problems: locate(problems, [document]))
    return judged


def _apply_rules(name: str, config: StackConfig, *, strict: bool) -> Judged:
    # A file with an error of form does not wait for the rules to load: 40 ms.
    from sharing.verdict.full import judge_fully

    verdict = judge_fully(config)
    problems = verdict.problems
    warnings = (
        *verdict.warnings,
        *warn_of_clients(config.models_clients),
        *warn_of_claimed_volumes(config.given_tags()),
    )
    if strict:
        problems = (*problems, *(warning for warning in warnings if not warning.judged))
        warnings = tuple(warning for warning in warnings if warning.judged)
    verdict = replace(verdict, warnings=warnings)
    decided = Plan(stack=stack_name(name), config=config, verdict=verdict)
    return Judged(name=name, problems=problems, decided=decided)


def stack_name(file: str | Path) -> str:
    """`timeslice` for `Pulumi.timeslice.yaml`, else the file's name without its ending."""
    return Path(file).stem.removeprefix("Pulumi.")


def _read_form(source: Source, known: Mapping[int, Model]) -> StackConfig | list[Problem]:
    """The values of the file, or else all its errors of form; of values that are right, all contradictions."""
    honoured = {key: value for key, value in source.provider.items() if key in HONOURED}
    values = {key: from_json(value) for key, value in {**source.sections, **honoured}.items() if value is not None}
    secrets = [*_encrypted(values)]
    problems = [*source.problems, *refuse_keys(source.provider), *map(_refuse_secret, secrets)]
    problems += refuse_old_keys(values)
    if _lacks_sharing(values) and not {"sharing", "gpu-nodes"} & {*source.unread}:
        problems.append(Problem("sharing", "", form_errors.MISSING, form_errors.hint("sharing")))
    try:
        config = StackConfig.model_validate_json(as_json(values), by_name=False)
    except ValidationError as error:
        return [*problems, *_explain(error, secrets, source.unread)]
    if problems:
        return problems
    # A file with a wrong value does not wait for what contradictions need: 10 ms.
    from stacks.stack_file.contradictions import find_contradictions

    config, unknown = find_models(config, source.folder, known)
    return [*unknown, *find_contradictions(config)] or config


def _lacks_sharing(values: Mapping[str, Any]) -> bool:
    """Whether there is neither a sharing mode of the stack, nor one of each pool."""
    pools = values.get("gpu-nodes")
    has_own = isinstance(pools, list) and all(isinstance(pool, dict) and "sharing" in pool for pool in pools)
    return "sharing" not in values and not has_own


def _refuse_secret(loc: form_errors.Loc) -> Problem:
    return Problem(
        form_errors.where(loc), "an encrypted value", "is not supported here", "Set it again without `--secret`."
    )


def _explain(error: ValidationError, secrets: list[form_errors.Loc], unread: Collection[str]) -> Iterator[Problem]:
    """One problem for each wrong setting.

    `secrets` have an error already. A key that is probably there, but misspelt, is not reported as missing: neither
    those of `unread`, nor those that an unknown key probably means.
    """
    details = [(detail, form_errors.place(detail)) for detail in error.errors()]
    unknown = [loc for detail, loc in details if detail["type"] == "extra_forbidden"]
    meant = {
        form_errors.where((*loc[:-1], key)) for loc in unknown for key in near(str(loc[-1]), form_errors.keys(loc[:-1]))
    }
    by_path: dict[str, Problem] = {}
    for detail, loc in details:
        if not any(loc[: len(secret)] == secret for secret in secrets):
            problem = form_errors.problem(detail, loc)
            by_path.setdefault(problem.path, problem)
    for path, problem in by_path.items():
        if problem.rule != form_errors.MISSING or path not in {*meant, *unread}:
            yield problem


def _encrypted(value: object, loc: form_errors.Loc = ()) -> Iterator[form_errors.Loc]:
    """Locations of secrets: `{secure: …}`, as `pulumi config set --secret` writes them."""
    if isinstance(value, dict) and [*value] == ["secure"] and isinstance(value["secure"], str):
        yield loc
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _encrypted(item, (*loc, key))
