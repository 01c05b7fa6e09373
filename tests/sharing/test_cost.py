"""Dollars: each line of the bill, how well its price is known, and the same models on dedicated GPUs."""

import datetime
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharing import prices, tables
from sharing.cost import HOURS_PER_MONTH, Cost, Line, cost, in_extended_support
from sharing.gpus import instance_types
from sharing.modes import Exclusive, TimeSlicing
from sharing.setup import Setup
from tests.sharing.builders import SMALL, TODAY, listed, pool, setup, tenants

REGIONS = ["us-east-1", "us-west-2", "eu-west-1", "ap-south-2", "us-gov-west-1", "xx-north-9"]
TYPES = list(instance_types())


def line(bill: Cost, start: str) -> Line:
    (found,) = [one for one in bill.lines if one.item.startswith(start)]
    return found


def test_the_small_stack_costs_what_its_lines_say() -> None:
    bill = cost(setup())
    assert [(one.item, round(one.usd_per_hour, 4), one.note) for one in bill.lines] == [
        ("control plane, Kubernetes 1.36", 0.1, "standard support"),
        ("system nodes 2 × t3.medium", 0.0832, "on-demand"),
        ("GPU nodes 1 × g4dn.xlarge", 0.2158, "spot; seen 2026-06-18"),
        ("EBS gp3 140 GiB", 0.0153, ""),
        ("public IPv4 × 3", 0.015, ""),
    ]
    assert bill.usd_per_hour == pytest.approx(0.42934, abs=1e-5)
    assert bill.usd_per_month == pytest.approx(0.42934 * 730, abs=0.01)
    assert bill.per_model_hour == bill.usd_per_hour / 2
    # One more GPU node, and two system nodes for each of two zones, each with its disk and address.
    gpu, system = 0.2156 + 100 * 0.08 / 730 + 0.005, 0.0416 + 20 * 0.08 / 730 + 0.005
    assert bill.replacing_usd_per_hour == pytest.approx(0.42934 + gpu + 4 * system, abs=1e-3)
    assert (bill.models, bill.price_region, bill.price_date) == (2, "us-east-1", "2026-06-18")


@pytest.mark.parametrize(
    ("version", "day", "usd", "support"),
    [
        ("1.36", "2026-11-21", 0.10, "standard support"),
        ("1.36", "2027-08-01", 0.10, "standard support"),
        ("1.36", "2027-08-02", 0.60, "extended support"),
        ("1.34", "2026-12-01", 0.10, "standard support"),
        ("1.34", "2026-12-02", 0.60, "extended support"),
        ("1.31", "2026-11-21", 0.60, "extended support"),
        ("1.99", "2026-11-21", 0.10, "standard support"),
    ],
)
def test_the_control_plane_is_dearer_from_the_end_of_standard_support_on(
    version: str, day: str, usd: float, support: str
) -> None:
    today = datetime.date.fromisoformat(day)
    control_plane = line(cost(setup(kubernetes=version, today=today)), "control plane")
    assert (control_plane.usd_per_hour, control_plane.note) == (usd, support)
    assert control_plane.item == f"control plane, Kubernetes {version}"
    assert in_extended_support(version, today) is (usd == 0.60)


@pytest.mark.parametrize(
    ("nodes", "types", "usd"), [(1, ("t3.medium",), 0.0416), (3, ("t3.small", "m5.xlarge"), 0.576)]
)
def test_system_nodes_are_on_demand_at_the_dearest_of_their_types(
    nodes: int, types: tuple[str, ...], usd: float
) -> None:
    found = line(cost(setup(system_nodes=nodes, system_types=types)), "system nodes")
    assert found.usd_per_hour == pytest.approx(usd)
    assert found.item == f"system nodes {nodes} × {types[-1]}"


@pytest.mark.parametrize("name", [row["instance_type"] for row in tables.read("system_instances").rows])
def test_every_type_for_system_nodes_has_its_price(name: str) -> None:
    home = prices.system_node(name, "us-east-1")
    assert 0.01 < home.usd_per_hour < 0.2
    assert (home.region, home.date, home.note) == ("us-east-1", "2026-07-20", "")
    assert prices.system_node(name, "eu-west-1") == replace(home, note="price of us-east-1", own=False)


