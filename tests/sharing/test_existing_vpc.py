"""What AWS says of a VPC that a stack does not own, and what it means."""

from typing import Any

import pytest

from sharing.existing.vpc import (
    Route,
    Subnet,
    VpcFacts,
    count_addresses,
    find_way,
    judge_network,
    network_around,
    network_of,
)
from sharing.sections.existing import ExistingCluster, ExistingVpc
from tests.sharing.builders import pool, read_cases, setup

CASES = read_cases("existing_vpc")
VPC = "vpc-0a1b2c3d"
RIGHT = {
    id: Subnet(
        vpc=VPC,
        zone=f"us-east-1{letter}",
        zone_id=f"use1-az{number}",
        free=200,
        public_addresses=False,
        way="nat-gateway",
    )
    for id, letter, number in (("subnet-0000000a", "a", 1), ("subnet-0000000b", "b", 2), ("subnet-0000000c", "a", 1))
}


def facts(case: dict[str, Any]) -> VpcFacts:
    if "vpc" in case and case["vpc"] is None:
        return VpcFacts(exists=False)
    vpc: dict[str, Any] = {"endpoints": ["s3"], **case.get("vpc", {})}
    fields = Subnet.__dataclass_fields__
    subnets = {
        id: Subnet(**{**{name: getattr(right, name) for name in fields}, **case.get(id, {})})
        for id, right in RIGHT.items()
    }
    return VpcFacts(**{**vpc, "endpoints": frozenset(vpc["endpoints"])}, subnets=subnets)


@pytest.mark.parametrize("name", CASES)
def test_a_vpc_is_judged_as_in_the_table(name: str) -> None:
    case = CASES[name]
    given = {"id": VPC, "subnets": ["subnet-0000000a", "subnet-0000000b"], **case.get("stack", {})}
    vpc = ExistingVpc.model_validate(given)
    config = setup(pools=[pool(provisioner=case.get("provisioner", "node-group"))])
    network = network_of(vpc)
    if "private_api" in case:
        cluster = ExistingCluster(name="platform")
        network = network_around(cluster, VPC, vpc.subnets, has_private_api=case["private_api"])
    errors, warnings = judge_network(network, facts(case), config, deployed_in=case.get("deployed_in", ""))
    said = [*map(str, errors)], [*map(str, warnings)]
    assert said == (case.get("errors", []), case.get("warnings", []))


def test_the_system_nodes_of_an_existing_cluster_have_their_addresses() -> None:
    ours = setup()
    theirs = ours.changed(cluster=ours.cluster.changed(existing=ExistingCluster(name="platform")))
    # One g4dn.xlarge with two models.
    assert count_addresses(theirs) == (3, 29)
    assert count_addresses(ours) == (11, 63)


@pytest.mark.parametrize(
    ("gateway", "nat", "way"),
    [
        ("igw-1", None, "internet-gateway"),
        ("", "nat-1", "nat-gateway"),
        ("vgw-1", "", "elsewhere"),
        (None, None, "elsewhere"),
    ],
)
def test_a_route_leads_where_its_target_leads(gateway: str | None, nat: str | None, way: str) -> None:
    assert find_way([("10.0.0.0/8", "tgw-1", None), ("0.0.0.0/0", gateway, nat)]) == way


@pytest.mark.parametrize(
    ("route", "way"),
    [
        (("pl-1", "igw-1", None), "elsewhere"),
        (("pl-1", None, "nat-1"), "elsewhere"),
        (("pl-1", "vpce-1", None), "none"),
        (("0.0.0.0/1", None, "nat-1"), "elsewhere"),
        (("128.0.0.0/1", None, "nat-1"), "elsewhere"),
        (("0.0.0.0/16", "tgw-1", None), "none"),
        (("10.0.0.0/8", "tgw-1", None), "none"),
    ],
)
def test_a_route_to_more_than_it_says_leads_elsewhere(route: Route, way: str) -> None:
    """A prefix list may contain 0.0.0.0/0, except that of a gateway endpoint."""
    assert find_way([route]) == way
    assert find_way([route, ("0.0.0.0/0", None, "nat-1")]) == "nat-gateway"
