"""`tandem leftovers`: the resources it finds, their cost, the report, and the deletion."""

import json
from dataclasses import replace
from typing import Any
from unittest.mock import create_autospec

import boto3
import pytest
from botocore.exceptions import ClientError
from moto.eks.models import eks_backends

from tandem.aws import ec2, services
from tandem.aws.clusters import owner_of
from tandem.aws.resources import Owner, Resource
from tandem.aws.session import Account
from tandem.leftovers import clean_up, inventory
from tandem.leftovers.deletion import Deletion
from tests.tandem.aws import whole_stack
from tests.tandem.aws.cleaning import Cleaning
from tests.tandem.aws.conftest import Answers, Run
from tests.tandem.aws.creation import Creation
from tests.tandem.aws.emulated import ACCOUNT, CLUSTER, OURS, REGION, Emulated, pairs
from tests.tandem.leftovers.test_order_of_deletion import KINDS

pytestmark = pytest.mark.slow


def test_an_account_without_the_stack_has_nothing_left(creation: Creation, run: Run) -> None:
    creation.volumes({**OURS, "tandem:stack": "dev"})
    assert run() == (0, "No leftovers of `timeslice` in account 123456789012 (us-east-1).\n", "")


def test_leftovers_are_reported_with_their_cost_most_expensive_first(creation: Creation, run: Run) -> None:
    whole_stack.make(creation)
    creation.instances(OURS, spot=True)
    code, out, _ = run("--json")
    shown = json.loads(out)
    days = [(one["kind"], one["usd_per_day"]) for one in shown["left"]]
    assert code == 1
    assert days[:9] == [
        *[("instances", round(0.526 * 24, 4))] * 2,
        ("instances", round(0.2158 * 24, 4)),
        ("EKS clusters", 2.4),
        ("NAT gateways", 1.08),
        ("volumes", round(100 * 0.08 / 730 * 24, 4)),
        ("VPC endpoints", 0.24),
        ("snapshots", round(100 * 0.05 / 730 * 24, 4)),
        ("elastic IPs", 0.12),
    ]
    assert {usd for _, usd in days[9:]} == {0.0}
    assert shown["usd_per_day"] == pytest.approx(sum(usd for _, usd in days), abs=0.001)
    assert len(days) == 30
    assert (shown["account"], shown["region"], shown["stack"]) == ("123456789012", REGION, "timeslice")
    code, out, _ = run()
    assert code == 1
    assert "g4dn.xlarge, spot," in out
    assert "30 resources" in out
    assert max(len(line) for line in out.splitlines()) <= 80 + 40  # a pipe does not wrap ids and sentences


def test_prices_of_disks_snapshots_logs_and_unknown_types(creation: Creation, cleaning: Cleaning) -> None:
    creation.volumes(OURS, size=10, kind="gp2")
    creation.volumes(OURS, size=10, kind="st1")
    creation.snapshots(OURS, creation.volumes({}, size=200))
    creation.instances(OURS, "c5.4xlarge")
    creation.instances(OURS, "t3.medium")
    creation.ec2.stop_instances(InstanceIds=[creation.instances(OURS, "g5.xlarge")])
    creation.VPC_endpoints(OURS, "sts", "Interface", SubnetIds=[creation.subnet])
    resources = cleaning.look().resources
    order = [resource.detail for resource in resources]
    shown = ("10 GiB gp2, available", "10 GiB st1, available", "g5.xlarge, on-demand, stopped")
    assert [order.index(detail) for detail in shown] == sorted(order.index(detail) for detail in shown)
    days = {resource.detail: resource.usd_per_day for resource in resources}
    assert days["10 GiB gp2, available"] == pytest.approx(10 * 0.10 / 730 * 24)
    assert days["10 GiB st1, available"] is None
    assert days["of 200 GiB, at most"] == pytest.approx(200 * 0.05 / 730 * 24)
    assert days["c5.4xlarge, on-demand, running"] is None
    assert days["t3.medium, on-demand, running"] == pytest.approx(0.0416 * 24)
    assert days["g5.xlarge, on-demand, stopped"] == 0.0
    assert days["com.amazonaws.us-east-1.sts"] == pytest.approx(0.24)


