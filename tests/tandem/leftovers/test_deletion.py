"""`leftovers --delete` if something goes wrong: nothing else breaks, and every deletion is recorded."""

import errno
import json
import os
import re
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import EndpointConnectionError, ReadTimeoutError
from moto.eks.models import eks_backends

from tandem.aws.clusters import owner_of
from tandem.aws.session import Account
from tandem.leftovers import inventory, screen
from tandem.leftovers.inventory import Inventory
from tests.tandem.aws.cleaning import Cleaning
from tests.tandem.aws.conftest import Answers, Records, Run
from tests.tandem.aws.creation import Creation
from tests.tandem.aws.emulated import ACCOUNT, CLUSTER, OURS, REGION, Emulated
from tests.tandem.aws.slow_deletions import CHANGES, Delays
from tests.tandem.leftovers.test_order_of_deletion import ALL_DELETED, KINDS

pytestmark = pytest.mark.slow

NO_NETWORK = EndpointConnectionError(endpoint_url="https://eks")
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# Repeated searches.


def test_a_failed_search_is_repeated_until_the_timeout(delays: Delays, emulated: Emulated, cleaning: Cleaning) -> None:
    found = cleaning.look()
    faults = ["ThrottlingException", "ExpiredTokenException", None, "AccessDeniedException", NO_NETWORK]
    emulated.faults["DescribeNodegroup"] = [None, *faults]
    outcomes = cleaning.delete(found)
    assert emulated.faults["DescribeNodegroup"] == []
    assert cleaning.too_early == set()
    assert {(one.resource.kind, one.what, one.why) for one in outcomes} == ALL_DELETED


def test_resources_that_a_stuck_node_group_needs_are_left_for_the_next_run(delays: Delays, cleaning: Cleaning) -> None:
    delays.seconds = 10_000.0
    shown = {one.resource.kind: (one.what, one.why) for one in cleaning.delete()}
    assert shown["node groups"] == ("not gone yet", "not finished after 25 minutes; AWS may still be deleting it")
    assert shown["EKS clusters"] == ("left alone", f"node group {CLUSTER}/system still exists")
    # The node group needs all other resources, directly or indirectly.
    left_alone = {kind for kind, (what, _) in shown.items() if what == "left alone"}
    slow, quick = {"node groups", "add-ons", "VPC endpoints"}, {"snapshots", "EventBridge rules", "SQS queues"}
    assert left_alone == {*KINDS} - slow - quick - {"schedule groups"}
    assert cleaning.too_early == set()

    cleaning.seconds, delays.seconds = cleaning.seconds + 20_000.0, 45.0
    assert [one for one in cleaning.delete() if one.left] == []
    assert cleaning.resources() == []


def test_a_cluster_that_stays_keeps_its_role(delays: Delays, cleaning: Cleaning) -> None:
    agreed = [kind for kind in inventory.KINDS if kind.title != "EKS clusters"]
    shown = {one.resource.kind: (one.what, one.why) for one in cleaning.delete(agreed=agreed)}
    assert shown["EKS clusters"] == ("not agreed", "")
    why = f"IAM is shared by all regions, and the EKS cluster {CLUSTER} in us-east-1 is ACTIVE"
    assert {shown[kind] for kind in ("instance profiles", "IAM roles", "IAM policies")} == {("left alone", why)}
    assert shown["log groups"] == ("left alone", f"EKS cluster {CLUSTER} still exists")
    assert cleaning.too_early == set()


def test_resources_that_could_not_be_listed_count_as_left(
    creation: Creation, emulated: Emulated, cleaning: Cleaning
) -> None:
    volume, queue = creation.volumes(OURS), creation.SQS_queues(OURS)
    emulated.denied["DescribeInstances"] = "UnauthorizedOperation"
    assert {one.resource.id: (one.what, one.why) for one in cleaning.delete()} == {
        volume: ("left alone", "instances could not be listed, and may need it"),
        queue: ("deleted", ""),
    }


def test_a_deletion_whose_reply_is_lost_counts_as_done(delays: Delays, emulated: Emulated, cleaning: Cleaning) -> None:
    """The reply of each changing call is lost once."""
    seen: set[str] = set()

    def lose(call: str) -> BaseException | None:
        if not call.startswith(CHANGES) or call in seen:
            return None
        seen.add(call)
        return ReadTimeoutError(endpoint_url="https://x")

    emulated.lost = lose
    assert {(one.resource.kind, one.what, one.why) for one in cleaning.delete()} == ALL_DELETED
    assert len(seen) > len(KINDS)


# Interrupted.


