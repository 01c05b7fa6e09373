"""The limits of `budget`, against months that are worked out by hand from the prices in `cost.yaml`."""

import re

import pytest

from sharing.cost.bill import cost
from sharing.problems import Problem
from sharing.sections.config import StackConfig
from sharing.sections.pools import GpuPool
from sharing.sections.scale_to_zero import ScaleToZeroSettings
from sharing.verdict.full import judge_fully
from sharing.verdict.rules.budget import find_problems, find_wrong_limits, peak_limit
from tests.sharing.builders import SMALL, listed, pool, replace, setup, tenants
from tests.sharing.test_bill_of_a_parked_week import NIGHTS, PARKED, REPLACED, RUNNING, SYSTEM_REPLACED

MONTH = 730 * RUNNING + REPLACED
PARKED_MONTH = 730 * PARKED + SYSTEM_REPLACED
SCHEDULED = (60 * RUNNING + 108 * PARKED) * 730 / 168 + REPLACED
"""60 of 168 hours a week."""


def of_budget(whole: StackConfig) -> list[Problem]:
    """The errors without cheaper settings, for which the advice is slow."""
    return [*find_problems(whole, cost(whole), cheaper=())]


def of_verdict(whole: StackConfig) -> list[Problem]:
    """The same with cheaper settings."""
    return [one for one in judge_fully(whole).problems if one.path.startswith("budget")]


@pytest.mark.parametrize(("whole", "usd"), [(setup(), MONTH), (setup(park=NIGHTS), SCHEDULED)])
def test_a_limit_per_month_counts_the_schedule_and_the_minutes_of_replacements(whole: StackConfig, usd: float) -> None:
    bill = cost(whole)
    assert bill.usd_per_month == pytest.approx(usd, abs=0.01)
    assert bill.usd_per_month_unparked == pytest.approx(MONTH, abs=0.01)
    assert of_budget(replace(whole, max_usd_per_month=round(bill.usd_per_month, 2))) == []
    [problem] = of_budget(replace(whole, max_usd_per_month=round(bill.usd_per_month, 2) - 0.01))
    assert problem.path == "budget.max-usd-per-month"
    how = " with its schedule" if whole.park else ""
    assert problem.rule == f"is less than the stack costs in a month{how}: ${usd:,.2f}"
    assert f"Write `budget.max-usd-per-month: {int(usd) + 1}`" in problem.fix
    assert of_budget(replace(whole, max_usd_per_month=int(usd) + 1)) == []


def test_the_hours_of_the_advice_to_park_are_within_the_limit() -> None:
    limit = (60 * RUNNING + 108 * PARKED) * 730 / 168 + REPLACED + 0.01
    [problem] = of_budget(setup(max_usd_per_month=limit))
    assert problem.fix.endswith("; or let `park` run the stack for at most 60 hours per week.")
    assert of_budget(setup(max_usd_per_month=limit, park=NIGHTS)) == []
    # Enough for a stack that is always parked, but not for replacements of its GPU node, too.
    [problem] = of_budget(setup(max_usd_per_month=PARKED * 730 + SYSTEM_REPLACED + 0.05))
    assert "park" not in problem.fix


def test_cheaper_settings_are_offered_for_a_limit_per_month_too() -> None:
    two = pool(desired=2, max=2)
    [problem] = of_verdict(setup(pools=(two,), models=tenants(SMALL, SMALL), max_usd_per_month=400))
    assert "Write `gpu-nodes.desired: 1` ($0.4" in problem.fix


def test_an_error_about_the_budget_offers_the_three_cheapest_changes_of_all_pools() -> None:
    names = ("one", "two", "three")
    pools = tuple(listed(at, name, pool("g6.xlarge", capacity="on-demand")) for at, name in enumerate(names))
    models = [replace(tenants(SMALL, pool=name)[0], index=at) for at, name in enumerate(names)]
    verdict = judge_fully(setup(pools=pools, models=models, max_usd_per_hour=5.3))
    offered = [float(usd) for usd in re.findall(r"\(\$([\d.]+) per hour\)", verdict.problems[0].fix)]
    every = [each.usd_per_hour or 0 for name in names for each in verdict.advice[name]]
    assert len(every) > 3
    assert offered == pytest.approx(sorted(every)[:3], abs=0.001)