def test_a_log_group_costs_what_it_stores(
    creation: Creation, cleaning: Cleaning, monkeypatch: pytest.MonkeyPatch
) -> None:
    creation.log_groups(OURS)
    pages = Account.pages

    def full(self: Account, service: str, operation: str, **arguments: Any) -> Any:
        for page in pages(self, service, operation, **arguments):
            for group in page.get("logGroups", ()):
                group["storedBytes"] = 50 * 10**9
            yield page

    monkeypatch.setattr(Account, "pages", full)
    (resource,) = cleaning.look().resources
    assert resource.usd_per_day == pytest.approx(50 * 0.03 / 730 * 24)


def test_resources_of_karpenter_are_found_unless_another_owner_has_a_cluster_of_that_name(
    creation: Creation, cleaning: Cleaning
) -> None:
    made = creation.instances(whole_stack.KARPENTER)
    assert cleaning.resources() == [("instances", made)]
    creation.EKS_clusters({"team": "x"}, CLUSTER)
    creation.log_groups({}, f"/aws/eks/{CLUSTER}/cluster")
    assert cleaning.resources() == []


def test_a_log_group_that_eks_created_again_is_reported_and_left(creation: Creation, cleaning: Cleaning) -> None:
    name = creation.log_groups({}, f"/aws/eks/{CLUSTER}/cluster")
    (outcome,) = cleaning.delete()
    assert (outcome.resource.kind, outcome.resource.id) == ("other", name)
    assert f"aws logs delete-log-group --log-group-name {name}" in outcome.resource.detail
    assert (outcome.what, outcome.why) == ("left alone", "tandem does not delete this kind")
    assert ("log groups", name) in creation.census()


def test_an_unknown_kind_is_named_by_the_tagging_service(emulated: Emulated, cleaning: Cleaning) -> None:
    storage = boto3.client("s3", region_name=REGION)
    storage.create_bucket(Bucket="models")
    storage.put_bucket_tagging(Bucket="models", Tagging={"TagSet": pairs(OURS)})
    (resource,) = cleaning.look().resources
    assert (resource.kind, resource.id, resource.usd_per_day) == ("other", "arn:aws:s3:::models", None)


@pytest.mark.parametrize(
    ("state", "priced"),
    [("pending", True), ("running", True), ("stopping", False), ("stopped", False), ("shutting-down", False)],
)
def test_running_and_pending_instances_have_a_cost(state: str, priced: bool) -> None:
    """EC2 bills an instance once it is `running`; a pending one runs within seconds."""
    raw = {"State": {"Name": state}, "InstanceType": "g4dn.xlarge"}
    # $0.526 per hour on demand in us-east-1: aws.amazon.com/ec2/pricing/on-demand.
    assert ec2._instance_day(raw, "us-east-1") == pytest.approx(24 * 0.526 if priced else 0)


OWNER = Owner(stack="timeslice", own_tags=OURS, cluster=CLUSTER, region=REGION, by_cluster=False)


@pytest.mark.parametrize(
    ("state", "found"),
    # EC2 API Reference, `InstanceState`.
    [("running", [False]), ("stopped", [False]), ("shutting-down", [True]), ("terminated", [])],
)
def test_an_instance_that_shuts_down_is_being_deleted(state: str, found: list[bool]) -> None:
    tags = [{"Key": key, "Value": value} for key, value in OURS.items()]
    one = {"InstanceId": "i-1", "InstanceType": "g4dn.xlarge", "State": {"Name": state}, "Tags": tags}
    account = create_autospec(Account, instance=True, region=REGION)
    account.pages.side_effect = lambda *_, **__: [{"Reservations": [{"Instances": [one]}]}]
    assert [resource.going for resource in ec2.INSTANCES.find(account, OWNER)] == found


@pytest.mark.parametrize(
    ("state", "found"),
    # EC2 API Reference, `VpcEndpoint`: states are capitalized in the model, but not in replies.
    [("available", [False]), ("Deleting", [True]), ("deleting", [True]), ("deleted", [])],
)
def test_a_deleting_endpoint_is_being_deleted(state: str, found: list[bool]) -> None:
    tags = [{"Key": key, "Value": value} for key, value in OURS.items()]
    one = {"VpcEndpointId": "vpce-1", "VpcEndpointType": "Gateway", "State": state, "Tags": tags}
    account = create_autospec(Account, instance=True, region=REGION)
    account.pages.side_effect = lambda *_, **__: [{"VpcEndpoints": [{"ServiceName": "s3", **one}]}]
    assert [resource.going for resource in ec2.ENDPOINTS.find(account, OWNER)] == found