@pytest.mark.parametrize(
    ("capacity", "usd", "note"), [("spot", 0.6474, "spot; seen 2026-06-18"), ("on-demand", 1.578, "on-demand")]
)
def test_gpu_nodes_are_paid_each_at_their_capacity(capacity: str, usd: float, note: str) -> None:
    found = line(cost(setup(pools=(pool(capacity=capacity, desired=3, max=3),))), "GPU nodes")
    assert (found.item, found.note) == ("GPU nodes 3 × g4dn.xlarge", note)
    assert found.usd_per_hour == pytest.approx(usd)


def test_the_dearest_type_of_a_pool_is_planned_and_that_is_said() -> None:
    found = line(cost(setup(pools=(pool(["g4dn.xlarge", "g4dn.metal", "g4dn.2xlarge"]),))), "GPU nodes")
    assert found.item == "GPU nodes 1 × g4dn.metal"
    assert found.usd_per_hour == 3.7292
    assert found.note == "spot; dearest of its types; seen 2026-06-18"
    two = line(cost(setup(pools=(pool(["g4dn.xlarge", "g4dn.2xlarge"]),))), "GPU nodes")
    assert two.note == "spot; dearest of its types; seen 2026-06-18"


def test_the_bill_ranges_from_the_cheapest_type_of_each_pool_to_the_most_expensive_one() -> None:
    # us-east-1, spot (2026-06-18): g4dn.xlarge $0.2158, g4dn.2xlarge $0.3269, g4dn.metal $3.7292.
    bill = cost(setup(pools=(pool(["g4dn.xlarge", "g4dn.metal", "g4dn.2xlarge"]),)))
    assert bill.cheapest_usd_per_hour == pytest.approx(0.42934, abs=1e-5)  # what g4dn.xlarge alone costs
    assert bill.usd_per_hour == pytest.approx(0.42934 - 0.2158 + 3.7292, abs=1e-5)
    two = listed(0, "two", pool(["g4dn.xlarge", "g4dn.2xlarge"], desired=2, max=2))
    one = listed(1, "one", pool("g6.xlarge", Exclusive(), capacity="on-demand"))
    bill = cost(setup(pools=(two, one)))
    assert bill.usd_per_hour - bill.cheapest_usd_per_hour == pytest.approx(2 * (0.3269 - 0.2158))


def test_a_bill_of_one_type_or_of_no_node_has_no_range() -> None:
    alone = cost(setup())
    assert alone.cheapest_usd_per_hour == alone.usd_per_hour
    parked = cost(setup(pools=(pool(["g4dn.xlarge", "g4dn.2xlarge"], desired=0),)))
    assert parked.cheapest_usd_per_hour == parked.usd_per_hour


def test_a_type_without_spot_price_is_planned_at_on_demand_and_says_so() -> None:
    assert prices.spot("g4dn.4xlarge", "us-east-1") is None
    found = line(cost(setup(pools=(pool("g4dn.4xlarge"),))), "GPU nodes")
    assert found.usd_per_hour == 1.204
    assert found.note == "spot; no spot price known, planned at on-demand"


def test_a_pool_that_may_fall_back_to_on_demand_is_planned_at_its_price() -> None:
    # us-east-1, on-demand: g4dn.2xlarge $0.752, g4dn.xlarge $0.526 (AWS price list, 2026-07-20).
    here = pool(["g4dn.xlarge", "g4dn.2xlarge"], provisioner="karpenter", on_demand_fallback=True)
    bill = cost(setup(pools=(here,)))
    found = line(bill, "GPU nodes")
    assert (found.item, found.usd_per_hour) == ("GPU nodes 1 × g4dn.2xlarge", 0.752)
    assert found.note == "spot; dearest of its types; may fall back to on-demand, planned at that"
    spot = cost(setup(pools=(replace(here, on_demand_fallback=False),)))
    assert line(spot, "GPU nodes").usd_per_hour == 0.3269
    # The node itself, and the one that takes its place when it drifts.
    more = bill.replacing_usd_per_hour - spot.replacing_usd_per_hour
    assert more == pytest.approx(2 * (0.752 - 0.3269))


def test_a_type_that_has_no_price_anywhere_is_estimated_from_its_kind() -> None:
    bill = cost(setup(pools=(pool("p5e.48xlarge", Exclusive(), capacity="on-demand"),)))
    found = line(bill, "GPU nodes")
    assert found.usd_per_hour == prices.on_demand("p5en.48xlarge", "us-east-1").usd_per_hour > 50
    assert found.note == "on-demand; estimate, from p5en.48xlarge"
    assert (bill.price_region, bill.price_date) == ("us-east-1", "2026-07-20")
    spot = line(cost(setup(pools=(pool("p5e.48xlarge", Exclusive()),))), "GPU nodes")
    assert spot.note == "spot; no spot price known, planned at on-demand; estimate, from p5en.48xlarge"


