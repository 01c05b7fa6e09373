"""Dollars: each line of the bill, how well its price is known, and the same models on dedicated GPUs."""

import datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharing import tables
from sharing.cost.bill import cost, in_extended_support
from sharing.hardware import prices
from sharing.hardware.gpus import instance_types
from sharing.stack.config import StackConfig
from tests.sharing.builders import SMALL, TODAY, pool, read_cases, replace, setup, tenants
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


@pytest.mark.parametrize("name", [row["instance_type"] for row in tables.read("system_instances").rows])
def test_every_type_for_system_nodes_has_its_price(name: str) -> None:
    home = prices.system_node(name, "us-east-1")
    assert 0.01 < home.usd_per_hour < 0.2
    assert (home.region, home.date, home.note) == ("us-east-1", "2026-07-20", "")
    assert prices.system_node(name, "eu-west-1") == replace(home, note="price of us-east-1", own=False)


def test_an_estimate_uses_the_number_of_gpus_and_the_most_expensive_family(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {key: usd for key, usd in prices._by_region("gpu_prices").items() if key[1] != "g4dn.12xlarge"}
    monkeypatch.setattr(prices, "_by_region", lambda name: known)
    most_expensive = known["us-east-1", "g4dn.16xlarge"]
    found = prices.on_demand("g4dn.12xlarge", "us-east-1")
    assert found.usd_per_hour == pytest.approx(4 * most_expensive)
    assert found.note == "estimate, from g4dn.16xlarge"
    assert (found.region, found.date) == ("us-east-1", "2026-07-20")


@st.composite
def priced(draw: st.DrawFn) -> StackConfig:
    kind = draw(st.sampled_from(TYPES))
    desired = draw(st.integers(0, 4))
    return setup(
        region=draw(st.sampled_from(REGIONS)),
        nat=draw(st.sampled_from(["none", "single", "per-zone"])),
        zones=draw(st.integers(2, 3)),
        system_nodes=draw(st.integers(1, 3)),
        pools=(
            pool(kind, capacity=draw(st.sampled_from(["spot", "on-demand"])), desired=desired, max=max(desired, 1)),
        ),
        models=tenants(*[SMALL] * draw(st.integers(1, 6)), cache=draw(st.sampled_from(["node", "volume"]))),
        today=TODAY + datetime.timedelta(days=draw(st.integers(0, 900))),
    )


@given(whole=priced())
@settings(max_examples=120)
def test_the_lines_add_up_and_fewer_nodes_are_never_more_expensive_than_dedicated_ones(whole: StackConfig) -> None:
    bill = cost(whole)
    assert bill.usd_per_hour == pytest.approx(sum(one.usd_per_hour for one in bill.lines))
    assert all(one.usd_per_hour >= 0 for one in bill.lines)
    replaced = (bill.replacing_usd_per_hour - bill.usd_per_hour) / 2  # half an hour of these nodes
    assert bill.usd_per_month == pytest.approx(bill.usd_per_hour * 730 + replaced)
    assert bill.per_model_hour * bill.models == pytest.approx(bill.usd_per_hour)
    (here,) = whole.pools
    if here.desired <= -(-len(whole.models) // here.smallest.gpus):
        assert bill.dedicated_usd_per_hour >= bill.usd_per_hour - 1e-9


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