def test_resources_listed_without_tags_get_their_tags(creation: Creation, cleaning: Cleaning) -> None:
    creation.SQS_queues({**OURS, "Name": "interruptions"})
    [resource] = cleaning.look().resources
    assert (resource.name, resource.tags["tandem:stack"]) == ("interruptions", "timeslice")


def test_an_instance_whose_state_is_unknown_does_not_count_as_deleted() -> None:
    account = create_autospec(Account, instance=True, region=REGION)
    account.pages.side_effect = ClientError({"Error": {"Code": "UnauthorizedOperation"}}, "DescribeInstances")
    resource = Resource(kind="instances", id="i-1", tags=OURS)
    with pytest.raises(ClientError, match="UnauthorizedOperation"):
        ec2.INSTANCES.tags(account, resource)
    account.pages.side_effect = ClientError({"Error": {"Code": "InvalidInstanceID.NotFound"}}, "DescribeInstances")
    assert ec2.INSTANCES.tags(account, resource) is None


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
    tags = [{"Key": key, "Value": value} for key, value in OURS.items()]
    page = {"ResourceTagMappingList": [{"ResourceARN": arn, "Tags": tags} for arn in SERVICES_OWN + NOBODYS]}
    account = create_autospec(Account, instance=True)
    account.pages.return_value = [page]
    assert [resource.id for resource in inventory._others(account, OWNER)] == NOBODYS


@pytest.mark.parametrize("region", [REGION, "eu-west-1"], ids=["beside another stack", "in a region without clusters"])
def test_without_permission_for_any_call_no_search_says_that_nothing_is_left(
    creation: Creation, emulated: Emulated, run: Run, region: str
) -> None:
    """Each call that the search makes is denied in turn."""
    whole_stack.make(creation)
    emulated.calls.clear()
    assert run("another", "--region", region)[0] == 0
    calls = {*emulated.calls} - {"GetCallerIdentity"}
    assert {"DescribeCluster", "ListClusters", "DescribeVolumes", "GetResources", "ListQueues"} <= calls
    for call in sorted(calls):
        emulated.denied = {call: "AccessDenied"}
        code, out, _ = run("another", "--region", region)
        assert "No leftovers" not in out, call
        assert f"could not be listed: These credentials may not call {call} (AccessDenied)" in out, call
        # Budgets are free, so of them the warning is enough.
        assert code == (0 if call == "DescribeBudgets" else 2), call


def test_the_tags_of_others_budgets_are_not_asked_for(
    creation: Creation, emulated: Emulated, cleaning: Cleaning
) -> None:
    creation.budgets({**OURS, "tandem:stack": "dev"})
    creation.budgets(OURS, "theirs")
    ours = creation.budgets(OURS)
    emulated.calls.clear()
    assert cleaning.resources() == [("budgets", ours)]
    # Of two budgets, and of the default schedule group, which every account has.
    assert emulated.calls.count("ListTagsForResource") == 3


def test_a_partition_without_budgets_is_not_asked_for_them(creation: Creation) -> None:
    account = create_autospec(Account, instance=True, region="us-gov-west-1")
    assert list(services.BUDGETS.find(account, OWNER)) == []
    account.pages.assert_not_called()


def test_a_stack_whose_file_no_longer_exists_is_found_by_its_name(creation: Creation, run: Run) -> None:
    volume = creation.volumes({**OURS, "tandem:stack": "bygone"})
    code, out, err = run("bygone")
    assert (code, out) == (2, "")
    assert "there is no file" in err
    code, out, _ = run("bygone", "--region", REGION)
    assert code == 1
    assert volume in out


def test_each_kind_needs_a_confirmation_and_no_is_the_default(creation: Creation, answers: Answers, run: Run) -> None:
    volume, address = creation.volumes(OURS), creation.elastic_IPs(OURS)
    group = creation.security_groups(OURS)
    answers("\nyes\nn\n")
    code, out, err = run("--delete")
    assert code == 1
    assert "Delete 1 elastic IP (" in err
    assert "pulumi destroy" in err
    assert "1 deleted" in out
    assert "2 skipped" in out
    there = creation.census()
    assert ("volumes", volume) not in there
    assert {("elastic IPs", address), ("security groups", group)} <= there


def test_without_a_terminal_only_the_yes_option_deletes(creation: Creation, run: Run) -> None:
    volume = creation.volumes(OURS)
    code, out, err = run("--delete")
    assert (code, out) == (2, "")
    assert err == "error: --delete needs a terminal for confirmation. Pass --yes to skip the prompts.\n"
    assert run("--yes")[0] == 2
    assert ("volumes", volume) in creation.census()
    code, out, _ = run("--delete", "--yes", "--json")
    assert code == 0
    assert [one["outcome"] for one in json.loads(out)["outcomes"]] == ["deleted"]