def test_an_estimate_goes_by_the_number_of_cards_and_takes_the_dearest_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {key: usd for key, usd in prices._by_region("gpu_prices").items() if key[1] != "g4dn.12xlarge"}
    monkeypatch.setattr(prices, "_by_region", lambda name: known)
    dearest = known["us-east-1", "g4dn.16xlarge"]
    found = prices.on_demand("g4dn.12xlarge", "us-east-1")
    assert found.usd_per_hour == pytest.approx(4 * dearest)
    assert found.note == "estimate, from g4dn.16xlarge"
    assert (found.region, found.date) == ("us-east-1", "2026-07-20")


def test_an_estimate_is_made_of_types_that_have_a_price_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {
        ("us-east-1", "g4dn.metal"): 8.0,
        ("us-gov-west-1", "g4dn.2xlarge"): 90.0,
        ("us-east-1", "g5.xlarge"): 70.0,
    }
    monkeypatch.setattr(prices, "_by_region", lambda name: known)
    assert prices.on_demand("g4dn.xlarge", "us-east-1").usd_per_hour == 1.0


@pytest.mark.parametrize("region", ["sa-east-1", "ap-south-2", "xx-north-9"])
def test_a_region_without_prices_is_planned_at_those_of_us_east_1_and_marked(region: str) -> None:
    here = cost(setup(region=region, pools=(pool("g5.xlarge"),)))
    assert line(here, "GPU nodes").usd_per_hour == 1.006, "never the spot price of another region"
    assert line(here, "GPU nodes").note == "spot; no spot price known, planned at on-demand; price of us-east-1"
    assert line(here, "control plane").note == "standard support; price of us-east-1"
    assert line(here, "system nodes").note == "on-demand; price of us-east-1"
    assert line(here, "public IPv4").note == "price of us-east-1"
    on_demand = cost(setup(region=region, pools=(pool("g5.xlarge", capacity="on-demand"),)))
    assert line(on_demand, "GPU nodes").note == "on-demand; price of us-east-1"
    assert on_demand.price_region == here.price_region == "us-east-1"
    assert on_demand.unpriced == here.unpriced == ("g5.xlarge",)


def test_ireland_has_its_own_prices_where_they_are_known() -> None:
    bill = cost(setup(region="eu-west-1", nat="single"))
    assert line(bill, "GPU nodes").usd_per_hour == 0.3317
    assert line(bill, "GPU nodes").note == "spot; seen 2026-06-18"
    assert (line(bill, "NAT").usd_per_hour, line(bill, "NAT").note) == (0.048, "")
    assert line(bill, "EBS").usd_per_hour == pytest.approx(140 * 0.088 / 730)
    assert line(bill, "EBS").note == ""
    assert bill.first_start_usd == pytest.approx(bill.first_start_gib * 0.048)
    assert bill.price_region == "eu-west-1"


def test_govcloud_has_its_own_prices_and_never_anothers_spot_price() -> None:
    bill = cost(setup(region="us-gov-west-1"))
    found = line(bill, "GPU nodes")
    assert found.usd_per_hour == 0.663
    assert found.note == "spot; no spot price known, planned at on-demand"
    assert (bill.price_region, bill.price_date) == ("us-gov-west-1", "2026-07-20")
    elsewhere = line(cost(setup(region="us-gov-east-1", pools=(pool("g5.xlarge"),))), "GPU nodes")
    assert elsewhere.usd_per_hour == 1.006
    assert elsewhere.note == "spot; no spot price known, planned at on-demand; price of us-east-1"


@pytest.mark.parametrize(
    ("nat", "zones", "gateways", "addresses"),
    [("none", 3, 0, 4), ("single", 3, 1, 1), ("per-zone", 2, 2, 2), ("per-zone", 3, 3, 3)],
)
def test_addresses_are_paid_per_node_or_per_gateway(nat: str, zones: int, gateways: int, addresses: int) -> None:
    bill = cost(setup(nat=nat, zones=zones, pools=(pool(desired=2, max=2),)))
    assert line(bill, "public IPv4").item == f"public IPv4 × {addresses}"
    assert line(bill, "public IPv4").usd_per_hour == pytest.approx(addresses * 0.005)
    found = [(one.item, one.usd_per_hour) for one in bill.lines if one.item.startswith("NAT")]
    assert found == ([(f"NAT gateway × {gateways}", gateways * 0.045)] if gateways else [])