def test_repeatedly_interrupted_deletion_finishes_and_the_records_are_complete(
    delays: Delays,
    emulated: Emulated,
    cleaning: Cleaning,
    creation: Creation,
    answers: Answers,
    run: Run,
    records: Records,
) -> None:
    """Each run ends at its eleventh change, right after AWS has made it."""
    found, runs, code = {*cleaning.resources()}, 0, 130
    assert found <= creation.census()
    while code == 130:
        runs += 1
        left = iter(range(10, -1, -1))

        def stop(call: str, left: Any = left) -> BaseException | None:
            return KeyboardInterrupt() if call.startswith(CHANGES) and next(left) == 0 else None

        emulated.lost = stop
        answers("timeslice\n")
        code, _, _ = run("--delete", "--yes")
        assert runs < 20
    assert (code, runs > 2) == (0, True)
    assert found & creation.census() == set()
    tried = {(one["kind"], one["id"]) for one in records() if one["event"] == "deleting"}
    # Instances are deleted with their node group, without a request of their own.
    assert {kind for kind, _ in found - tried} <= {"instances"}


def test_ctrl_c_while_waiting_reports_finished_and_unfinished_deletions(
    creation: Creation, cleaning: Cleaning, run: Run
) -> None:
    instance, volume = creation.instances(OURS), creation.volumes(OURS)
    creation.add_ons(OURS)

    def interrupt() -> None:
        raise KeyboardInterrupt

    cleaning.at[1.0] = interrupt
    code, out, err = run("--delete", "--yes")
    assert code == 130
    assert f"still deleting instance {instance}\n" in out
    assert f"not tried volume {volume}\n" in out
    assert "1 still deleting, 2 not tried" in out
    assert "Interrupted" in err


# The record.


def test_the_record_has_a_line_before_each_call_and_one_for_each_outcome(
    creation: Creation,
    emulated: Emulated,
    run: Run,
    records: Records,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    volume, vpc = creation.volumes(OURS), creation.VPCs(OURS)
    there: list[list[str]] = []
    synced: list[Path] = []
    monkeypatch.setattr("tandem.leftovers.record.keep_names", synced.append)

    def look(call: str) -> None:
        if call in ("DeleteVolume", "DeleteVpc"):
            there.append([one["event"] for one in records()])

    emulated.lost = look
    code, out, err = run("--delete", "--yes", "--json")
    (file,) = folder.iterdir()
    assert re.fullmatch(r"timeslice-us-east-1-\d{8}T\d{6}\.\d{6}Z-\d+\.jsonl", file.name)
    assert (code, json.loads(out)["record"]) == (0, str(file))
    assert str(file) in err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert synced == [folder], "its name reaches the disk before the first deletion"
    assert there == [["deleting"], ["deleting", "outcome", "deleting"]]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", one["at"]) for one in records())
    assert [(one["event"], one["id"], one.get("outcome")) for one in records()] == [
        ("deleting", volume, None),
        ("outcome", volume, "deleted"),
        ("deleting", vpc, None),
        ("outcome", vpc, "deleted"),
    ]
    assert f"deleted volume {volume}\n" in err


def test_without_a_record_nothing_is_deleted(
    creation: Creation, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    volume = creation.volumes(OURS)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    code, _, err = run("--delete", "--yes")
    assert code == 2
    assert re.search(r"^error: the record .* cannot be written \(Not a directory\).*XDG_STATE_HOME", err, re.M)
    assert ("volumes", volume) in creation.census()


@pytest.mark.parametrize(("writes", "deleted"), [(0, 0), (1, 1), (2, 1), (3, 2)])
def test_a_full_disk_stops_the_deletion_and_no_result_is_lost(
    creation: Creation, run: Run, monkeypatch: pytest.MonkeyPatch, writes: int, deleted: int
) -> None:
    resources = [(kind, creation.make(kind, OURS)) for kind in ("volumes", "VPCs", "SQS queues")]
    real, left = os.write, iter(range(writes, -1, -1))

    def write(file: int, data: bytes) -> int:
        if next(left) > 0:
            return real(file, data)
        raise FULL

    monkeypatch.setattr(os, "write", write)
    code, out, err = run("--delete", "--yes")
    assert code == 2
    assert err.count("the record ") == 1
    assert "(No space left on device), so nothing more is deleted" in err
    assert [one in creation.census() for one in resources] == [at >= deleted for at in range(3)]
    # The screen also shows results that the record has no space for.
    assert out.count("\ndeleted ") == deleted


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (FULL, "No space left on device"),
        (BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)), "Broken pipe"),
        (ValueError("a bug"), "unexpected ValueError"),
    ],
)
def test_a_screen_that_fails_stops_no_deletion_and_the_record_has_every_outcome(
    creation: Creation,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    records: Records,
    folder: Path,
    error: Exception,
    why: str,
) -> None:
    volume, queue = creation.volumes(OURS), creation.SQS_queues(OURS)
    monkeypatch.setattr(screen, "outcome", Mock(side_effect=error))
    code, _, err = run("--delete", "--yes")
    [record] = folder.iterdir()
    assert code == 2
    assert f"error: the output cannot be written ({why}). Read the outcomes in {record}.\n" in err
    assert [one["id"] for one in records() if one["event"] == "outcome"] == [volume, queue]
    assert not {("volumes", volume), ("SQS queues", queue)} & {*creation.census()}