@pytest.mark.parametrize(("answer", "deleted"), [("timeslice\n", True), ("y\n", False), ("", False)])
def test_a_deployed_stack_is_deleted_only_after_its_name_is_typed(
    creation: Creation, answers: Answers, run: Run, answer: str, deleted: bool
) -> None:
    creation.EKS_clusters(OURS, CLUSTER)
    creation.node_groups(OURS, CLUSTER)
    answers(answer)
    code, _, _ = run("--delete", "--yes")
    assert code == (0 if deleted else 1)
    assert (("EKS clusters", CLUSTER) in creation.census()) is not deleted


@pytest.mark.real_world(
    behaviour="A node group whose creation failed can have instances that run",
    source="botocore 1.44.5 eks/2017-11-01/service-2.json, Issue.code, NodeCreationFailure",
)
@pytest.mark.parametrize("status", ["ACTIVE", "UPDATING", "CREATING", "DEGRADED", "CREATE_FAILED", "DELETE_FAILED"])
def test_a_node_group_in_another_owners_cluster_is_a_running_stack(creation: Creation, run: Run, status: str) -> None:
    """A program may use the components in a cluster of its own."""
    group = creation.node_groups(OURS)
    eks_backends[ACCOUNT][REGION].clusters["anyones"].nodegroups[group.partition("/")[2]].status = status
    code, _, err = run("--delete", "--yes")
    assert ("node groups", group) in creation.census()
    assert code == 1
    assert f"the node group {group} is {status}: the stack is probably running" in err


def test_a_resource_whose_tags_changed_meanwhile_is_not_deleted(creation: Creation, cleaning: Cleaning) -> None:
    first, second = creation.volumes(OURS), creation.volumes(OURS)
    found = cleaning.look()
    creation.ec2.create_tags(Resources=[first], Tags=pairs({"tandem:stack": "dev"}))
    creation.ec2.delete_volume(VolumeId=second)
    outcomes = cleaning.delete(found)
    assert {(outcome.resource.id, outcome.what) for outcome in outcomes} == {
        (first, "refused"),
        (second, "gone already"),
    }
    assert ("volumes", first) in creation.census()


def test_tags_are_read_again_for_every_kind(creation: Creation, account: Account) -> None:
    """If nothing belongs to the owner any more, nothing is deleted."""
    owner, stranger = (owner_of(account, name) for name in ("timeslice", "dev"))
    kinds = {one.title: one for one in inventory.KINDS}
    for title in KINDS:
        made = creation.make(title, OURS)
        resources = list(kinds[title].find(account, owner))
        outcomes = Deletion(account, stranger).run(resources, inventory.KINDS)
        assert {(one.resource.kind, one.resource.id, one.what) for one in outcomes} == {(title, made, "refused")}
        assert (title, made) in creation.census()


def test_a_failure_is_reported_and_the_deletion_continues(creation: Creation, emulated: Emulated, run: Run) -> None:
    creation.volumes(OURS)
    vpc = creation.VPCs(OURS)
    emulated.denied["DeleteVolume"] = "UnauthorizedOperation"
    code, out, _ = run("--delete", "--yes")
    assert code == 1
    assert "failed volume vol-" in out
    assert "These credentials may not call DeleteVolume (UnauthorizedOperation)" in out
    assert "1 deleted" in out
    assert f"deleted VPC {vpc}" in out
    assert "--delete" not in out, "the call that was made"
    assert ("VPCs", vpc) not in creation.census()


def test_an_instance_that_another_owners_node_group_would_replace_is_left(
    creation: Creation, cleaning: Cleaning
) -> None:
    group = creation.node_groups({}).partition("/")[2]
    made = creation.instances({**OURS, "eks:cluster-name": "anyones", "eks:nodegroup-name": group})
    (outcome,) = cleaning.delete()
    assert outcome.what == "failed"
    assert outcome.why == f"its node group {group} would replace it. Delete that group first. (tried for 15 minutes)"
    assert ("instances", made) in creation.census()