def test_a_stack_without_nodes_pays_no_address() -> None:
    bill = cost(setup(system_nodes=0, pools=(pool(desired=0),)))
    assert not [one for one in bill.lines if "IPv4" in one.item]


def test_disks_are_those_of_nodes_and_of_models() -> None:
    small = cost(setup(tenants=tenants(SMALL, "llama3.2:3b", cache="volume")))
    assert line(small, "EBS").item == f"EBS gp3 {2 * 20 + 100 + (2 + 4) + (2 + 4)} GiB"
    more = cost(setup(system_nodes=1, pools=(pool(desired=3, max=3, volume_gib=60), pool(name="b", volume_gib=50))))
    assert line(more, "EBS").item == f"EBS gp3 {20 + 3 * 60 + 50} GiB"
    assert line(more, "EBS").usd_per_hour == pytest.approx(250 * 0.08 / HOURS_PER_MONTH)


def test_a_volume_has_room_beside_the_weights() -> None:
    (tenant,) = tenants("llama2:7b", cache="volume")
    assert tenant.volume_gib == 4 + 4
    assert replace(tenant, cache="node").volume_gib == 0


@pytest.mark.parametrize("nat", ["none", "single", "per-zone"])
def test_the_first_start_pulls_images_per_node_and_each_model_once(nat: str) -> None:
    whole = setup(nat=nat, pools=(pool(desired=2, max=5),), tenants=tenants("llama2:7b", "mistral:7b"))
    bill = cost(whole)
    images = (3110 + 53 + 60) / 1024
    # The catalogue leaves the headers of the files out.
    assert bill.first_start_gib == pytest.approx(2 * images + (3826793677 + 4372824384) / 2**30, abs=0.003)
    assert bill.first_start_usd == (0 if nat == "none" else pytest.approx(bill.first_start_gib * 0.045))


def test_a_parked_pool_costs_no_gpu_and_is_judged_by_what_it_may_become() -> None:
    parked = pool(desired=0, max=2)
    bill = cost(setup(pools=(parked,)))
    assert line(bill, "GPU nodes") == Line(
        item="GPU nodes 0 × g4dn.xlarge", usd_per_hour=0, note="spot; seen 2026-06-18"
    )
    assert line(bill, "EBS").item == "EBS gp3 40 GiB"
    assert line(bill, "public IPv4").item == "public IPv4 × 2"
    assert (parked.planned_nodes, parked.total_shares) == (2, 4)
    assert (bill.first_start_gib, bill.first_start_usd) == (0, 0)
    # With a GPU for each model it would be parked as well.
    assert bill.dedicated_usd_per_hour == bill.usd_per_hour


def test_the_first_start_pulls_nothing_for_a_parked_pool() -> None:
    steady, rest = pool(), pool(name="rest", desired=0)
    here, there = tenants("llama2:7b"), tenants("mistral:7b", pool="rest")
    both = cost(setup(pools=(steady, rest), tenants=here + there))
    assert both.first_start_gib == cost(setup(pools=(steady,), tenants=here)).first_start_gib


def test_dedicated_gpus_are_the_same_stack_with_a_card_for_each_model() -> None:
    bill = cost(setup())
    alone = setup(pools=(pool(sharing=Exclusive(), desired=2, max=2),))
    assert bill.dedicated_usd_per_hour == cost(alone).usd_per_hour > bill.usd_per_hour


def test_each_pool_has_its_line_and_the_oldest_of_their_prices_dates_the_bill() -> None:
    steady = listed(0, "steady", pool("g6.xlarge", Exclusive(), capacity="on-demand"))
    rest = listed(1, "rest", pool(["g4dn.xlarge", "g4dn.2xlarge"], desired=2, max=2))
    whole = setup(pools=(steady, rest), tenants=(*tenants(SMALL, pool="steady"), *tenants(*[SMALL] * 4, pool="rest")))
    bill = cost(whole)
    assert [(one.item, round(one.usd_per_hour, 4)) for one in bill.lines if "GPU" in one.item] == [
        ("GPU nodes 1 × g6.xlarge (steady)", 0.8048),
        ("GPU nodes 2 × g4dn.2xlarge (rest)", 0.6538),
    ]
    assert (bill.models, bill.price_region, bill.price_date) == (5, "us-east-1", "2026-06-18")
    assert cost(replace(whole, pools=(rest, steady))).price_date == "2026-06-18"
    own_and_home = replace(whole, region="eu-west-1", pools=(replace(steady, instance_types=("g6e.48xlarge",)), rest))
    assert cost(own_and_home).price_region in ("eu-west-1", "us-east-1, eu-west-1")


