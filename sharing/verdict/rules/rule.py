"""What a row of the table of rules is, and which pool an error concerns."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sharing.problems import Problem
from sharing.sections.config import StackConfig
from sharing.sections.pools import GpuPool


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table. Breaking a rule that `refuses` is an error; breaking another one is a warning."""

    name: str
    refuses: bool
    check: Callable[[StackConfig], Iterator[Problem]]


def concerns(problem: Problem, pool: GpuPool, config: StackConfig) -> bool:
    """Whether a problem is about the pool, its sharing or its models."""
    places = (pool.path, pool.sharing_path, *(served.path for served in config.models_of(pool)))
    return problem.path == "models" or problem.is_within(places)
