import json
import re
from typing import Any

import pytest

from sandbox.cloud.answers import Cloud
from sandbox.cloud.protocol import Created, Creation, Question

REGION = {"region": "eu-west-1"}
HEX = "[0-9a-f]{17}"


def created(token: str, logical: str = "x", /, *, provider: Any = None, **inputs: Any) -> Created:
    return Cloud().created(Creation(type=f"aws:{token}", name=logical, inputs=inputs, provider=provider or {}))


def answer(token: str, provider: Any = None, /, **args: Any) -> Any:
    return Cloud().answer(Question(token=f"aws:{token}", args=args, provider=provider or {}))


@pytest.mark.parametrize(
    ("token", "inputs", "identity"),
    [
        ("ec2/vpc:Vpc", {}, f"vpc-{HEX}"),
        ("ec2/subnet:Subnet", {}, f"subnet-{HEX}"),
        ("ec2/internetGateway:InternetGateway", {}, f"igw-{HEX}"),
        ("ec2/natGateway:NatGateway", {}, f"nat-{HEX}"),
        ("ec2/eip:Eip", {}, f"eipalloc-{HEX}"),
        ("ec2/routeTable:RouteTable", {}, f"rtb-{HEX}"),
        ("ec2/routeTableAssociation:RouteTableAssociation", {}, f"rtbassoc-{HEX}"),
        ("ec2/vpcEndpoint:VpcEndpoint", {}, f"vpce-{HEX}"),
        ("ec2/launchTemplate:LaunchTemplate", {}, f"lt-{HEX}"),
        ("ebs/volume:Volume", {}, f"vol-{HEX}"),
        ("ec2/route:Route", {"routeTableId": "rtb-1", "destinationCidrBlock": "0.0.0.0/0"}, "r-rtb-1[0-9a-f]{10}"),
        ("iam/role:Role", {}, "x-0000000"),
        ("iam/role:Role", {"name": "own"}, "own"),
        ("iam/policy:Policy", {}, "arn:aws:iam::123456789012:policy/x-0000000"),
        ("iam/rolePolicyAttachment:RolePolicyAttachment", {"role": "r", "policyArn": "arn:p"}, "r/arn:p"),
        ("eks/cluster:Cluster", {}, "x-0000000"),
        ("eks/nodeGroup:NodeGroup", {"clusterName": "c", "nodeGroupName": "g"}, "c:g"),
        ("eks/addon:Addon", {"clusterName": "c", "addonName": "coredns"}, "c:coredns"),
        ("eks/accessEntry:AccessEntry", {"clusterName": "c", "principalArn": "arn:p"}, "c:arn:p"),
        ("cloudwatch/logGroup:LogGroup", {}, "x-0000000"),
        ("cloudwatch/eventTarget:EventTarget", {"rule": "r", "targetId": "t"}, "r-t"),
        ("sqs/queue:Queue", {}, "https://sqs.eu-west-1.amazonaws.com/123456789012/x-0000000"),
        ("sqs/queuePolicy:QueuePolicy", {"queueUrl": "https://q"}, "https://q"),
    ],
)
def test_ids_look_like_the_real_ones(token: str, inputs: dict[str, Any], identity: str) -> None:
    one = created(token, provider=REGION, **inputs)
    assert re.fullmatch(identity, one.id)
    assert one.outputs.items() >= inputs.items()


@pytest.mark.parametrize(
    ("token", "inputs", "arn"),
    [
        ("ec2/vpc:Vpc", {}, f"ec2:eu-west-1:123456789012:vpc/vpc-{HEX}"),
        ("ec2/launchTemplate:LaunchTemplate", {}, f"ec2:eu-west-1:123456789012:launch-template/lt-{HEX}"),
        ("iam/role:Role", {"name": "r"}, "iam::123456789012:role/r"),
        ("eks/nodeGroup:NodeGroup", {"clusterName": "c"}, "eks:eu-west-1:123456789012:nodegroup/c/x-0{7}/[0-9a-f]{12}"),
        ("cloudwatch/logGroup:LogGroup", {"name": "l"}, "logs:eu-west-1:123456789012:log-group:l"),
        ("cloudwatch/eventRule:EventRule", {"name": "e"}, "events:eu-west-1:123456789012:rule/e"),
        ("sqs/queue:Queue", {"name": "q"}, "sqs:eu-west-1:123456789012:q"),
    ],
)
def test_arns_name_service_region_and_account(token: str, inputs: dict[str, Any], arn: str) -> None:
    assert re.fullmatch(f"arn:aws:{arn}", created(token, provider=REGION, **inputs).outputs["arn"])


