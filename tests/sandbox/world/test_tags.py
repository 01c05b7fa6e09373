"""Rules for tags: each service refuses its own; 50 tags, or 45 on a node of a node group, are accepted."""

import json

import pytest

from sandbox.world import IncompleteError, tokens
from tests.sandbox.world_pieces import Account, refused


@pytest.fixture
def account() -> Account:
    return Account()


def many(count: int) -> dict[str, str]:
    return {f"key-{number}": "v" for number in range(count)}


@pytest.mark.parametrize(
    ("token", "code"),
    [
        (tokens.ROLE, "ValidationError"),
        (tokens.POLICY, "ValidationError"),
        (tokens.VPC, "TagLimitExceeded"),
        (tokens.TEMPLATE, "TagLimitExceeded"),
        (tokens.LOG_GROUP, "InvalidParameterException"),
    ],
)
@pytest.mark.real_world(
    behaviour="A resource has at most 50 tags, not counting those that begin with `aws:`",
    source="botocore 1.44.5, iam tagListType and eks TagMap; AWS CloudFormation, AWS::EKS::AccessEntry Tag",
)
def test_a_resource_has_at_most_50_tags_with_the_providers_default_tags(
    account: Account, token: str, code: str
) -> None:
    account.make(token, name="full", tags=many(50))
    with refused(code, "51"):
        account.make(token, name="over", tags=many(51))
    account.provider["defaultTags"] = {"tags": many(40)}
    account.make(token, name="same", tags=many(50))
    with refused(code, "52"):
        account.make(token, name="both", tags={f"own-{number}": "v" for number in range(12)})


def test_a_cluster_has_at_most_50_tags_also_after_an_update(account: Account) -> None:
    cluster = account.cluster(tags=many(50))
    with refused("InvalidParameterException", "51"):
        account.change(tokens.CLUSTER, cluster, tags=many(51))


@pytest.mark.real_world(
    behaviour="IAM refuses a role with two tags whose keys are equal but for case; EC2 accepts them",
    source="github.com/aws/aws-cdk/issues/26253; github.com/terraform-aws-modules/terraform-aws-rds-aurora/issues/189",
)
def test_iam_compares_keys_without_case(account: Account) -> None:
    both = {"team": "a", "Team": "b"}
    for token in (tokens.ROLE, tokens.POLICY):
        with refused("InvalidInput", "Duplicate tag keys found"):
            account.make(token, name="x", tags=both)
    account.make(tokens.VPC, tags=both)
    account.provider["defaultTags"] = {"tags": {"Owner": "us"}}
    with refused("InvalidInput", "Duplicate tag keys found"):
        account.make(tokens.ROLE, name="x", tags={"owner": "us"})
    account.make(tokens.ROLE, name="x", tags={"Owner": "them"})


@pytest.mark.parametrize(("token", "code"), [(tokens.ROLE, "InvalidInput"), (tokens.VPC, "InvalidParameterValue")])
@pytest.mark.real_world(
    behaviour="Keys of tags that begin with `aws:`, in any spelling, are reserved for AWS",
    source="github.com/kubernetes-sigs/cluster-api-provider-aws/pull/5461; AWS::EKS::AccessEntry Tag",
)
def test_aws_reserves_its_prefix(account: Account, token: str, code: str) -> None:
    for key in ("aws:x", "AWS:x"):
        with refused(code, key):
            account.make(token, name="x", tags={key: "v"})
    account.make(token, name="x", tags={"aws": "v"})


@pytest.mark.real_world(
    behaviour="EventBridge Scheduler refuses a schedule group with a tag whose value is empty",
    source="botocore 1.44.5, scheduler TagValue: min 1",
)
def test_a_schedule_group_has_no_empty_values(account: Account) -> None:
    for token in (tokens.ROLE, tokens.VPC, tokens.BUDGET):
        account.make(token, name="empty", tags={"owner": ""})
    with refused("ValidationException", "owner"):
        account.make(tokens.SCHEDULE_GROUP, name="g", tags={"owner": ""})
    account.make(tokens.SCHEDULE_GROUP, name="g", tags={"owner": "us"})
    account.provider["defaultTags"] = {"tags": {"owner": ""}}
    with refused("ValidationException", "owner"):
        account.make(tokens.SCHEDULE_GROUP, name="h")


def template(account: Account, tags: int) -> dict[str, str]:
    specs = [{"resourceType": "instance", "tags": many(tags)}, {"resourceType": "volume", "tags": many(50)}]
    return {"id": account.make(tokens.TEMPLATE, tagSpecifications=specs), "version": "1"}


@pytest.mark.real_world(
    behaviour="A node of a managed node group gets five tags from EKS, which count: eks:cluster-name, "
    "eks:nodegroup-name, k8s.io/cluster-autoscaler/enabled, k8s.io/cluster-autoscaler/CLUSTER and "
    "kubernetes.io/cluster/CLUSTER",
    source="a public listing of `aws ec2 describe-tags` of such a node; that the launch then fails is derived",
)
def test_a_node_has_room_for_45_tags_besides_those_of_eks(account: Account) -> None:
    account.cluster()
    account.nodes("fits", launchTemplate=template(account, 45))
    with pytest.raises(IncompleteError, match=r"TagLimitExceeded: an instance can have up to 50 tags \(it has 51\)"):
        account.nodes("over", launchTemplate=template(account, 46))
    with refused("TagLimitExceeded", "51"):
        template(account, 51)


@pytest.mark.parametrize("key", ["kubernetes.io/role", "CSIVolumeName", "ebs.csi.aws.com/cluster"])
@pytest.mark.real_world(
    behaviour="The EBS CSI driver does not start with extra tags that it reserves",
    source="aws-ebs-csi-driver 429e202: pkg/driver/validation.go, pkg/driver/driver.go",
)
def test_the_ebs_driver_does_not_start_with_a_reserved_tag(account: Account, key: str) -> None:
    account.cluster()
    account.nodes()
    given = {"clusterName": "c", "addonName": "aws-ebs-csi-driver"}

    def values(*keys: str) -> str:
        return json.dumps({"controller": {"extraVolumeTags": dict.fromkeys(keys, "v")}})

    with pytest.raises(IncompleteError, match=f"tag key '{key}' is reserved"):
        account.make(tokens.ADDON, **given, configurationValues=values("team", key))
    account.drop(tokens.ADDON, "c:aws-ebs-csi-driver")
    account.make(tokens.ADDON, **given, configurationValues=values("team"))
