"""Whether the account lets a stack up: region, quotas, instance types, the role for spot."""

import pytest

from sharing import names
from tandem.deployed.aws.quota import SPOT_ROLE
from tests.tandem.account.creation import ROLE, TRUST, Creation
from tests.tandem.account.emulated import ENOUGH, OURS, Emulated
from tests.tandem.doctor.conftest import Cases
from tests.tandem.doctor.findings import finding, findings, summary

SPOT_COMMAND = "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"


def test_an_enabled_region_is_fine(emulated: Emulated, case: Cases) -> None:
    assert summary("region", case()) == [("ok", "us-east-1")]


@pytest.mark.real_world(
    behaviour="A region that the account has not enabled refuses good credentials as if they were wrong.",
    source="AWS account management guide, Enable or disable AWS Regions in your account",
)
def test_a_region_that_is_not_enabled_stops_up_and_the_credentials_do_not(emulated: Emulated, case: Cases) -> None:
    emulated.closed = {"af-south-1"}
    there = case("timeslice", region="af-south-1")
    assert summary("credentials", there)[0][0] == "ok"
    found = finding("region", there)
    assert (found.verdict, found.found) == ("stops", "af-south-1 is not enabled in this account")
    assert found.fix == "aws account enable-region --region-name af-south-1"
    assert finding("quotas", there).verdict == "unknown"


def test_a_quota_that_is_short_stops_up_and_one_that_is_short_later_warns(emulated: Emulated, case: Cases) -> None:
    emulated.quotas = dict(ENOUGH)
    assert [found.verdict for found in findings("quotas", case("timeslice"))] == ["ok"]
    emulated.quotas["L-3819A6DF"] = 0.0
    found = finding("quotas", case("timeslice"))
    assert found.verdict == "stops"
    assert found.found.startswith("All G and VT Spot Instance Requests (vCPU): 0 of 0 used by others, ")
    assert "request-service-quota-increase --region us-east-1 --service-code ec2 --quota-code L-3819A6DF" in found.fix


def test_a_quota_whose_limit_aws_does_not_say_is_not_fine(emulated: Emulated, case: Cases) -> None:
    emulated.quotas = dict(ENOUGH)
    del emulated.quotas["L-0263D0A3"]
    assert finding("quotas", case("timeslice")).verdict == "unknown"


def test_an_instance_type_that_no_zone_offers_stops_up(emulated: Emulated, case: Cases) -> None:
    emulated.offers = {"t3.medium": "abcdf"}
    found = findings("offerings", case("timeslice"))
    assert [each.verdict for each in found] == ["stops"]
    assert "g4dn.xlarge" in found[0].found


def deploy(creation: Creation, zones: str) -> None:
    """A cluster of the stack `timeslice` with a subnet in each of the zones."""
    vpc = creation.ec2.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
    for number, zone in enumerate(zones):
        made = creation.ec2.create_subnet(
            VpcId=vpc, CidrBlock=f"10.1.{number}.0/24", AvailabilityZone=f"us-east-1{zone}"
        )
        creation.subnet = made["Subnet"]["SubnetId"]
    creation.EKS_clusters(OURS, "tandem-timeslice")


@pytest.mark.slow
@pytest.mark.real_world(
    behaviour="A subnet does not move to another zone, so a cluster keeps the zones that it has.",
    source="terraform-provider-aws internal/service/ec2/vpc_subnet.go, availability_zone ForceNew",
)
def test_a_stack_that_is_up_is_judged_by_its_own_zones(emulated: Emulated, creation: Creation, case: Cases) -> None:
    emulated.offers = {"t3.medium": "abcdf", "g4dn.xlarge": "cd", "g4dn.2xlarge": "cd"}
    [free] = findings("offerings", case("timeslice"))
    assert free.found == "each zone that a new stack would take offers each instance type"
    deploy(creation, "ab")
    found = findings("offerings", case("timeslice"))
    assert [each.verdict for each in found] == ["stops"]
    assert found[0].found.startswith("gpu-nodes.instance-types: no zone of the stack (us-east-1a, us-east-1b) sells")


def test_a_group_that_is_up_runs_on_where_its_types_are_no_longer_sold(
    emulated: Emulated, creation: Creation, case: Cases
) -> None:
    pool = case("timeslice").planned_stack.plan.setup.pools[0]
    emulated.offers = {"t3.medium": "abcdf"}
    deploy(creation, "ab")
    creation.eks.create_nodegroup(
        clusterName="tandem-timeslice",
        nodegroupName="gpus",
        subnets=[creation.subnet],
        nodeRole=ROLE,
        instanceTypes=list(pool.instance_types),
        labels={names.POOL_LABEL: pool.name},
        tags={names.TAG_ZONES: "us-east-1a us-east-1b"},
    )
    assert {each.verdict for each in findings("offerings", case("timeslice"))} == {"warning"}


@pytest.mark.real_world(
    behaviour="Karpenter does not create the service-linked role for spot; EC2 Auto Scaling may.",
    source="karpenter-provider-aws pkg/providers/instance/instance.go; AWS managed policy AutoScalingServiceRolePolicy",
)
@pytest.mark.parametrize(("stack", "verdict"), [("timeslice", "warning"), ("karpenter", "stops")])
def test_a_missing_role_for_spot_is_found_with_the_command_that_makes_it(
    emulated: Emulated, creation: Creation, case: Cases, stack: str, verdict: str
) -> None:
    found = finding("spot-role", case(stack))
    assert (found.verdict, found.fix) == (verdict, SPOT_COMMAND)
    creation.iam.create_role(RoleName=SPOT_ROLE, AssumeRolePolicyDocument=TRUST)
    assert finding("spot-role", case(stack)).verdict == "ok"


@pytest.mark.slow
@pytest.mark.parametrize("code", ["AccessDenied", "Throttling", "ExpiredToken"])
@pytest.mark.parametrize(
    ("check", "operation"),
    [
        ("region", "DescribeRegions"),
        ("quotas", "GetServiceQuota"),
        ("quotas", "DescribeInstances"),
        ("offerings", "DescribeInstanceTypeOfferings"),
        ("offerings", "DescribeAvailabilityZones"),
        ("spot-role", "GetRole"),
    ],
)
def test_a_question_that_aws_does_not_answer_is_not_fine(
    emulated: Emulated, case: Cases, check: str, operation: str, code: str
) -> None:
    emulated.quotas = dict(ENOUGH)
    emulated.denied[operation] = code
    found = finding(check, case("timeslice"))
    assert (found.verdict, code in found.found) == ("unknown", True)
