"""`tandem leftovers`: the resources it finds, their cost, the report, and what must be confirmed."""

import io
import json
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock, create_autospec

import pytest
from botocore.exceptions import ClientError
from moto.eks.models import eks_backends

from tandem.aws import ec2, services
from tandem.aws.resources import Kind, Owner, Resource
from tandem.aws.session import Account
from tandem.leftovers import inventory
from tests.tandem.aws import whole_stack
from tests.tandem.aws.cleaning import Cleaning
from tests.tandem.aws.conftest import Answers, Run
from tests.tandem.aws.creation import Creation
from tests.tandem.aws.emulated import ACCOUNT, CLUSTER, OURS, REGION, Emulated, pairs

pytestmark = pytest.mark.slow
Price = Callable[[dict[str, Any], str], float | None]
OWNER = Owner(stack="timeslice", own_tags=OURS, cluster=CLUSTER, region=REGION, by_cluster=False)


def asked(**page: Any) -> Any:
    """An account that answers every list with this page."""
    account = create_autospec(Account, instance=True, region=REGION)
    account.pages.side_effect = lambda *_, **__: [page]
    return account


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


DAY = 24 / 730
"""Days of a monthly price: 730 hours."""


@pytest.mark.parametrize(
    ("price", "raw", "usd"),
    # Prices of us-east-1: aws.amazon.com/ec2/pricing/on-demand and aws.amazon.com/ebs/pricing.
    [
        (ec2._volume_day, {"VolumeType": "gp2", "Size": 10}, 10 * 0.10 * DAY),
        (ec2._volume_day, {"VolumeType": "st1", "Size": 10}, None),
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


def test_a_resource_of_unknown_price_precedes_the_free_ones(creation: Creation, cleaning: Cleaning) -> None:
    free, unknown, paid = creation.VPCs(OURS), creation.volumes(OURS, kind="st1"), creation.volumes(OURS)
    assert [id for _, id in cleaning.resources()] == [paid, unknown, free]


def test_a_log_group_costs_what_it_stores() -> None:
    account = asked(logGroups=[{"logGroupName": "/aws/eks/c/cluster", "arn": "arn:x:*", "storedBytes": 50 * 10**9}])
    account.client.return_value.list_tags_for_resource.return_value = {"tags": OURS}
    [resource] = services.LOGS.find(account, OWNER)
    assert resource.usd_per_day == pytest.approx(50 * 0.03 * DAY)


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
    account = asked(Reservations=[{"Instances": [raw]}], VpcEndpoints=[raw], NatGateways=[raw])
    assert [resource.going for resource in kind.find(account, OWNER)] == going


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
    listed = [{"ResourceARN": arn, "Tags": pairs(OURS)} for arn in SERVICES_OWN + NOBODYS]
    found = inventory._others(asked(ResourceTagMappingList=listed), OWNER)
    assert [(one.kind, one.id, one.usd_per_day) for one in found] == [("other", arn, None) for arn in NOBODYS]


def test_without_permission_for_any_call_no_search_says_that_nothing_is_left(
    creation: Creation, emulated: Emulated, run: Run
) -> None:
    """Each call that the search makes is denied in turn, in an account with another stack."""
    whole_stack.make(creation)
    emulated.calls.clear()
    assert run("another", "--region", REGION)[0] == 0
    calls = {*emulated.calls} - {"GetCallerIdentity"}
    assert {"DescribeCluster", "ListClusters", "DescribeVolumes", "GetResources", "ListQueues"} <= calls
    for call in sorted(calls):
        emulated.denied = {call: "AccessDenied"}
        code, out, _ = run("another", "--region", REGION)
        assert "No leftovers" not in out, call
        assert f"could not be listed: These credentials may not call {call} (AccessDenied)" in out, call
        # Budgets are free, so of them the warning is enough.
        assert code == (0 if call == "DescribeBudgets" else 2), call


def test_a_partition_without_budgets_is_not_asked_for_them(creation: Creation) -> None:
    account = create_autospec(Account, instance=True, region="us-gov-west-1")
    assert list(services.BUDGETS.find(account, OWNER)) == []
    account.pages.assert_not_called()


def test_an_error_other_than_a_missing_permission_ends_the_search(
    creation: Creation, emulated: Emulated, run: Run
) -> None:
    volume = creation.volumes(OURS)
    emulated.denied["ListQueues"] = "InternalError"
    code, out, _ = run("--delete", "--yes")
    assert (code, out) == (2, "")
    assert ("volumes", volume) in creation.census()


def test_without_permission_to_see_the_cluster_a_name_alone_proves_nothing(
    creation: Creation, emulated: Emulated, cleaning: Cleaning
) -> None:
    """Another stack may have a cluster with that name, so resources with only the name are left alone."""
    volume, instance = creation.volumes(OURS), creation.instances(whole_stack.KARPENTER)
    emulated.denied["DescribeCluster"] = "AccessDeniedException"
    found = cleaning.look()
    assert [(resource.kind, resource.id) for resource in found.resources] == [("volumes", volume)]
    assert [*found.unseen] == ["EKS clusters"]
    cleaning.delete(found)
    assert ("instances", instance) in creation.census()
    emulated.denied["DescribeCluster"] = "InternalError"
    with pytest.raises(ClientError):
        cleaning.look()


def test_every_list_is_read_to_its_last_page(creation: Creation, emulated: Emulated, cleaning: Cleaning) -> None:
    whole_stack.make(creation)
    whole = {*cleaning.resources()}
    emulated.one_per_page = True
    found = cleaning.look()
    assert {(one.kind, one.id) for one in found.resources} == whole
    assert [one for one in cleaning.delete(found) if one.left] == []


@pytest.mark.parametrize("option", [(), ("--json",)])
def test_a_reader_that_closes_the_pipe_does_not_hide_what_is_left(
    creation: Creation, run: Run, monkeypatch: pytest.MonkeyPatch, option: tuple[str, ...]
) -> None:
    creation.volumes(OURS)
    closed = io.StringIO()
    closed.write = Mock(side_effect=BrokenPipeError)  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdout", closed)
    assert run(*option)[0] == 1


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
