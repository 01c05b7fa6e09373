"""The verdict of a setup: errors, warnings, fits, and the bill."""

import re

import pytest

from sharing.cost.bill import cost
from sharing.modes.modes import TimeSlicing
from sharing.verdict.full import judge_fully
from tests.sharing.builders import pool, read_cases, replace, setup
from tests.sharing.rows import read_setup

CASES = read_cases("full_verdicts")


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_all_errors_of_a_stack_are_reported_at_once(name: str) -> None:
    case = CASES[name]
    whole = read_setup(case.get("stack", {}))
    found = judge_fully(whole)
    problems = [str(problem) for problem in found.problems]
    assert len(problems) == len(case["problems"]), problems
    for said, wanted in zip(problems, case["problems"], strict=True):
        assert re.fullmatch(wanted, said), said
    assert [fit.pool.name for fit in found.fits] == case["judged"]
    assert all(fit.served in whole.models_of(fit.pool) for fit in found.fits)
    assert found.cost == (cost(whole) if case["billed"] else None)
    assert [bool(fit.advice) for fit in found.fits] == [
        not fit.placement.fits and bool(found.advice[fit.pool.name]) for fit in found.fits
    ]


def test_warnings_refuse_nothing() -> None:
    whole = setup(nat="single", nat_is_written=False, pools=(pool(sharing=TimeSlicing(), desired=0),))
    assert [one.path for one in judge_fully(whole).warnings] == ["gpu-nodes.desired", "cluster.nat"]
    assert judge_fully(whole).problems == ()


def test_a_budget_may_be_used_to_the_last_cent() -> None:
    whole = setup()
    exact = cost(whole).replacing_usd_per_hour
    assert judge_fully(replace(whole, max_usd_per_hour=exact)).problems == ()
    assert len(judge_fully(replace(whole, max_usd_per_hour=exact - 1e-6)).problems) == 1
