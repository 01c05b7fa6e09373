"""Each kind alone, as declared: its requests, what is found of it, and its cost. Without moto, whose tests are slow."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from botocore.exceptions import ClientError

from tandem.aws import ec2, services
from tandem.aws.resources import Kind, Resource
from tandem.leftovers import inventory
from tandem.leftovers.inventory import Inventory
from tests.tandem.aws.emulated import CLUSTER, OURS, OWNER, REGION, pairs
from tests.tandem.aws.scripted import Account
from tests.tandem.leftovers.test_other_owners import OWNERS

DECLARED = yaml.safe_load(Path(__file__).with_name("kinds.yaml").read_text(encoding="utf-8"))
KINDS = {kind.title: kind for kind in inventory.KINDS}
Price = Callable[[dict[str, Any], str], float | None]


def look_and_delete(title: str, account: Any) -> Any:
    """Searches, looks again, and deletes; returns what the search found."""
    [found] = KINDS[title].find(account, OWNER)
    assert KINDS[title].tags(account, found) == OURS
    KINDS[title].delete(account, found)
    return found


def test_every_kind_is_declared_with_whether_aws_deletes_it_slowly() -> None:
    declared = DECLARED["EC2"] | DECLARED["others"]
    assert {title: (kind.slow, kind.minutes) for title, kind in KINDS.items()} == {
        # As the guide `delete-what-is-left` says.
        title: (row.get("slow", False), 25 if row.get("slow") else 5)
        for title, row in declared.items()
    }


@pytest.mark.parametrize("title", DECLARED["EC2"])
def test_a_kind_of_ec2(title: str) -> None:
    row = DECLARED["EC2"][title]
    operation, key, id_key = row["listed"].split()
    raw = {id_key: "x", "Tags": pairs(OURS), **row["raw"]}
    account = Account({f"ec2 {operation}": {key: [{"Instances": [raw]}] if key == "Reservations" else [raw]}})
    found = look_and_delete(title, account)
    assert (found.kind, found.id, found.detail, found.going) == (title, "x", row.get("detail", ""), False)
    assert (found.tags, found.usd_per_day) == (OURS, pytest.approx(row.get("usd", 0) * 24))
    by_tag = {"tandem:stack": "timeslice", "eks:eks-cluster-name": CLUSTER, "cluster.k8s.amazonaws.com/name": CLUSTER}
    filters = [
        {"Filters": [{"Name": f"tag:{name}", "Values": [value]}], **row.get("more", {})}
        for name, value in by_tag.items()
    ]
    lists = [f"ec2 {operation} {json.dumps(asked, sort_keys=True)}" for asked in (*filters, {f"{id_key}s": ["x"]})]
    assert account.requests == [*lists, *(f"ec2 {request}" for request in row["deletion"])]


@pytest.mark.parametrize("title", DECLARED["others"])
def test_a_kind_of_another_service(title: str) -> None:
    row = DECLARED["others"][title]
    account = Account(row["answers"])
    found = look_and_delete(title, account)
    assert found.tags == row.get("tags", OURS)
    going = row["found"][1].endswith("DELETING")
    assert (found.kind, found.id, found.detail, found.going) == (title, *row["found"], going)
    if title != "EKS clusters":  # its price depends on the date
        assert found.usd_per_day == pytest.approx(row.get("usd", 0) * 24)
    assert account.requests == row["requests"]


def test_what_all_regions_share_and_what_is_free() -> None:
    """As the guide `delete-what-is-left` says."""
    shared = {title: kind.shared_service for title, kind in KINDS.items() if kind.shared_service}
    iam = dict.fromkeys(("instance profiles", "IAM roles", "IAM policies"), "IAM")
    assert shared == iam | {"budgets": "AWS Budgets"}
    unseen = [Inventory(owner=OWNER, resources=(), unseen={title: "denied"}) for title in KINDS]
    assert [one.unseen for one in unseen if not one.may_have_unseen_costs] == [{"budgets": "denied"}]


DAY = 24 / 730
"""Days of a monthly price: 730 hours."""


@pytest.mark.parametrize(
    ("price", "raw", "usd"),
    # Prices of us-east-1: aws.amazon.com/ec2/pricing/on-demand and aws.amazon.com/ebs/pricing.
    [
        (ec2._volume_day, {"VolumeType": "gp2", "Size": 10}, 10 * 0.10 * DAY),
        (ec2._volume_day, {"VolumeType": "st1", "Size": 10}, None),
        (ec2._endpoint_day, {"VpcEndpointType": "Gateway"}, 0.0),
        (ec2._instance_day, {"InstanceType": "c5.4xlarge", "State": {"Name": "running"}}, None),
        (ec2._instance_day, {"InstanceType": "t3.medium", "State": {"Name": "running"}}, 24 * 0.0416),
        # EC2 bills an instance once it is `running`; a pending one runs within seconds.
        (ec2._instance_day, {"InstanceType": "g4dn.xlarge", "State": {"Name": "pending"}}, 24 * 0.526),
        (ec2._instance_day, {"InstanceType": "g4dn.xlarge", "State": {"Name": "stopping"}}, 0.0),
        (ec2._instance_day, {"InstanceType": "g4dn.xlarge", "State": {"Name": "stopped"}}, 0.0),
        (ec2._instance_day, {"InstanceType": "g4dn.xlarge", "State": {"Name": "shutting-down"}}, 0.0),
    ],
)
def test_only_what_aws_bills_has_a_cost(price: Price, raw: dict[str, Any], usd: float | None) -> None:
    assert price(raw, REGION) == (None if usd is None else pytest.approx(usd))


def test_a_resource_is_the_stacks_by_its_tags() -> None:
    """Of Karpenter and the VPC CNI, those that name the cluster; a tag of another stack outweighs them."""
    owner = replace(OWNER, by_cluster=True)
    assert [tags for tags, ours in OWNERS if owner.owns(tags) != ours] == []
    assert [tags for tags, _ in OWNERS if OWNER.owns(tags)] == [
        tags for tags, _ in OWNERS if OURS.items() <= tags.items()
    ]


INSTANCE = {"InstanceId": "i-1", "InstanceType": "g4dn.xlarge"}
ENDPOINT = {"VpcEndpointId": "vpce-1", "ServiceName": "s3"}


@pytest.mark.parametrize(
    ("kind", "raw", "going"),
    # EC2 API Reference, `InstanceState` and `VpcEndpoint`: an endpoint's state is capitalized in the model, but not in
    # replies. EC2 itself deletes a failed gateway after about an hour (VPC User Guide, nat-gateway-troubleshooting).
    [
        (ec2.INSTANCES, {**INSTANCE, "State": {"Name": "running"}}, [False]),
        (ec2.INSTANCES, {**INSTANCE, "State": {"Name": "stopped"}}, [False]),
        (ec2.INSTANCES, {**INSTANCE, "State": {"Name": "shutting-down"}}, [True]),
        (ec2.INSTANCES, {**INSTANCE, "State": {"Name": "terminated"}}, []),
        (ec2.ENDPOINTS, {**ENDPOINT, "State": "available"}, [False]),
        (ec2.ENDPOINTS, {**ENDPOINT, "State": "Deleting"}, [True]),
        (ec2.ENDPOINTS, {**ENDPOINT, "State": "deleting"}, [True]),
        (ec2.ENDPOINTS, {**ENDPOINT, "State": "deleted"}, []),
        (ec2.ENDPOINTS, {**ENDPOINT, "State": "Failed"}, [False]),
        (ec2.NAT_GATEWAYS, {"NatGatewayId": "nat-1", "State": "failed"}, []),
    ],
)
def test_what_is_deleted_is_not_found_and_what_is_being_deleted_is_marked(
    kind: Kind, raw: dict[str, Any], going: list[bool]
) -> None:
    raw = {**raw, "Tags": pairs(OURS)}
    account: Any = Account(Reservations=[{"Instances": [raw]}], VpcEndpoints=[raw], NatGateways=[raw])
    assert [resource.going for resource in kind.find(account, OWNER)] == going


def test_an_instance_whose_state_is_unknown_does_not_count_as_deleted() -> None:
    resource = Resource(kind="instances", id="i-1", tags=OURS)
    codes = ("UnauthorizedOperation", "InvalidInstanceID.NotFound")
    errors = [ClientError({"Error": {"Code": code}}, "DescribeInstances") for code in codes]
    accounts: list[Any] = [Account({"ec2 describe_instances": error}) for error in errors]
    denied, gone = accounts
    with pytest.raises(ClientError, match="UnauthorizedOperation"):
        ec2.INSTANCES.tags(denied, resource)
    assert ec2.INSTANCES.tags(gone, resource) is None


HERE = "us-east-1:123456789012"
SERVICES_OWN = f"""
    arn:aws:ec2:{HERE}:instance/i-1 arn:aws:ec2:{HERE}:launch-template/lt-1 arn:aws:ec2:{HERE}:vpc-endpoint/vpce-1
    arn:aws:ec2:{HERE}:network-interface/eni-1 arn:aws:ec2:{HERE}:natgateway/nat-1 arn:aws:ec2:{HERE}:volume/vol-1
    arn:aws:ec2:{HERE}:elastic-ip/eipalloc-1 arn:aws:ec2:us-east-1::snapshot/snap-1 arn:aws:ec2:{HERE}:subnet/subnet-1
    arn:aws:ec2:{HERE}:security-group/sg-1 arn:aws:ec2:{HERE}:security-group-rule/sgr-1 arn:aws:ec2:{HERE}:vpc/vpc-1
    arn:aws:ec2:{HERE}:route-table/rtb-1 arn:aws:ec2:{HERE}:internet-gateway/igw-1 arn:aws:eks:{HERE}:cluster/c
    arn:aws:eks:{HERE}:nodegroup/c/n/1 arn:aws:eks:{HERE}:addon/c/vpc-cni/1 arn:aws:sqs:{HERE}:queue
    arn:aws:eks:{HERE}:access-entry/{CLUSTER}/role/1/r/1 arn:aws:eks:{HERE}:podidentityassociation/{CLUSTER}/a-1
    arn:aws:iam::123456789012:role/r
    arn:aws:iam::123456789012:policy/p arn:aws:iam::123456789012:instance-profile/p arn:aws:events:{HERE}:rule/r
    arn:aws:logs:{HERE}:log-group:/aws/eks/c/cluster arn:aws:budgets::123456789012:budget/tandem-alert-monthly-1
    arn:aws:scheduler:{HERE}:schedule-group/nights
