"""What Karpenter is told it can buy: labels as AWS's provider makes them, prices and resources of the catalogue."""

from typing import Any

import pytest

from sharing import prices
from sharing.gpus import instance_types
from tests.control_plane.karpenter_types import CAPACITY_TYPE, GPU_COUNT, ZONE, for_sale


def sold(name: str, **which: Any) -> dict[str, Any]:
    [found] = [one for one in for_sale(**which) if one["name"] == name]
    return found


def offerings(name: str, **which: Any) -> dict[tuple[str, str], float]:
    """Price by capacity and zone."""
    return {
        (values[CAPACITY_TYPE], values[ZONE]): offering["Price"]
        for offering in sold(name, **which)["offerings"]
        for values in [{one["key"]: one["values"][0] for one in offering["Requirements"]}]
    }


def test_every_type_of_the_catalogue_is_for_sale() -> None:
    assert instance_types().keys() < {one["name"] for one in for_sale()}


def test_a_node_has_the_physical_cards_and_the_slice_of_one_is_none() -> None:
    assert sold("g4dn.12xlarge")["resources"]["nvidia.com/gpu"] == "4"
    assert sold("g4ad.16xlarge")["resources"]["amd.com/gpu"] == "4"
    assert not any("gpu" in name for name in sold("g6f.xlarge")["resources"])
    assert not any("gpu" in name for name in sold("t3.medium")["resources"])


def test_a_type_is_offered_in_each_zone_on_demand_and_on_spot_at_the_prices_of_the_plan() -> None:
    spot = prices.spot("g4dn.xlarge", "us-east-1")
    assert spot
    usual = prices.on_demand("g4dn.xlarge", "us-east-1").usd_per_hour
    assert offerings("g4dn.xlarge", zones=("a", "c")) == {
        ("spot", "us-east-1a"): spot.usd_per_hour,
        ("spot", "us-east-1c"): spot.usd_per_hour,
        ("on-demand", "us-east-1a"): usual,
        ("on-demand", "us-east-1c"): usual,
    }


def test_spot_that_is_withdrawn_is_not_offered_and_other_spot_is() -> None:
    assert {capacity for capacity, _ in offerings("g4dn.xlarge", without_spot=["g4dn.xlarge"])} == {"on-demand"}
    assert {capacity for capacity, _ in offerings("g6.xlarge", without_spot=["g4dn.xlarge"])} == {"spot", "on-demand"}


def test_a_type_without_a_known_spot_price_is_offered_on_demand_alone() -> None:
    assert prices.spot("p5.4xlarge", "us-east-1") is None
    assert {capacity for capacity, _ in offerings("p5.4xlarge")} == {"on-demand"}


def test_other_regions_have_their_own_prices_and_zones() -> None:
    found = offerings("g4dn.xlarge", region="eu-central-1", zones=("b",))
    spot = prices.spot("g4dn.xlarge", "eu-central-1")
    assert spot
    assert found["spot", "eu-central-1b"] == spot.usd_per_hour


@pytest.mark.parametrize(("name", "count"), [("g4dn.12xlarge", ["4"]), ("g6f.xlarge", ["0"]), ("t3.medium", None)])
def test_the_number_of_gpus_that_ec2_reports_reaches_the_node(name: str, count: list[str] | None) -> None:
    for offering in sold(name)["offerings"]:
        required = {one["key"]: one["values"] for one in offering["Requirements"] if one["operator"] == "In"}
        assert required.get(GPU_COUNT) == count
