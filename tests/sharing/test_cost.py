"""Dollars: each line of the bill, how well its price is known, and the same models on dedicated GPUs."""

import datetime

import pytest

from sharing.cost.bill import cost, in_extended_support
from sharing.hardware import prices
from sharing.hardware.gpus import instance_types
from tests.sharing.builders import pool, read_cases, replace, setup, tenants
from tests.sharing.rows import read_setup

REGIONS = ["us-east-1", "us-west-2", "eu-west-1", "ap-south-2", "us-gov-west-1", "xx-north-9"]
TYPES = list(instance_types())


CASES = read_cases("cost")


@pytest.mark.parametrize("name", CASES)
def test_a_bill_equals_the_one_calculated_by_hand(name: str) -> None:
    case = CASES[name]
    bill = cost(read_setup(case.get("stack", {})))
    lines = {line.item: [line.usd_per_hour, line.note] for line in bill.lines}
    for item, line in case.get("lines", {}).items():
        assert lines.get(item) == (line and [pytest.approx(line[0], abs=1e-4), line[1]]), item
    for figure, value in case.get("bill", {}).items():
        # The catalogue omits the headers of model files.
        exact = 3e-3 if figure.startswith("first_start") else 5e-5
        found = getattr(bill, figure)
        found = [*found] if isinstance(found, tuple) else found
        assert found == (pytest.approx(value, abs=exact) if isinstance(value, float) else value), figure


def test_extended_support_begins_on_the_day_standard_support_ends() -> None:
    days = (datetime.date(2027, 8, 1), datetime.date(2027, 8, 2))
    assert [in_extended_support("1.36", day) for day in days] == [False, True]


def test_an_estimate_uses_the_number_of_gpus_and_the_most_expensive_family(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {key: usd for key, usd in prices._by_region("gpu_prices").items() if key[1] != "g4dn.12xlarge"}
    monkeypatch.setattr(prices, "_by_region", lambda name: known)
    monkeypatch.setattr(
        prices, "_gpus_at_home", lambda: {name: usd for (at, name), usd in known.items() if at == "us-east-1"}
    )
    most_expensive = known["us-east-1", "g4dn.16xlarge"]
    found = prices.on_demand("g4dn.12xlarge", "us-east-1")
    assert found.usd_per_hour == pytest.approx(4 * most_expensive)
    assert found.note == "estimate, from g4dn.16xlarge"
    assert (found.region, found.date) == ("us-east-1", "2026-07-20")


@pytest.mark.parametrize("region", REGIONS)
def test_spot_is_never_above_on_demand(region: str) -> None:
    seen = 0
    for name in TYPES:
        if spot := prices.spot(name, region):
            seen += 1
            assert 0 < spot.usd_per_hour <= prices.on_demand(name, region).usd_per_hour, name
    assert (seen > 0) == (region in ("us-east-1", "us-west-2", "eu-west-1"))


def test_a_parked_pool_reports_its_cost_after_waking() -> None:
    running = setup(models=tenants("llama2:7b"), pools=(pool(desired=2, max=3),))
    parked = replace(running, pools=(pool(desired=0, max=2),))
    assert cost(running).awake_usd_per_hour == cost(running).usd_per_hour
    assert cost(parked).awake_usd_per_hour == pytest.approx(cost(running).usd_per_hour)
    assert cost(parked).usd_per_hour < cost(running).usd_per_hour
