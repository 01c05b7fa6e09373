"""What a row of the table of rules is."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sharing.problems import Problem
from sharing.stack.config import StackConfig


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of the table. Breaking a rule that `refuses` is an error; breaking another one is a warning."""

    name: str
    refuses: bool
    check: Callable[[StackConfig], Iterator[Problem]]