""".split()
"""Formats: AWS's Service Authorization Reference, "Resource types" of each service."""
NOBODYS = f"""
    arn:aws:s3:::bucket arn:aws:sns:{HERE}:topic arn:aws:eks:{HERE}:fargateprofile/c/f/1
    arn:aws:eks:{HERE}:access-entry/theirs/role/1/r/1 arn:aws:eks:{HERE}:podidentityassociation/theirs/a-1
    arn:aws:ec2:{HERE}:vpn-gateway/vgw-1 arn:aws:dynamodb:{HERE}:table/t arn:aws:logs:{HERE}:log-group:/mine
""".split()


def test_the_tagging_service_adds_only_types_that_no_other_search_covers() -> None:
    listed = [{"ResourceARN": arn, "Tags": pairs(OURS)} for arn in SERVICES_OWN + NOBODYS]
    account: Any = Account(ResourceTagMappingList=listed)
    found = inventory._others(account, OWNER)
    said = "found by the tagging service"
    assert [(one.kind, one.id, one.detail, one.usd_per_day) for one in found] == [
        ("other", arn, said, None) for arn in NOBODYS
    ]


def test_a_log_group_whose_size_aws_does_not_say_costs_nothing() -> None:
    """CloudWatch Logs API reference, `LogGroup`: no field is required."""
    group = {"logGroupName": "/aws/eks/c/cluster", "arn": "arn:l:*"}
    account: Any = Account({"logs describe_log_groups": {"logGroups": [group]}}, tags=OURS)
    assert [(one.detail, one.usd_per_day) for one in services.LOGS.find(account, OWNER)] == [("0.00 GB", 0.0)]


def test_a_partition_without_budgets_is_not_asked_for_them() -> None:
    account: Any = Account()
    account.region = "us-gov-west-1"
    assert list(services.BUDGETS.find(account, OWNER)) == []
    assert account.requests == []