def test_without_nodes_to_park_the_advice_has_no_hours() -> None:
    zero = ScaleToZeroSettings(enabled=True, idle_minutes=15, cold_requests="wait")
    asleep = setup(pools=(pool(provisioner="karpenter"),), scale_to_zero=zero, max_usd_per_month=200)
    [problem] = of_budget(asleep)
    assert problem.rule.startswith("is less than the stack costs in a month while its models run: $")
    assert "park" not in problem.fix


@pytest.mark.parametrize("park", [None, NIGHTS])
def test_a_limit_per_month_below_the_parked_cost_is_one_error(park: object) -> None:
    [problem] = of_budget(setup(park=park, max_usd_per_month=PARKED_MONTH - 0.02))
    assert problem.rule == f"is less than the stack costs in a month with every GPU pool parked: ${PARKED_MONTH:,.2f}"
    enough = int(SCHEDULED if park else MONTH) + 1
    assert problem.fix == f"Write `budget.max-usd-per-month: {enough}`. Only `pulumi destroy` ends all costs."
    [problem] = of_budget(setup(park=park, max_usd_per_month=PARKED_MONTH + 0.02))
    assert "with every GPU pool parked" not in problem.rule


def test_a_limit_per_hour_below_the_parked_cost_is_one_error() -> None:
    [problem] = of_budget(setup(park=NIGHTS, max_usd_per_hour=0.19))
    assert problem.path == "budget.max-usd-per-hour"
    assert problem.rule == f"is less than the stack costs even while it is parked: ${PARKED:.4f} per hour"
    # While nodes are replaced: `small stack` in cost.yaml.
    assert problem.fix == "Write `budget.max-usd-per-hour: 0.86`. Only `pulumi destroy` ends all costs."
    week = cost(setup(park=NIGHTS)).week
    assert week
    for limit in (week.parked_usd_per_hour, 0.42):
        [problem] = of_budget(setup(park=NIGHTS, max_usd_per_hour=limit))
        assert problem.rule.startswith("is less than the stack costs: $0.4293 per hour")
    assert of_budget(setup(park=NIGHTS, max_usd_per_hour=0.86)) == []
    [problem] = of_budget(setup(max_usd_per_hour=cost(setup()).usd_per_hour))
    assert problem.rule.startswith("is less than the stack costs while its nodes are replaced: up to $0.8563")


@pytest.mark.parametrize("limit", [0, -3])
@pytest.mark.parametrize(("key", "enough", "usual"), [("hour", "0.86", "1.50"), ("month", "314", "400")])
def test_a_limit_of_0_or_less_gets_the_smallest_limit_that_is_enough(
    limit: int, key: str, enough: str, usual: str
) -> None:
    whole = setup(**{f"max_usd_per_{key}": limit})
    [problem] = find_wrong_limits(whole, cost(whole))
    assert problem.path == f"budget.max-usd-per-{key}"
    assert (problem.found, problem.rule) == (f"{limit}", "must be more than 0")
    assert problem.fix == f"Write `max-usd-per-{key}: {enough}`, or remove the key."
    [unknown] = find_wrong_limits(whole, None)
    assert unknown.fix.startswith(f"Write a number such as {usual}")
    assert of_budget(whole) == [], "one error is enough"


def test_a_limit_per_month_that_the_limit_per_hour_never_reaches_is_one_error() -> None:
    whole = setup(max_usd_per_hour=1.0, max_usd_per_month=730.01)
    [problem] = find_wrong_limits(whole, cost(whole))
    assert problem.path == "budget.max-usd-per-month"
    assert problem.rule == "is more than 730 hours at `max-usd-per-hour: 1` cost: $730.00"
    assert problem.fix == "Write `max-usd-per-month: 730`, or `max-usd-per-hour: 1.01`."
    assert of_budget(whole) == []
    assert [*find_wrong_limits(whole, None)] == [problem]