def test_ids_differ_by_name_and_type_and_are_the_same_every_time() -> None:
    assert created("ec2/vpc:Vpc", "a").id == created("ec2/vpc:Vpc", "a", cidrBlock="10.0.0.0/16").id
    assert created("ec2/vpc:Vpc", "a").id != created("ec2/vpc:Vpc", "b").id
    assert created("ec2/vpc:Vpc", "a").id[-17:] != created("ec2/subnet:Subnet", "a").id[-17:]


@pytest.mark.parametrize(
    ("region", "arn"),
    [
        (None, "arn:aws:eks:us-east-1:123456789012:cluster/c"),
        ("eu-west-1", "arn:aws:eks:eu-west-1:123456789012:cluster/c"),
        ("us-gov-west-1", "arn:aws-us-gov:eks:us-gov-west-1:123456789012:cluster/c"),
        ("cn-north-1", "arn:aws-cn:eks:cn-north-1:123456789012:cluster/c"),
    ],
)
def test_arns_have_the_providers_region_and_its_partition(region: str | None, arn: str) -> None:
    provider = {"region": region} if region else {}
    assert created("eks/cluster:Cluster", provider=provider, name="c").outputs["arn"] == arn


def test_default_tags_of_the_provider_are_under_all_tags() -> None:
    # On the wire a provider's inputs are JSON texts.
    provider = {"defaultTags": json.dumps({"tags": {"team": "blue", "stage": "dev"}})}
    outputs = created("ec2/vpc:Vpc", provider=provider, tags={"team": "red"}).outputs
    assert outputs["tagsAll"] == {"team": "red", "stage": "dev"}
    assert created("iam/role:Role", provider=provider, tags={"a": "b"}).outputs["tagsAll"]["stage"] == "dev"
    assert "tagsAll" not in created("ec2/vpc:Vpc", provider=provider).outputs


def test_a_cluster_has_what_kubeconfigs_and_identities_are_made_of() -> None:
    given = {"subnetIds": ["subnet-1"], "endpointPublicAccess": False}
    outputs = created("eks/cluster:Cluster", provider=REGION, vpcConfig=given, version="1.35").outputs
    assert re.fullmatch(r"https://[0-9A-F]{32}\.gr7\.eu-west-1\.eks\.amazonaws\.com", outputs["endpoint"])
    assert outputs["certificateAuthority"]["data"]
    assert outputs["vpcConfig"].items() >= given.items()
    assert re.fullmatch(f"sg-{HEX}", outputs["vpcConfig"]["clusterSecurityGroupId"])
    assert outputs["version"] == "1.35"
    assert created("eks/cluster:Cluster").outputs["version"] == "1.36"


def test_pod_identity_associations_are_known_by_who_is_associated() -> None:
    who = {"clusterName": "c", "namespace": "n", "serviceAccount": "s"}
    one = created("eks/podIdentityAssociation:PodIdentityAssociation", **who)
    assert one.outputs["associationId"] == one.id
    assert one.id != created("eks/podIdentityAssociation:PodIdentityAssociation", **{**who, "namespace": "m"}).id


# Functions.


def test_a_region_has_six_zones() -> None:
    zones = answer("index/getAvailabilityZones:getAvailabilityZones")
    assert zones["names"] == [f"us-east-1{letter}" for letter in "abcdef"]
    assert zones["zoneIds"] == [f"use1-az{number}" for number in range(1, 7)]
    assert answer("index/getAvailabilityZones:getAvailabilityZones", {"region": "ap-southeast-2"})["zoneIds"][0] == (
        "apse2-az1"
    )


def test_zones_can_be_left_out_by_id() -> None:
    zones = answer("index/getAvailabilityZones:getAvailabilityZones", excludeZoneIds=["use1-az3"])
    assert zones["names"] == [f"us-east-1{letter}" for letter in "abdef"]
    assert zones["zoneIds"] == [f"use1-az{number}" for number in (1, 2, 4, 5, 6)]


def test_partition_and_account_are_those_of_the_provider() -> None:
    assert answer("index/getPartition:getPartition", {"region": "cn-north-1"})["partition"] == "aws-cn"
    assert answer("index/getPartition:getPartition")["dnsSuffix"] == "amazonaws.com"
    assert answer("index/getCallerIdentity:getCallerIdentity")["accountId"] == "123456789012"