def test_dedicated_gpus_are_counted_pool_by_pool() -> None:
    steady = listed(0, "steady", pool("g4dn.12xlarge", capacity="on-demand"))
    rest, unused = listed(1, "rest", pool()), listed(2, "unused", pool())
    whole = setup(
        pools=(steady, rest, unused),
        tenants=(*tenants(*[SMALL] * 2, pool="steady"), *tenants(*[SMALL] * 2, pool="rest")),
    )
    alone = replace(whole, pools=(steady, replace(rest, desired=2), replace(unused, desired=0)))
    assert cost(whole).dedicated_usd_per_hour == pytest.approx(cost(alone).usd_per_hour)


@pytest.mark.parametrize(("count", "nodes"), [(1, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
def test_dedicated_nodes_are_as_many_as_hold_a_card_for_each_model(count: int, nodes: int) -> None:
    whole = setup(pools=(pool("g4dn.12xlarge", TimeSlicing(replicas=16)),), tenants=tenants(*[SMALL] * count))
    alone = replace(whole, pools=(replace(whole.pools[0], desired=nodes),))
    assert cost(whole).dedicated_usd_per_hour == pytest.approx(cost(alone).usd_per_hour)


@st.composite
def priced(draw: st.DrawFn) -> Setup:
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
        tenants=tenants(*[SMALL] * draw(st.integers(1, 6)), cache=draw(st.sampled_from(["node", "volume"]))),
        today=TODAY + datetime.timedelta(days=draw(st.integers(0, 900))),
    )


@given(whole=priced())
@settings(max_examples=120)
def test_the_lines_add_up_and_fewer_nodes_are_never_dearer_than_dedicated_ones(whole: Setup) -> None:
    bill = cost(whole)
    assert bill.usd_per_hour == pytest.approx(sum(one.usd_per_hour for one in bill.lines))
    assert all(one.usd_per_hour >= 0 for one in bill.lines)
    assert bill.usd_per_month == pytest.approx(bill.usd_per_hour * 730)
    assert bill.per_model_hour * bill.models == pytest.approx(bill.usd_per_hour)
    (here,) = whole.pools
    if here.desired <= -(-len(whole.tenants) // here.smallest.gpus):
        assert bill.dedicated_usd_per_hour >= bill.usd_per_hour - 1e-9


@pytest.mark.parametrize("region", REGIONS)
def test_spot_is_never_above_on_demand(region: str) -> None:
    seen = 0
    for name in TYPES:
        if spot := prices.spot(name, region):
            seen += 1
            assert 0 < spot.usd_per_hour <= prices.on_demand(name, region).usd_per_hour, name
    assert (seen > 0) == (region in ("us-east-1", "us-west-2", "eu-west-1"))


@pytest.mark.parametrize(
    "row", tables.read("spot_prices").rows, ids=lambda row: f"{row['region']} {row['instance_type']}"
)
def test_a_spot_price_is_the_dearest_zones_and_dated(row: tables.Row) -> None:
    price = prices.spot(row["instance_type"], row["region"])
    assert price == prices.Price(
        usd_per_hour=float(row["usd_per_hour"]), region=row["region"], date=row["date"], note=""
    )
    assert float(row["cheapest_zone"]) <= float(row["usd_per_hour"])
    assert row["instance_type"] in instance_types()


@pytest.mark.parametrize(
    ("item", "usd"),
    [
        ("eks-standard", 0.10),
        ("eks-extended", 0.60),
        ("ebs-gp3", 0.08),
        ("ebs-gp2", 0.10),
        ("ebs-snapshot", 0.05),
        ("log-storage", 0.03),
        ("vpc-endpoint-hour", 0.01),
        ("nat-gateway-hour", 0.045),
        ("nat-gateway-gb", 0.045),
        ("public-ipv4-hour", 0.005),
    ],
)
def test_services_have_their_published_prices(item: str, usd: float) -> None:
    assert prices.service(item, "us-east-1") == prices.Price(
        usd_per_hour=usd, region="us-east-1", date="2026-08-21", note=""
    )
    assert prices.service(item, "ap-south-2").note == "price of us-east-1"
    assert not prices.service(item, "ap-south-2").own