@pytest.mark.parametrize("expensive", [pool(desired=2, max=2), pool("g4dn.12xlarge")])
def test_no_change_is_offered_that_a_contradicting_limit_per_month_refuses_next(expensive: GpuPool) -> None:
    whole = setup(pools=(expensive,), models=tenants(SMALL, SMALL), max_usd_per_hour=0.9)
    [alone] = of_verdict(whole)
    assert "gpu-nodes." in alone.fix
    [both] = of_verdict(replace(whole, max_usd_per_month=2190))
    assert "gpu-nodes." not in both.fix
    [enough] = re.findall(r"Write `budget\.max-usd-per-hour: ([\d.]+)`\.$", both.fix)
    assert float(enough) >= 2190 / 730


@pytest.mark.parametrize(("month", "enough"), [(366, 0.86), (1000, 1.37)])
def test_where_the_stack_needs_a_higher_limit_per_hour_anyway_that_is_the_error(month: float, enough: float) -> None:
    whole = setup(max_usd_per_hour=0.5, max_usd_per_month=month)
    assert [*find_wrong_limits(whole, cost(whole))] == []
    [problem] = of_budget(whole)
    assert problem.path == "budget.max-usd-per-hour"
    assert problem.fix.startswith(f"Write `budget.max-usd-per-hour: {enough}`")
    mended = replace(whole, max_usd_per_hour=enough)
    assert ([*find_wrong_limits(mended, cost(mended))], of_budget(mended)) == ([], [])


def test_limits_that_work_together_are_no_contradiction() -> None:
    for hour, month in ((1.0, 730.0), (0.86, 314.0), (100.0, 314.0)):
        whole = setup(max_usd_per_hour=hour, max_usd_per_month=month)
        assert ([*find_wrong_limits(whole, cost(whole))], of_budget(whole), judge_fully(whole).warnings) == ([], [], ())


def test_the_peak_is_a_warning_unless_a_limit_per_hour_holds_it_down() -> None:
    [warning] = judge_fully(setup(max_usd_per_month=314)).warnings
    assert (warning.path, warning.found) == ("budget.max-usd-per-month", "314")
    assert warning.rule == (
        "does not limit the peak while nodes are replaced: up to $0.8563 per hour. The month includes 30 minutes of it"
    )
    assert warning.fix == "Write `max-usd-per-hour: 0.86` as well to limit the peak."
    assert judge_fully(setup(max_usd_per_month=314, max_usd_per_hour=0.86)).warnings == ()
    # A month of nothing but replacements: 730 × 0.85627 = 625.08.
    most = 730 * cost(setup()).replacing_usd_per_hour
    assert judge_fully(setup(max_usd_per_month=most)).warnings == ()
    assert len(judge_fully(setup(max_usd_per_month=625)).warnings) == 1
    assert judge_fully(setup(max_usd_per_month=300)).warnings == (), "an error is enough"


def test_the_prices_of_another_region_decide_about_no_month() -> None:
    found = judge_fully(setup(region="sa-east-1", max_usd_per_month=100))
    assert found.problems == ()
    [warning] = [one for one in found.warnings if one.path.startswith("budget")]
    assert (warning.path, warning.judged) == ("budget.max-usd-per-month", False)


@pytest.mark.parametrize(("part", "room"), [(1.2, 1.2), (0.9, 1.0)])
def test_a_limit_for_the_peak_is_as_far_above_it_as_the_limit_per_month_is_above_the_month(
    part: float, room: float
) -> None:
    whole = setup(max_usd_per_month=part * MONTH)
    peak = RUNNING + 2 * REPLACED  # REPLACED is half an hour of the extra nodes.
    assert peak_limit(whole, cost(whole)) == pytest.approx(peak * room, abs=0.0101)
    assert peak_limit(whole, cost(whole)) >= peak * room - 0.0001


@pytest.mark.parametrize(("park", "hours"), [(None, 730), (NIGHTS, 60 * 730 / 168)])
def test_the_cheapest_month_has_the_cheapest_type_while_the_stack_runs(park: object, hours: float) -> None:
    """A g4dn.xlarge costs $0.2158 per hour, and a g4dn.2xlarge $0.3269."""
    bill = cost(setup(pools=(pool(("g4dn.xlarge", "g4dn.2xlarge")),), park=park))
    assert bill.usd_per_month - bill.cheapest_usd_per_month == pytest.approx(hours * (0.3269 - 0.2158), abs=0.01)
