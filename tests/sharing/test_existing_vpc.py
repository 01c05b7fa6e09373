"""What AWS says of a VPC that a stack does not own, and what it means."""

from typing import Any

import pytest

from sharing.existing.vpc import Subnet, VpcFacts, count_addresses, judge_network, network_of, way_through
from sharing.stack.existing import ExistingCluster, ExistingVpc
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
    vpc: dict[str, Any] = {"dns_support": True, "dns_hostnames": True, "endpoints": ["s3"], **case.get("vpc", {})}
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
    errors, warnings = judge_network(network_of(vpc), facts(case), config, deployed_in=case.get("deployed_in", ""))
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
    assert way_through(gateway, nat) == way
