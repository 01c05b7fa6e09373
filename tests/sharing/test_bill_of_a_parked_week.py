"""The bill of a week with `park`: worked out by hand from the prices in `cost.yaml`."""

import pytest

from sharing.cost.bill import cost
from sharing.sections.changes import changed_settings, with_room
from sharing.sections.config import StackConfig
from sharing.sections.park import ParkSettings
from sharing.verdict.full import judge_fully
from tests.sharing.builders import pair, pool, replace, setup, tenants

NIGHTS = ParkSettings(schedule="0 20 * * MON-FRI", wake="0 8 * * MON-FRI", timezone="Europe/Paris")
"""Running for 5 × 12 = 60 hours of a week, and parked for 108."""
PARKED = 0.1 + 2 * 0.0416 + 2 * 20 * 0.08 / 730 + 2 * 0.005
"""Control plane, two system nodes with their disks and addresses."""
RUNNING = PARKED + 0.2158 + 100 * 0.08 / 730 + 0.005
"""With one g4dn.xlarge, its disk and its address."""
SYSTEM_REPLACED = 4 * (0.0416 + 20 * 0.08 / 730 + 0.005) / 2
"""Half an hour a month of four more system nodes with their disks and addresses."""
REPLACED = SYSTEM_REPLACED + (0.2158 + 100 * 0.08 / 730 + 0.005) / 2
"""The same with one more g4dn.xlarge."""


def parked(**changes: object) -> StackConfig:
    return setup(park=NIGHTS, **changes)


def test_a_week_is_its_running_hours_at_the_full_price_and_its_parked_hours_without_gpu_nodes() -> None:
    bill = cost(parked())
    assert bill.week is not None
    assert (bill.week.running_hours, bill.week.parked_hours) == (60, 108)
    assert bill.week.parked_usd_per_hour == pytest.approx(PARKED, abs=1e-5)
    assert bill.week.running_usd_per_hour == pytest.approx(RUNNING, abs=1e-5)
    assert bill.week.usd == pytest.approx(60 * RUNNING + 108 * PARKED, abs=1e-3)
    assert bill.week.unparked_usd == pytest.approx(168 * RUNNING, abs=1e-3)
    assert bill.usd_per_week == bill.week.usd
    assert bill.usd_per_hour == pytest.approx(RUNNING, abs=1e-5)


def test_all_but_gpu_nodes_still_costs_while_parked() -> None:
    on_volumes = tuple(replace(each, cache="volume") for each in tenants(*pair()))
    gib = sum(each.volume_gib for each in on_volumes)
    week = cost(parked(models=on_volumes, nat="single")).week
    assert week is not None
    assert gib > 0
    assert [line.item for line in week.parked_lines] == [
        "control plane, Kubernetes 1.36",
        "system nodes 2 × t3.medium",
        f"EBS gp3 {40 + gib} GiB",
        "NAT gateway × 1",
        "public IPv4 × 1",
    ]


def test_changes_of_a_stack_with_park_name_no_count_that_its_schedule_sets() -> None:
    old = parked(models=tenants(*pair(), *pair()))
    [before] = old.pools
    after = with_room(before, old)
    assert (after.desired, after.max) == (2, 2)
    assert changed_settings(old, replace(old, pools=(after,))) == ("gpu-nodes.max: 2",)
    unparked = replace(old, park=None)
    assert changed_settings(unparked, replace(unparked, pools=(after,))) == ("gpu-nodes.desired: 2", "gpu-nodes.max: 2")
    [problem, *_] = judge_fully(old).problems
    assert problem.fix.startswith("Write `gpu-nodes.max: 2`")
    [problem, *_] = judge_fully(unparked).problems
    assert problem.fix.startswith("Write `gpu-nodes.desired: 2` with `gpu-nodes.max: 2`")


def test_a_pool_with_park_keeps_all_the_nodes_that_it_may_have() -> None:
    several = pool(desired=3, max=3)
    stack = parked(pools=(several,))
    assert with_room(several, stack).desired == 3
    assert with_room(several, replace(stack, park=None)).desired == 1
