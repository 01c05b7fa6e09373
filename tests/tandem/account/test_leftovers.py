"""`tandem leftovers`: what is found, what it costs, how it is told, how it is deleted."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from moto.ec2.models import ec2_backends

from tandem.account import clean_up
from tandem.account.deletion import Deletion
from tandem.command import main
from tandem.deployed.aws import leftovers
from tandem.deployed.aws.session import Account
from tests.tandem.account.creation import Creation
from tests.tandem.account.emulated import CLUSTER, OURS, REGION, Emulated, pairs
from tests.tandem.account.passing import Passing
from tests.tandem.account.test_order_of_deletion import KINDS

Capture = pytest.CaptureFixture[str]


class Terminal(io.StringIO):
    """A stdin in which somebody answers."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    return lambda text: monkeypatch.setattr("sys.stdin", Terminal(text))


def a_stack(creation: Creation) -> None:
    """A stack as `up` makes it, in short."""
    ec2 = creation.ec2
    vpc = creation.VPCs(OURS)
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.1.0.0/24")["Subnet"]["SubnetId"]
    ec2.create_tags(Resources=[subnet], Tags=pairs(OURS))
    gateway = creation.internet_gateways(OURS)
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    ec2.create_tags(Resources=[table], Tags=pairs(OURS))
    ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)
    address = creation.elastic_IPs(OURS)
    nat = ec2.create_nat_gateway(SubnetId=subnet, AllocationId=address)["NatGateway"]["NatGatewayId"]
    ec2.create_tags(Resources=[nat], Tags=pairs(OURS))
    creation.EKS_clusters(OURS, name=CLUSTER)
    creation.node_groups(OURS, cluster=CLUSTER)
    creation.add_ons(OURS, cluster=CLUSTER)
    creation.instances(OURS, spot=True)
    creation.volumes(OURS, size=100)
    creation.log_groups(OURS, name=f"/aws/eks/{CLUSTER}/cluster")
    creation.IAM_roles(OURS)


