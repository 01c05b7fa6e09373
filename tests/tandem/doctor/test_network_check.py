"""The check of a VPC that the stack does not own, in an emulated account."""

from collections.abc import Callable
from typing import Any

import boto3
import pytest
from moto.ec2.models import ec2_backends

from sharing.sections.existing import ExistingVpc
from tandem.aws.network import _way_of
from tandem.doctor.checks import checks_for
from tests.tandem.aws.emulated import ACCOUNT, REGION, Emulated
from tests.tandem.doctor.conftest import Cases
from tests.tandem.doctor.findings import findings, summary
from tests.tandem.doctor.scenes import configured

ABSENT = "vpc-00000009"


class Theirs:
    """A VPC with two private subnets behind NAT, and endpoints."""

    def __init__(self) -> None:
        self.ec2 = boto3.client("ec2", region_name=REGION)
        self.id = self.ec2.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
        self.ec2.modify_vpc_attribute(VpcId=self.id, EnableDnsHostnames={"Value": True})
        self.subnets = [
            self.ec2.create_subnet(VpcId=self.id, CidrBlock=f"10.1.{number}.0/24", AvailabilityZone=f"{REGION}{zone}")[
                "Subnet"
            ]["SubnetId"]
            for number, zone in enumerate("ab")
        ]
        self.gateway = self.ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        self.ec2.attach_internet_gateway(InternetGatewayId=self.gateway, VpcId=self.id)
        address = self.ec2.allocate_address(Domain="vpc")["AllocationId"]
        nat = self.ec2.create_nat_gateway(SubnetId=self.subnets[0], AllocationId=address)["NatGateway"]["NatGatewayId"]
        # Only the first subnet has a table of its own.
        self.main = self._main()
        self.own = self.ec2.create_route_table(VpcId=self.id)["RouteTable"]["RouteTableId"]
        self.ec2.associate_route_table(RouteTableId=self.own, SubnetId=self.subnets[0])
        for table in (self.main, self.own):
            self.ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", NatGatewayId=nat)
        self.endpoint("s3", VpcEndpointType="Gateway", RouteTableIds=[self.main, self.own])
        group = self.ec2.create_security_group(GroupName="theirs", Description="theirs", VpcId=self.id)
        self.group = group["GroupId"]

    def _main(self) -> str:
        filters = [{"Name": "vpc-id", "Values": [self.id]}]
        [table] = self.ec2.describe_route_tables(Filters=filters)["RouteTables"]
        return str(table["RouteTableId"])

    def endpoint(self, service: str, **more: Any) -> None:
        self.ec2.create_vpc_endpoint(VpcId=self.id, ServiceName=f"com.amazonaws.{REGION}.{service}", **more)

    def no_route(self, table: str) -> None:
        self.ec2.delete_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0")

    def section(self, **changed: Any) -> dict[str, Any]:
        return {"id": self.id, "subnets": self.subnets, "security_groups": [self.group], **changed}


@pytest.fixture
def theirs(emulated: Emulated) -> Theirs:
    return Theirs()


@pytest.fixture
def check(case: Cases) -> Callable[..., list[tuple[str, str]]]:
    def found(**vpc: Any) -> list[tuple[str, str]]:
        one = case("timeslice")
        assert one.stack
        cluster = one.stack.plan.config.cluster.changed(vpc=ExistingVpc.model_validate(vpc))
        return summary("network", configured(one, cluster=cluster))

    return found


@pytest.mark.slow
def test_a_vpc_that_has_everything_is_fine(theirs: Theirs, check: Callable[..., Any]) -> None:
    assert check(**theirs.section()) == [("ok", f"{theirs.id} has what the stack needs")]


@pytest.mark.slow
def test_what_aws_does_not_know_stops_a_stack(theirs: Theirs, check: Callable[..., Any]) -> None:
    gone = f"'{ABSENT}' does not exist in {REGION} of this account"
    assert check(**theirs.section(id=ABSENT)) == [("stops", f"cluster.vpc.id: {gone}")]
    other = Theirs()
    said = check(**theirs.section(node_subnets=other.subnets, security_groups=["sg-00000009"]))
    assert said == [
        *(
            ("stops", f"cluster.vpc.node-subnets[{index}]: {subnet} is in {other.id}, not in {theirs.id}")
            for index, subnet in enumerate(other.subnets)
        ),
        ("stops", f"cluster.vpc.security-groups[0]: 'sg-00000009' does not exist in {REGION} of this account"),
    ]


