"""Whether the account lets a stack up: region, quotas, instance types, the role for spot."""

import pytest

from sharing import names
from tandem.deployed.aws.quota import SPOT_ROLE
from tests.tandem.account.creation import ROLE, TRUST, Creation
from tests.tandem.account.emulated import OURS, Emulated
from tests.tandem.doctor.conftest import Cases
from tests.tandem.doctor.findings import finding, findings

SPOT_COMMAND = "aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"


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