def test_an_instance_whose_node_group_cannot_be_read_is_left_with_the_reason(
    creation: Creation, emulated: Emulated, cleaning: Cleaning
) -> None:
    group = creation.node_groups({}).partition("/")[2]
    made = creation.instances({**OURS, "eks:cluster-name": "anyones", "eks:nodegroup-name": group})
    found = cleaning.look()
    emulated.denied["DescribeNodegroup"] = "AccessDeniedException"
    (outcome,) = cleaning.delete(found)
    assert outcome.what == "failed"
    assert outcome.why.startswith("These credentials may not call DescribeNodegroup (AccessDeniedException).")
    assert ("instances", made) in creation.census()


def test_a_role_in_another_owners_instance_profile_keeps_its_policies(creation: Creation, cleaning: Cleaning) -> None:
    role = creation.IAM_roles(OURS)
    profile = creation.instance_profiles({}, role)
    (outcome,) = cleaning.delete()
    assert (outcome.what, outcome.why) == ("failed", f"the instance profile {profile} uses it (tried for 5 minutes)")
    assert creation.iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]
    assert creation.iam.list_role_policies(RoleName=role)["PolicyNames"]


def test_a_policy_attached_to_other_roles_keeps_its_versions(creation: Creation, cleaning: Cleaning) -> None:
    policy = creation.IAM_policies(OURS)
    creation.IAM_roles({}, policy=policy)
    (outcome,) = cleaning.delete()
    assert (outcome.what, outcome.why) == ("failed", "it is attached in 1 place (tried for 5 minutes)")
    assert len(creation.iam.list_policy_versions(PolicyArn=policy)["Versions"]) == 2


def test_an_endpoint_that_aws_does_not_delete_is_a_failure(
    creation: Creation, cleaning: Cleaning, monkeypatch: pytest.MonkeyPatch
) -> None:
    creation.VPC_endpoints(OURS)
    refused = {"Unsuccessful": [{"Error": {"Code": "DependencyViolation", "Message": "it is in use"}}]}
    monkeypatch.setattr(cleaning.account.client("ec2"), "delete_vpc_endpoints", lambda **_: refused)
    (outcome,) = cleaning.delete()
    assert (outcome.what, outcome.why) == ("failed", "it is in use")


@pytest.fixture
def lingering(creation: Creation, cleaning: Cleaning, monkeypatch: pytest.MonkeyPatch) -> str:
    """A NAT gateway that is not deleted automatically; it has an address."""
    gateway = creation.NAT_gateways(OURS)
    creation.elastic_IPs(OURS)
    monkeypatch.setattr(cleaning.account.client("ec2"), "delete_nat_gateway", lambda **_: {})
    return gateway


def test_slow_deletions_finish_before_the_next_kind_begins(
    creation: Creation, cleaning: Cleaning, lingering: str
) -> None:
    cleaning.at[120.0] = lambda: creation.ec2.delete_nat_gateway(NatGatewayId=lingering)
    assert {outcome.what for outcome in cleaning.delete()} == {"deleted"}
    assert cleaning.seconds == 120.0
    waits = [line for line in cleaning.said if line.startswith("Waiting")]
    assert waits[0] == "Waiting for 1 NAT gateway: 0 of 10 minutes"
    assert cleaning.said.index(waits[-1]) < cleaning.said.index(next(s for s in cleaning.said if "elastic" in s))


def test_a_resource_that_is_already_being_deleted_is_only_waited_for(
    creation: Creation, emulated: Emulated, cleaning: Cleaning
) -> None:
    creation.instances(OURS)
    found = cleaning.look()
    cleaning.delete(found, resources=[replace(resource, going=True) for resource in found.resources])
    assert "TerminateInstances" not in emulated.calls
    assert cleaning.seconds == 15 * 60


@pytest.mark.parametrize(("count", "named"), [(3, "vol-0, vol-1, vol-2"), (4, "vol-0, vol-1, vol-2, …")])
def test_a_question_names_three_resources_of_a_kind(
    count: int, named: str, answers: Answers, capsys: pytest.CaptureFixture[str]
) -> None:
    [volumes] = [kind for kind in inventory.KINDS if kind.title == "volumes"]
    found = tuple(Resource(kind="volumes", id=f"vol-{index}", tags={}) for index in range(count))
    owner = Owner(stack="dev", own_tags={}, cluster="tandem-dev", region=REGION, by_cluster=True)
    answers("y\n")
    assert clean_up._agrees(volumes, inventory.Inventory(owner=owner, resources=found, unseen={}))
    assert capsys.readouterr().err.startswith(f"Delete {count} volumes ({named})?")
