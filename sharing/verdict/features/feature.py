"""What the declaration of an optional feature says."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from sharing.cost.bill import Cost
from sharing.problems import Problem
from sharing.sections.config import StackConfig
from sharing.verdict.rules.rule import Rule


def _nothing(*_: object) -> tuple[()]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CheaperHours:
    """A row of the bill: what the stack costs in hours in which the feature stops nodes."""

    name: str
    usd_per_hour: float
    remark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """An optional part of a stack: everything but its section (`sharing.sections`) and its block (`stacks.features`).

    A schedule also changes what every pool is: code that counts nodes asks `config.park` itself.
    """

    key: str
    """The path of its section in the stack file, e.g. `budget.alert`."""
    is_on: Callable[[StackConfig], bool]
    """Whether the stack has it. The other functions are asked only about stacks that do; `rules` ask themselves."""
    contradictions: Callable[[StackConfig], Iterable[Problem]] = _nothing
    """Errors of form: values that are valid alone but conflict with each other."""
    rules: tuple[Rule, ...] = ()
    """Its rows in the table of rules."""
    bill_errors: Callable[[StackConfig, Cost | None], Iterable[Problem]] = _nothing
    """Errors that depend on the bill, which is None if a type is unknown."""
    bill_warnings: Callable[[StackConfig, Cost | None], Iterable[Problem]] = _nothing
    system_pods: Callable[[StackConfig], Collection[str]] = _nothing
    """Which rows of `data/node_pods.csv` it adds to the system nodes: their values of `when`."""
    cheaper_hours: Callable[[Cost], Iterable[CheaperHours]] = _nothing
    word: str = ""
    """First word of its line on the screen of the plan."""
    line: Callable[[StackConfig], str] = lambda _: ""
    """The rest of that line; empty for none."""
    pages: Callable[[StackConfig], Collection[str]] = _nothing
    """Names of the web pages that it serves inside the cluster."""
