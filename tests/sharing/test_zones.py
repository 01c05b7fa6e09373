"""The zones of a stack and of its pools: the rules without AWS."""

import pytest

from sharing.sections.zones import (
    Demand,
    Group,
    NoZoneError,
    choose_for_pool,
    choose_for_stack,
    demands,
    most,
    system_demand,
)
from tests.sharing.builders import pool, setup

ZONES = ("a", "b", "d", "e", "f")
SYSTEM = system_demand(["t3.medium"])


def group(*types: str) -> Demand:
    return Demand(path="gpu-nodes.instance-types", types=types, every=True)


def karpenter(*types: str) -> Demand:
    return Demand(path="gpu-nodes.instance-types", types=types, every=False)


def offers(**letters: str) -> dict[str, list[str]]:
    return {"t3.medium": list(ZONES), **{name: list(found) for name, found in letters.items()}}


@pytest.mark.parametrize(
    ("count", "demands", "sold", "taken", "chosen"),
    [
        (2, [group("g")], {"g": "de"}, "", "de"),
        (3, [group("g")], {"g": "de"}, "", "ade"),
        (2, [group("g"), group("h")], {"g": "de", "h": "f"}, "", "df"),
        (2, [group("g"), group("h")], {"g": "abd", "h": "bf"}, "", "ab"),
        # A group needs all of its types in one zone; Karpenter needs only one of them.
        (2, [group("g", "h")], {"g": "abf", "h": "bf"}, "", "bf"),
        (2, [karpenter("g", "h")], {"g": "e", "h": "f"}, "", "ef"),
        # Zones in use stay, and only missing ones are added.
        (3, [group("g")], {"g": "f"}, "ab", "abf"),
        (2, [group("g")], {"g": "f"}, "ab", "ab"),
        # No zone sells it: the first zones are chosen, and `choose_for_pool` reports the error.
        (2, [group("g")], {}, "", "ab"),
        (2, [group("g")], None, "", "ab"),
        (6, [group("g")], {"g": "e"}, "", "abdef"),
    ],
)
def test_a_stack_uses_the_zones_that_serve_most_pools(
    count: int, demands: list[Demand], sold: dict[str, str] | None, taken: str, chosen: str
) -> None:
    known = None if sold is None else offers(**sold)
    assert choose_for_stack(ZONES, count, [SYSTEM, *demands], known, tuple(taken)) == tuple(chosen)


def test_system_nodes_get_the_first_zones_of_a_stack() -> None:
    sold = {"t3.medium": ["d", "e", "f"], "g": ["a", "d", "e"]}
    assert choose_for_stack(ZONES, 3, [SYSTEM, group("g")], sold) == ("d", "e", "f")
    assert choose_for_stack(ZONES, 2, [SYSTEM, group("g")], {**sold, "g": ["a"]}) == ("d", "a")


@pytest.mark.parametrize(
    ("sold", "there", "placed"),
    [
        ("de", None, "de"),
        ("de", "d", "d"),
        ("ade", "de", "de"),
        ("ae", "de", "de"),  # one of its zones is enough to stay
        ("ab", "de", "ab"),
        ("", "de", "de"),  # nothing is better: its nodes still run
        ("e", "ef", "e"),  # the stack gave up f
    ],
)
def test_a_pool_stays_as_long_as_one_of_its_zones_sells_its_types(sold: str, there: str | None, placed: str) -> None:
    now = None if there is None else Group(zones=tuple(there), types=frozenset({"g"}))
    assert choose_for_pool(group("g"), ("a", "b", "d", "e"), offers(g=sold), now) == list(placed)


def test_a_group_with_other_types_leaves_the_zones_that_do_not_sell_them() -> None:
    there = Group(zones=("d", "e"), types=frozenset({"g"}))
    sold = offers(g="de", h="ae", i="")
    assert choose_for_pool(group("g", "h"), ZONES, sold, there) == ["e"]
    with pytest.raises(NoZoneError, match="Use other types or another region"):
        choose_for_pool(group("i"), ZONES, sold, there)


@pytest.mark.parametrize(
    ("demand", "message"),
    [
        (
            group("g"),
            "gpu-nodes.instance-types: no zone of the stack (a, b) sells g. Raise `cluster.zones`, or add one of these "
            "to `cluster.zone-names`: f.",
        ),
        (
            group("g", "h"),
            "gpu-nodes.instance-types: no zone of the stack (a, b) sells g, h. A node group needs a zone that sells "
            "all of its types (g: f; h: e). Keep types that one zone sells.",
        ),
        (
            karpenter("i"),
            "gpu-nodes.instance-types: no zone of the stack (a, b) sells i. No other zone of the region sells them to "
            "this account. Use other types or another region.",
        ),
    ],
)
def test_a_pool_without_a_zone_is_an_error_with_a_fix(demand: Demand, message: str) -> None:
    with pytest.raises(NoZoneError) as refused:
        choose_for_pool(demand, ("a", "b"), offers(g="f", h="e"))
    assert str(refused.value) == message


def test_a_pool_that_a_volume_binds_is_refused_other_types() -> None:
    there = Group(zones=("b",), types=frozenset({"g"}))
    assert choose_for_pool(group("g"), ("b",), offers(g="a"), there, bound=True) == ["b"]
    with pytest.raises(NoZoneError) as refused:
        choose_for_pool(group("h"), ("b",), offers(h="a"), there, bound=True)
    assert str(refused.value) == (
        "gpu-nodes.instance-types: b does not sell h. A volume binds the pool to this zone. Write a type "
        "that the zone sells, or `cache: node`."
    )


@pytest.mark.parametrize(
    ("region", "zones"),
    # AWS's list: six zones minus use1-az3, three minus usw1-az2, and three in ca-central-1, where cac1-az3 is retired.
    [("us-east-1", 5), ("us-west-1", 2), ("us-west-2", 4), ("ca-central-1", 3), ("eu-west-1", 3), ("nowhere-1", None)],
)
def test_a_region_has_the_zones_that_aws_lists_minus_those_that_eks_does_not_use(
    region: str, zones: int | None
) -> None:
    assert most(region) == zones


def test_a_stack_demands_zones_for_its_system_nodes_first() -> None:
    whole = setup(pools=[pool("g4dn.xlarge", provisioner="karpenter")])
    system, gpu = demands(whole)
    assert (system.types, system.every) == (tuple(whole.cluster.system_nodes.instance_types), True)
    assert (gpu.path, gpu.types, gpu.every) == ("gpu-nodes.instance-types", ("g4dn.xlarge",), False)
