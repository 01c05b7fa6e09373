"""What the constructor of a public class says about a wrong argument. `tests/stacks` has the errors of stack files."""

from typing import Any

import pytest

from sharing.models.share import Share
from sharing.modes.layouts import Slices
from sharing.modes.modes import Exclusive, Mig, Mps

REFUSED: list[tuple[type[Any], dict[str, Any], str]] = [
    (Mps, {"replicas": 1}, ".replicas must be greater than or equal to 2, not 1. Pass 2 or more."),
    (Mps, {"replicas": 49}, ".replicas must be less than or equal to 48, not 49. Pass 48 or less."),
    (
        Mps,
        {"limits": "permodel"},
        ".limits must be 'equal' or 'per-model', not 'permodel'. Pass 'equal' or 'per-model'.",
    ),
    (Share, {"memory_gib": 0}, ".memory_gib must be greater than 0, not 0. Pass more than 0."),
    (Share, {"memory_gib": "much"}, ".memory_gib must be a number, not 'much'. Pass a number."),
    (
        Share,
        {"memory_gib": float("inf")},
        ".memory_gib must be less than or equal to 2048, not inf. Pass 2048 or less.",
    ),
    (Share, {"memory_gib": float("nan")}, ".memory_gib must be greater than 0, not nan. Pass more than 0."),
    (
        Share,
        {"compute_percent": 101},
        ".compute_percent must be less than or equal to 100, not 101. Pass 100 or less.",
    ),
    (Share, {"compute_percent": 0}, ".compute_percent must be greater than or equal to 1, not 0. Pass 1 or more."),
    (Share, {"compute_percent": "x"}, ".compute_percent must be a whole number, not 'x'. Pass a whole number."),
    (Slices, {"profile": 3}, ".profile must be text, not 3. Pass text."),
    (Share, {"memory": 9}, " has no argument 'memory'. Did you mean memory_gib?"),
    (Slices, {}, ".profile is missing. Pass it."),
    (Mig, {"layout": "\x1b"}, ".layout must be printable text, not '\\x1b'. Pass printable text."),
]


@pytest.mark.parametrize(("made", "values", "message"), REFUSED)
def test_a_wrong_argument_is_refused_in_one_line_with_its_fix(
    made: type[Any], values: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=r"\. ") as refused:
        made(**values)
    assert str(refused.value) == f"{made.__name__}{message}"


def test_the_bounds_are_accepted() -> None:
    assert Share(memory_gib=0.1, compute_percent=1).compute_percent == 1
    assert Share(compute_percent=100).memory_mib is None
    assert [Share(compute_percent=percent).threads for percent in (60, None)] == [0.6, 1]
    assert Exclusive() == Exclusive(mode="exclusive")
