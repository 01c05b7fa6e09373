from __future__ import annotations

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
    ("token", "pattern"),
    [
        ("ec2/vpc:Vpc", f"vpc-{HEX}"),
        ("ec2/subnet:Subnet", f"subnet-{HEX}"),
        ("ec2/internetGateway:InternetGateway", f"igw-{HEX}"),
        ("ec2/natGateway:NatGateway", f"nat-{HEX}"),
        ("ec2/eip:Eip", f"eipalloc-{HEX}"),
        ("ec2/routeTable:RouteTable", f"rtb-{HEX}"),
        ("ec2/routeTableAssociation:RouteTableAssociation", f"rtbassoc-{HEX}"),
        ("ec2/vpcEndpoint:VpcEndpoint", f"vpce-{HEX}"),
        ("ec2/launchTemplate:LaunchTemplate", f"lt-{HEX}"),
        ("ebs/volume:Volume", f"vol-{HEX}"),
        ("iam/role:Role", "x-0000000"),
        ("iam/policy:Policy", "arn:aws:iam::123456789012:policy/x-0000000"),
        ("eks/cluster:Cluster", "x-0000000"),
        ("cloudwatch/logGroup:LogGroup", "x-0000000"),
        ("sqs/queue:Queue", "https://sqs.us-east-1.amazonaws.com/123456789012/x-0000000"),
    ],
)
def test_ids_look_like_the_real_ones(token: str, pattern: str) -> None:
    assert re.fullmatch(pattern, created(token).id)


@pytest.mark.parametrize(
    ("token", "inputs", "identity"),
    [
        ("ec2/route:Route", {"routeTableId": "rtb-1", "destinationCidrBlock": "0.0.0.0/0"}, "r-rtb-1[0-9a-f]{10}"),
        ("iam/rolePolicyAttachment:RolePolicyAttachment", {"role": "r", "policyArn": "arn:p"}, "r/arn:p"),
        ("iam/role:Role", {"name": "own"}, "own"),
        ("eks/nodeGroup:NodeGroup", {"clusterName": "c", "nodeGroupName": "g"}, "c:g"),
        ("eks/addon:Addon", {"clusterName": "c", "addonName": "coredns"}, "c:coredns"),
        ("eks/accessEntry:AccessEntry", {"clusterName": "c", "principalArn": "arn:p"}, "c:arn:p"),
        ("sqs/queuePolicy:QueuePolicy", {"queueUrl": "https://q"}, "https://q"),
        ("cloudwatch/eventTarget:EventTarget", {"rule": "r", "targetId": "t"}, "r-t"),
    ],
)
def test_ids_are_made_of_inputs_where_the_real_ones_are(token: str, inputs: dict[str, Any], identity: str) -> None:
    assert re.fullmatch(identity, created(token, **inputs).id)


def test_ids_differ_by_name_and_type_and_are_the_same_every_time() -> None:
    assert created("ec2/vpc:Vpc", "a").id == created("ec2/vpc:Vpc", "a", cidrBlock="10.0.0.0/16").id
    assert created("ec2/vpc:Vpc", "a").id != created("ec2/vpc:Vpc", "b").id
    assert created("ec2/vpc:Vpc", "a").id[-17:] != created("ec2/subnet:Subnet", "a").id[-17:]


def test_inputs_are_outputs_too() -> None:
    assert created("ec2/vpc:Vpc", cidrBlock="10.0.0.0/16").outputs["cidrBlock"] == "10.0.0.0/16"


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


def test_a_resources_own_region_wins_over_its_providers() -> None:
    outputs = created("ec2/vpc:Vpc", provider=REGION, region="us-west-2").outputs
    assert ":us-west-2:" in outputs["arn"]
    assert outputs["region"] == "us-west-2"


def test_iam_has_no_region_and_keeps_the_path() -> None:
    outputs = created("iam/role:Role", provider=REGION, name="r", path="/team/").outputs
    assert outputs["arn"] == "arn:aws:iam::123456789012:role/team/r"
    assert "region" not in outputs


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
    issuer = outputs["identities"][0]["oidcs"][0]["issuer"]
    assert re.fullmatch(r"https://oidc\.eks\.eu-west-1\.amazonaws\.com/id/[0-9A-F]{32}", issuer)
    assert outputs["certificateAuthority"]["data"]
    assert outputs["vpcConfig"].items() >= given.items()
    assert re.fullmatch(f"sg-{HEX}", outputs["vpcConfig"]["clusterSecurityGroupId"])
    assert outputs["version"] == "1.35"
    assert created("eks/cluster:Cluster").outputs["version"] == "1.36"


def test_a_node_group_names_its_autoscaling_group() -> None:
    outputs = created("eks/nodeGroup:NodeGroup", clusterName="c", nodeGroupName="g").outputs
    (group,) = outputs["resources"][0]["autoscalingGroups"]
    assert group["name"].startswith("eks-g-")
    assert outputs["status"] == "ACTIVE"
    assert outputs["arn"].startswith("arn:aws:eks:us-east-1:123456789012:nodegroup/c/g/")


def test_a_subnet_has_the_id_of_its_zone() -> None:
    outputs = created("ec2/subnet:Subnet", provider=REGION, availabilityZone="eu-west-1b").outputs
    assert outputs["availabilityZoneId"] == "euw1-az2"
    assert created("ec2/subnet:Subnet", provider=REGION).outputs["availabilityZone"] == "eu-west-1a"


def test_a_launch_template_starts_at_version_1() -> None:
    assert created("ec2/launchTemplate:LaunchTemplate").outputs["latestVersion"] == 1


def test_gp3_volumes_have_their_base_speed_and_others_none() -> None:
    outputs = created("ebs/volume:Volume", type="gp3").outputs
    assert (outputs["iops"], outputs["throughput"]) == (3000, 125)
    assert "iops" not in created("ebs/volume:Volume").outputs


def test_a_gateway_endpoint_has_a_prefix_list_and_an_interface_one_per_subnet() -> None:
    assert "prefixListId" in created("ec2/vpcEndpoint:VpcEndpoint").outputs
    outputs = created("ec2/vpcEndpoint:VpcEndpoint", vpcEndpointType="Interface", subnetIds=["a", "b"]).outputs
    assert len(set(outputs["networkInterfaceIds"])) == 2


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


def test_zones_can_be_left_out_by_id_and_by_name() -> None:
    zones = answer(
        "index/getAvailabilityZones:getAvailabilityZones", excludeZoneIds=["use1-az3"], excludeNames=["us-east-1a"]
    )
    assert zones["names"] == ["us-east-1b", "us-east-1d", "us-east-1e", "us-east-1f"]
    assert zones["zoneIds"] == ["use1-az2", "use1-az4", "use1-az5", "use1-az6"]


def test_partition_and_account_are_those_of_the_provider() -> None:
    assert answer("index/getPartition:getPartition", {"region": "cn-north-1"})["partition"] == "aws-cn"
    assert answer("index/getPartition:getPartition")["dnsSuffix"] == "amazonaws.com"
    assert answer("index/getCallerIdentity:getCallerIdentity")["accountId"] == "123456789012"