@pytest.mark.slow
def test_dns_that_is_off_stops_a_stack(theirs: Theirs, check: Callable[..., Any]) -> None:
    said = "cluster.vpc.id: {} has `enable-dns-{}` off, so nodes cannot join the cluster"
    theirs.ec2.modify_vpc_attribute(VpcId=theirs.id, EnableDnsHostnames={"Value": False})
    assert check(**theirs.section()) == [("stops", said.format(theirs.id, "hostnames"))]
    theirs.ec2.modify_vpc_attribute(VpcId=theirs.id, EnableDnsHostnames={"Value": True})
    theirs.ec2.modify_vpc_attribute(VpcId=theirs.id, EnableDnsSupport={"Value": False})
    assert check(**theirs.section()) == [("stops", said.format(theirs.id, "support"))]


@pytest.mark.slow
def test_a_subnet_leads_where_its_route_table_or_the_main_one_leads(theirs: Theirs, check: Callable[..., Any]) -> None:
    missing = "has no route to the internet, and its VPC has no endpoint for ec2, ecr.api, ecr.dkr, eks-auth"
    theirs.no_route(theirs.main)
    assert check(**theirs.section()) == [("stops", f"cluster.vpc.subnets[1]: {theirs.subnets[1]} {missing}")]
    for service in ("ec2", "ecr.api", "ecr.dkr", "eks-auth"):
        theirs.endpoint(service, VpcEndpointType="Interface", SubnetIds=theirs.subnets)
    [found] = check(**theirs.section())
    assert found[0] == "warning"
    theirs.ec2.create_route(RouteTableId=theirs.main, DestinationCidrBlock="0.0.0.0/0", GatewayId=theirs.gateway)
    [(verdict, text)] = check(**theirs.section())
    assert (verdict, "assigns no public addresses" in text) == ("stops", True)
    theirs.ec2.modify_subnet_attribute(SubnetId=theirs.subnets[1], MapPublicIpOnLaunch={"Value": True})
    assert [verdict for verdict, _ in check(**theirs.section())] == ["ok"]


def test_a_route_to_a_deleted_gateway_leads_nowhere() -> None:
    """moto has no black holes: AWS marks such a route so (API_DeleteNatGateway)."""
    route = {"DestinationCidrBlock": "0.0.0.0/0", "NatGatewayId": "nat-1"}
    assert _way_of({"Routes": [{**route, "State": "active"}]}) == "nat-gateway"
    assert _way_of({"Routes": [{**route, "State": "blackhole"}]}) == "none"


def test_a_route_to_a_prefix_list_may_lead_out() -> None:
    """EC2 API reference, Route. That of a gateway endpoint has its prefix list, too."""
    route = {"DestinationPrefixListId": "pl-1", "State": "active"}
    assert _way_of({"Routes": [{**route, "NatGatewayId": "nat-1"}]}) == "elsewhere"
    assert _way_of({"Routes": [{**route, "GatewayId": "vpce-1"}]}) == "none"


@pytest.mark.slow
def test_an_interface_endpoint_for_s3_is_no_gateway_endpoint(theirs: Theirs, check: Callable[..., Any]) -> None:
    ec2_backends[ACCOUNT][REGION].vpc_end_points.clear()
    theirs.endpoint("s3", VpcEndpointType="Interface", SubnetIds=theirs.subnets)
    [(verdict, text)] = check(**theirs.section())
    assert (verdict, "has no gateway endpoint for S3" in text) == ("warning", True)


@pytest.mark.slow
def test_a_missing_permission_is_named(emulated: Emulated, theirs: Theirs, check: Callable[..., Any]) -> None:
    emulated.denied["DescribeRouteTables"] = "UnauthorizedOperation"
    [(verdict, text)] = check(**theirs.section())
    assert (verdict, text) == ("unknown", "These credentials may not call DescribeRouteTables (UnauthorizedOperation)")


@pytest.mark.slow
def test_the_offers_that_count_are_those_of_the_subnets_zones(emulated: Emulated, theirs: Theirs, case: Cases) -> None:
    emulated.offers = {"t3.medium": "abcdf", "g4dn.xlarge": "cd", "g4dn.2xlarge": "cd"}
    one = case("timeslice")
    assert one.stack
    cluster = one.stack.plan.config.cluster.changed(vpc=ExistingVpc.model_validate(theirs.section()))
    [found] = findings("offerings", configured(one, cluster=cluster))
    assert found.verdict == "stops"
    assert found.fix == f"Add a subnet in one of these to `cluster.vpc.node-subnets`: {REGION}c, {REGION}d."


def test_a_stack_with_its_own_network_has_no_such_check(case: Cases) -> None:
    assert "network" not in [one.name for one in checks_for(case("timeslice"))]