def run(capsys: Capture, *arguments: str) -> tuple[int, str, str]:
    code = main(["leftovers", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.slow
def test_an_account_without_the_stack_has_nothing_left(creation: Creation, capsys: Capture) -> None:
    creation.volumes({**OURS, "tandem:stack": "dev"})
    code, out, err = run(capsys)
    assert (code, err) == (0, "")
    assert out == "nothing is left of timeslice in account 123456789012, us-east-1\n"


@pytest.mark.slow
def test_what_is_left_is_told_dearest_first_with_its_cost(creation: Creation, capsys: Capture) -> None:
    a_stack(creation)
    code, out, _ = run(capsys, "--json")
    told = json.loads(out)
    days = [(one["kind"], one["usd_per_day"]) for one in told["left"]]
    assert code == 1
    assert days[:5] == [
        ("instances", round(0.2158 * 24, 4)),
        ("EKS clusters", 2.4),
        ("NAT gateways", 1.08),
        ("volumes", round(100 * 0.08 / 730 * 24, 4)),
        ("elastic IPs", 0.12),
    ]
    assert {usd for _, usd in days[5:]} == {0.0}
    assert told["usd_per_day"] == pytest.approx(sum(usd for _, usd in days), abs=0.001)
    assert len(days) == 13
    assert (told["account"], told["region"], told["stack"]) == ("123456789012", REGION, "timeslice")
    code, out, _ = run(capsys)
    assert code == 1
    assert "g4dn.xlarge, spot," in out
    assert "13 things" in out
    assert max(len(line) for line in out.splitlines()) <= 80 + 40  # ids and sentences are not folded in a pipe


def test_prices_of_disks_snapshots_logs_and_unknown_types(creation: Creation, account: Account) -> None:
    creation.volumes(OURS, size=10, kind="gp2")
    creation.volumes(OURS, size=10, kind="st1")
    snapshot = creation.ec2.create_snapshot(VolumeId=creation.volumes({}, size=200))["SnapshotId"]
    creation.ec2.create_tags(Resources=[snapshot], Tags=pairs(OURS))
    creation.instances(OURS, "c5.4xlarge")
    creation.instances(OURS, "t3.medium")
    stopped = creation.instances(OURS, "g5.xlarge")
    creation.ec2.stop_instances(InstanceIds=[stopped])
    creation.ec2.create_vpc_endpoint(
        VpcId=creation.vpc,
        VpcEndpointType="Interface",
        ServiceName="com.amazonaws.us-east-1.sts",
        SubnetIds=[creation.subnet],
        TagSpecifications=[{"ResourceType": "vpc-endpoint", "Tags": pairs(OURS)}],
    )
    found = leftovers.inventory(account, "timeslice").things
    days = {thing.detail: thing.usd_per_day for thing in found}
    assert days["10 GiB gp2, available"] == pytest.approx(10 * 0.10 / 730 * 24)
    assert days["10 GiB st1, available"] is None
    assert days["of 200 GiB, at most"] == pytest.approx(200 * 0.05 / 730 * 24)
    assert days["c5.4xlarge, on-demand, running"] is None
    assert days["t3.medium, on-demand, running"] == pytest.approx(0.0416 * 24)
    assert days["g5.xlarge, on-demand, stopped"] == 0.0
    assert days["com.amazonaws.us-east-1.sts"] == pytest.approx(0.24)


def test_a_log_group_costs_what_it_stores(
    creation: Creation, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    creation.log_groups(OURS)
    pages = Account.pages

    def full(self: Account, service: str, operation: str, **arguments: Any) -> Any:
        for page in pages(self, service, operation, **arguments):
            for group in page.get("logGroups", ()):
                group["storedBytes"] = 50 * 10**9
            yield page

    monkeypatch.setattr(Account, "pages", full)
    (thing,) = leftovers.inventory(account, "timeslice").things
    assert thing.usd_per_day == pytest.approx(50 * 0.03 / 730 * 24)


@pytest.mark.slow
def test_what_karpenter_made_is_found_by_the_clusters_name(creation: Creation, account: Account) -> None:
    made = creation.instances({"eks:eks-cluster-name": CLUSTER, "karpenter.sh/nodepool": "gpu"})
    assert [thing.id for thing in leftovers.inventory(account, "timeslice").things] == [made]


def test_a_strangers_cluster_of_that_name_keeps_what_karpenter_made(creation: Creation, account: Account) -> None:
    creation.EKS_clusters({"team": "x"}, name=CLUSTER)
    creation.instances({"eks:eks-cluster-name": CLUSTER, "karpenter.sh/nodepool": "gpu"})
    creation.log_groups({}, name=f"/aws/eks/{CLUSTER}/cluster")
    assert leftovers.inventory(account, "timeslice").things == ()


def test_a_log_group_that_eks_made_again_is_told_and_left(creation: Creation, account: Account) -> None:
    name = creation.log_groups({}, name=f"/aws/eks/{CLUSTER}/cluster")
    found = leftovers.inventory(account, "timeslice")
    assert [(thing.kind, thing.id) for thing in found.things] == [("other", name)]
    assert f"aws logs delete-log-group --log-group-name {name}" in found.things[0].detail
    (outcome,) = Passing().deletion(account, found).run(found.things, leftovers.KINDS)
    assert (outcome.what, outcome.why) == ("left alone", "tandem does not delete this kind")
    assert ("log groups", name) in creation.census()


def test_a_kind_that_is_not_known_is_named_by_the_tagging_service(emulated: Emulated, account: Account) -> None:
    boto3.client("s3", region_name=REGION).create_bucket(Bucket="models")
    boto3.client("s3", region_name=REGION).put_bucket_tagging(Bucket="models", Tagging={"TagSet": pairs(OURS)})
    (thing,) = leftovers.inventory(account, "timeslice").things
    assert (thing.kind, thing.id, thing.usd_per_day) == ("other", "arn:aws:s3:::models", None)


@pytest.mark.slow
def test_what_may_not_be_looked_at_is_said_and_the_rest_is_found(
    creation: Creation, emulated: Emulated, capsys: Capture
) -> None:
    volume = creation.volumes(OURS)
    emulated.denied["GetAccountAuthorizationDetails"] = "AccessDenied"
    code, out, _ = run(capsys)
    assert code == 1
    assert volume in out
    assert "not looked at: IAM roles: these credentials may not call GetAccountAuthorizationDetails" in out
    creation.ec2.delete_volume(VolumeId=volume)
    code, out, _ = run(capsys)
    assert code == 2
    assert "nothing is left" not in out


def test_a_stack_whose_file_is_gone_is_found_by_its_name(creation: Creation, capsys: Capture) -> None:
    volume = creation.volumes({**OURS, "tandem:stack": "bygone"})
    code, out, err = run(capsys, "bygone")
    assert (code, out) == (2, "")
    assert "there is no file" in err
    code, out, _ = run(capsys, "bygone", "--region", REGION)
    assert code == 1
    assert volume in out


def test_each_kind_is_asked_for_and_no_is_the_default(
    creation: Creation, answers: Callable[[str], None], capsys: Capture
) -> None:
    volume, address = creation.volumes(OURS), creation.elastic_IPs(OURS)
    group = creation.security_groups(OURS)
    answers("\nyes\nn\n")
    code, out, err = run(capsys, "--delete")
    assert code == 1
    assert "delete 1 elastic IPs" in err
    assert "pulumi destroy" in err
    assert "1 deleted" in out
    assert "2 not agreed" in out
    there = creation.census()
    assert ("volumes", volume) not in there
    assert {("elastic IPs", address), ("security groups", group)} <= there


def test_without_a_terminal_nothing_is_deleted_unless_yes_is_given(creation: Creation, capsys: Capture) -> None:
    volume = creation.volumes(OURS)
    code, out, err = run(capsys, "--delete")
    assert (code, out) == (2, "")
    assert err == "tandem: --delete asks, and there is no terminal to answer in. --yes agrees to all.\n"
    assert run(capsys, "--yes")[0] == 2
    assert ("volumes", volume) in creation.census()
    code, out, _ = run(capsys, "--delete", "--yes", "--json")
    assert code == 0
    assert [one["outcome"] for one in json.loads(out)["outcomes"]] == ["deleted"]


@pytest.mark.slow
def test_a_stack_that_is_up_is_not_deleted_by_a_script(creation: Creation, capsys: Capture) -> None:
    a_stack(creation)
    before = creation.census()
    code, _, err = run(capsys, "--delete", "--yes")
    assert code == 1
    assert f"{CLUSTER} is ACTIVE with 1 node group: the stack seems to be up" in err
    assert creation.census() == before


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "deleted"), [("timeslice\n", True), ("y\n", False), ("", False)])
def test_a_stack_that_is_up_goes_only_when_its_name_is_written(
    creation: Creation, answers: Callable[[str], None], capsys: Capture, answer: str, deleted: bool
) -> None:
    a_stack(creation)
    answers(answer)
    code, _, _ = run(capsys, "--delete", "--yes")
    assert code == (0 if deleted else 1)
    assert (("EKS clusters", CLUSTER) in creation.census()) is not deleted


def test_what_gets_other_tags_in_the_meantime_is_refused(
    creation: Creation, emulated: Emulated, account: Account
) -> None:
    first, second = creation.volumes(OURS), creation.volumes(OURS)
    found = leftovers.inventory(account, "timeslice")
    creation.ec2.create_tags(Resources=[first], Tags=pairs({"tandem:stack": "dev"}))
    creation.ec2.delete_volume(VolumeId=second)
    outcomes = Passing().deletion(account, found).run(found.things, leftovers.KINDS)
    assert {(outcome.thing.id, outcome.what) for outcome in outcomes} == {(first, "refused"), (second, "gone already")}
    assert ("volumes", first) in creation.census()


@pytest.mark.slow
def test_tags_are_read_again_for_every_kind(creation: Creation, account: Account) -> None:
    """With an owner that nothing belongs to any more, nothing may be deleted."""
    owner, stranger = (leftovers.owner_of(account, name) for name in ("timeslice", "dev"))
    kinds = {one.title: one for one in leftovers.KINDS}
    for title in KINDS:
        made = creation.make(title, OURS)
        things = list(kinds[title].find(account, owner))
        outcomes = Deletion(account, stranger).run(things, leftovers.KINDS)
        assert {(one.thing.kind, one.thing.id, one.what) for one in outcomes} == {(title, made, "refused")}
        assert (title, made) in creation.census()


def test_a_failure_is_told_and_the_rest_goes_on(creation: Creation, emulated: Emulated, capsys: Capture) -> None:
    creation.volumes(OURS)
    vpc = creation.VPCs(OURS)
    emulated.denied["DeleteVolume"] = "UnauthorizedOperation"
    code, out, _ = run(capsys, "--delete", "--yes")
    assert code == 1
    assert "failed volume vol-" in out
    assert "these credentials may not call DeleteVolume (UnauthorizedOperation)" in out
    assert "1 deleted" in out
    assert f"deleted VPC {vpc}" in out
    assert "--delete" not in out, "that is what was called"
    assert ("VPCs", vpc) not in creation.census()


@pytest.mark.slow
def test_an_instance_that_somebodys_node_group_would_replace_is_left(creation: Creation, account: Account) -> None:
    group = creation.node_groups({}).partition("/")[2]
    made = creation.instances({**OURS, "eks:cluster-name": "anyones", "eks:nodegroup-name": group})
    found = leftovers.inventory(account, "timeslice")
    (outcome,) = Passing().deletion(account, found).run(found.things, leftovers.KINDS)
    assert outcome.what == "failed"
    assert outcome.why == f"for 15 minutes: its node group {group} would replace it: delete that first"
    assert ("instances", made) in creation.census()


def test_a_role_in_someones_instance_profile_keeps_its_policies(creation: Creation, account: Account) -> None:
    role = creation.IAM_roles(OURS)
    creation.iam.create_instance_profile(InstanceProfileName="theirs")
    creation.iam.add_role_to_instance_profile(InstanceProfileName="theirs", RoleName=role)
    found = leftovers.inventory(account, "timeslice")
    (outcome,) = Passing().deletion(account, found).run(found.things, leftovers.KINDS)
    assert (outcome.what, outcome.why) == ("failed", "for 5 minutes: the instance profile theirs has it")
    assert creation.iam.list_attached_role_policies(RoleName=role)["AttachedPolicies"]
    assert creation.iam.list_role_policies(RoleName=role)["PolicyNames"]


@pytest.mark.slow
def test_a_policy_that_others_have_keeps_its_versions(creation: Creation, account: Account) -> None:
    policy = creation.IAM_policies(OURS)
    creation.iam.attach_role_policy(RoleName=creation.IAM_roles({}), PolicyArn=policy)
    found = leftovers.inventory(account, "timeslice")
    (outcome,) = Passing().deletion(account, found).run(found.things, leftovers.KINDS)
    assert (outcome.what, outcome.why) == ("failed", "for 5 minutes: it is attached in 1 place")
    assert len(creation.iam.list_policy_versions(PolicyArn=policy)["Versions"]) == 2


def test_an_endpoint_that_aws_does_not_delete_is_a_failure(
    creation: Creation, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    creation.VPC_endpoints(OURS)
    found = leftovers.inventory(account, "timeslice")
    refused = {"Unsuccessful": [{"Error": {"Code": "DependencyViolation", "Message": "it is in use"}}]}
    monkeypatch.setattr(account.client("ec2"), "delete_vpc_endpoints", lambda **_: refused)
    (outcome,) = Passing().deletion(account, found).run(found.things, leftovers.KINDS)
    assert (outcome.what, outcome.why) == ("failed", "it is in use")


def test_a_nat_gateway_that_could_not_be_created_is_none_and_an_endpoint_is_one(
    creation: Creation, account: Account
) -> None:
    # EC2 deletes such a gateway itself, after about an hour (VPC User Guide, nat-gateway-troubleshooting).
    ec2 = ec2_backends["123456789012"][REGION]
    ec2.nat_gateways[creation.NAT_gateways(OURS)].state = "failed"
    endpoint = creation.VPC_endpoints(OURS)
    ec2.vpc_end_points[endpoint].state = "failed"
    assert [(one.kind, one.id) for one in leftovers.inventory(account, "timeslice").things] == [
        ("VPC endpoints", endpoint)
    ]


@pytest.fixture
def lingering(creation: Creation, account: Account, monkeypatch: pytest.MonkeyPatch) -> leftovers.Inventory:
    """A NAT gateway that does not go by itself, and its address."""
    creation.NAT_gateways(OURS)
    creation.elastic_IPs(OURS)
    monkeypatch.setattr(account.client("ec2"), "delete_nat_gateway", lambda **_: {})
    return leftovers.inventory(account, "timeslice")


def test_what_takes_time_is_waited_for_before_the_next_kind(
    creation: Creation, account: Account, lingering: leftovers.Inventory
) -> None:
    passing = Passing()
    (gateway,) = [thing.id for thing in lingering.things if thing.kind == "NAT gateways"]
    passing.at[120.0] = lambda: creation.ec2.delete_nat_gateway(NatGatewayId=gateway)
    outcomes = passing.deletion(account, lingering).run(lingering.things, leftovers.KINDS)
    assert {outcome.what for outcome in outcomes} == {"deleted"}
    assert passing.seconds == 120.0
    waits = [line for line in passing.said if line.startswith("waiting")]
    assert waits[0] == "waiting for 1 NAT gateways: 0 of 10 minutes"
    assert passing.said.index(waits[-1]) < passing.said.index(next(s for s in passing.said if "elastic" in s))


@pytest.mark.slow
def test_waiting_ends_and_says_what_is_left(account: Account, lingering: leftovers.Inventory) -> None:
    passing = Passing()
    outcomes = passing.deletion(account, lingering).run(lingering.things, leftovers.KINDS)
    told = {outcome.thing.kind: (outcome.what, outcome.why) for outcome in outcomes}
    (gateway,) = [outcome.thing.id for outcome in outcomes if outcome.thing.kind == "NAT gateways"]
    assert told == {
        "NAT gateways": ("not gone yet", "after 10 minutes; AWS may still be deleting it"),
        "elastic IPs": ("left alone", f"NAT gateway {gateway} still exists"),
    }
    assert passing.seconds == 600.0


@pytest.mark.slow
def test_what_is_going_already_is_only_waited_for(
    creation: Creation, emulated: Emulated, account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    creation.instances(OURS)
    found = leftovers.inventory(account, "timeslice")
    going = [replace(thing, going=True) for thing in found.things]
    passing = Passing()
    passing.deletion(account, found).run(going, leftovers.KINDS)
    assert "TerminateInstances" not in emulated.calls
    assert passing.seconds == 15 * 60


def test_the_prompt_reads_the_terminal_and_its_end_means_no(answers: Callable[[str], None], capsys: Capture) -> None:
    answers("")
    assert clean_up._ask("sure? ") == ""
    assert capsys.readouterr().err == "sure? "