# Protected resources.


@pytest.mark.parametrize(
    ("status", "groups", "protected"),
    [
        ("CREATING", 0, True),
        ("PENDING", 0, True),
        ("ACTIVE", 1, True),
        ("UPDATING", 1, True),
        ("ACTIVE", 0, False),
        ("FAILED", 1, False),
    ],
)
def test_a_script_does_not_delete_a_running_or_starting_cluster(
    creation: Creation, run: Run, status: str, groups: int, protected: bool
) -> None:
    creation.EKS_clusters(OURS, CLUSTER)
    creation.volumes(OURS)
    for _ in range(groups):
        creation.node_groups(OURS, CLUSTER)
    eks_backends[ACCOUNT][REGION].clusters[CLUSTER].status = status
    before = creation.census()
    code, _, err = run("--delete", "--yes")
    assert code == (1 if protected else 0)
    assert (creation.census() == before, ("EKS clusters", CLUSTER) in creation.census()) == (protected, protected)
    said = f"{CLUSTER} is {status} with {groups} node group{'' if groups == 1 else 's'}: the stack is probably running"
    assert (said in err) is protected
    assert ("A script cannot delete a stack that may be running. " in err) is protected


def test_a_script_deletes_nothing_if_eks_cannot_be_searched(creation: Creation, emulated: Emulated, run: Run) -> None:
    volume = creation.volumes(OURS)
    emulated.denied["ListClusters"] = "AccessDeniedException"
    code, _, err = run("--delete", "--yes")
    assert code == 1
    assert "EKS clusters could not be listed; node groups could not be listed: the stack is probably running" in err
    assert ("volumes", volume) in creation.census()


def test_tags_are_read_again_for_every_kind(creation: Creation, account: Account, cleaning: Cleaning) -> None:
    """If nothing belongs to the owner any more, nothing is deleted."""
    owner, stranger = (owner_of(account, name) for name in ("timeslice", "dev"))
    kinds = {one.title: one for one in inventory.KINDS}
    for title in KINDS:
        made = creation.make(title, OURS)
        resources = tuple(kinds[title].find(account, owner))
        outcomes = cleaning.delete(Inventory(owner=stranger, resources=resources, unseen={}))
        assert {(one.resource.kind, one.resource.id, one.what) for one in outcomes} == {(title, made, "refused")}
        assert (title, made) in creation.census()


def test_a_failure_is_reported_and_recorded_and_the_deletion_continues(
    creation: Creation, emulated: Emulated, run: Run, records: Records
) -> None:
    volume, vpc, queue = creation.volumes(OURS), creation.VPCs(OURS), creation.SQS_queues(OURS)
    emulated.denied["DeleteVolume"] = "UnauthorizedOperation"
    emulated.faults["DeleteVpc"] = [RecursionError("too deep")]
    code, out, _ = run("--delete", "--yes")
    assert code == 1
    assert f"failed volume {volume}: These credentials may not call DeleteVolume (UnauthorizedOperation)" in out
    assert f"failed VPC {vpc}: unexpected RecursionError: too deep\n" in out
    assert f"deleted SQS queue {queue}\n" in out
    assert "2 failed, 1 deleted" in out
    outcomes = {one["id"]: one["outcome"] for one in records() if one["event"] == "outcome"}
    assert outcomes == {volume: "failed", vpc: "failed", queue: "deleted"}
    assert ("SQS queues", queue) not in creation.census()


@pytest.mark.parametrize(
    ("denied", "why"),
    [
        ({}, "its node group {} would replace it. Delete that group first. (tried for 25 minutes)"),
        ({"DescribeNodegroup": "AccessDenied"}, "These credentials may not call DescribeNodegroup (AccessDenied)."),
    ],
)
def test_an_instance_that_another_owners_node_group_may_replace_is_left(
    creation: Creation, emulated: Emulated, cleaning: Cleaning, denied: dict[str, str], why: str
) -> None:
    group = creation.node_groups({}).partition("/")[2]
    made = creation.instances({**OURS, "eks:cluster-name": "anyones", "eks:nodegroup-name": group})
    found = cleaning.look()
    emulated.denied = denied
    [outcome] = cleaning.delete(found)
    assert (outcome.what, outcome.why.startswith(why.format(group))) == ("failed", True)
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


def test_a_resource_that_is_already_being_deleted_is_only_waited_for(
    creation: Creation, emulated: Emulated, cleaning: Cleaning
) -> None:
    creation.instances(OURS)
    found = cleaning.look()
    cleaning.delete(found, resources=[replace(resource, going=True) for resource in found.resources])
    assert "TerminateInstances" not in emulated.calls
    assert cleaning.seconds == 25 * 60
