"""`leftovers --delete` where something goes wrong: nothing is destroyed, and nothing that was done is lost."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from tandem.account import clean_up, regions
from tandem.command import main
from tandem.deployed.aws import leftovers
from tandem.deployed.aws.session import Account
from tandem.terminal import CallError
from tests.tandem.account.creation import Creation
from tests.tandem.account.emulated import CLUSTER, OURS, Emulated
from tests.tandem.account.laws import Laws
from tests.tandem.account.passing import Passing
from tests.tandem.account.test_leftovers import Terminal
from tests.tandem.account.test_order_of_deletion import ALL_DELETED, KINDS

Capture = pytest.CaptureFixture[str]
NO_NETWORK = EndpointConnectionError(endpoint_url="https://eks")


def run(capsys: Capture, *more: str) -> tuple[int, str, str]:
    code = main(["leftovers", "--delete", "--yes", *more])
    said = capsys.readouterr()
    return code, said.out, said.err


def records(tmp_path: Path) -> list[dict[str, Any]]:
    files = sorted((tmp_path / "state" / "tandem" / "leftovers").iterdir())
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


# Looking again and again.


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["ThrottlingException", "ExpiredTokenException", "AccessDeniedException", NO_NETWORK])
def test_a_look_that_fails_is_tried_again_until_the_time_is_up(
    laws: Laws, emulated: Emulated, account: Account, passing: Passing, fault: Any
) -> None:
    found = leftovers.inventory(account, "timeslice")
    emulated.faults["DescribeNodegroup"] = [None, fault, fault, None, fault]
    outcomes = passing.deletion(account, found).run(found.things, leftovers.KINDS)
    assert emulated.faults["DescribeNodegroup"] == []
    assert {(one.thing.kind, one.what, one.why) for one in outcomes} == ALL_DELETED
    assert laws.harmed == []


NEEDED = (
    *("EKS clusters", "instances", "launch templates", "volumes", "NAT gateways", "elastic IPs", "network interfaces"),
    *("security groups", "route tables", "subnets", "internet gateways", "VPCs", "log groups"),
    *("instance profiles", "IAM roles", "IAM policies"),
)
"""What a node group that does not go needs, or what needs what it needs."""


@pytest.mark.slow
def test_what_a_stuck_node_group_needs_is_left_alone_and_the_next_run_does_the_rest(
    laws: Laws, account: Account, passing: Passing
) -> None:
    laws.seconds = 10_000.0
    found = leftovers.inventory(account, "timeslice")
    outcomes = passing.deletion(account, found).run(found.things, leftovers.KINDS)
    group = f"{CLUSTER}/system"
    told = {one.thing.kind: (one.what, one.why) for one in outcomes}
    assert told["node groups"] == ("not gone yet", "after 25 minutes; AWS may still be deleting it")
    assert {kind for kind, (what, _) in told.items() if what == "left alone"} == set(NEEDED)
    assert told["EKS clusters"] == ("left alone", f"node group {group} still exists")
    slow = {"node groups", "add-ons", "VPC endpoints"}
    assert {kind for kind, (what, _) in told.items() if what == "not gone yet"} == slow
    quick = {"snapshots", "EventBridge rules", "SQS queues"}
    assert {kind for kind, (what, _) in told.items() if what == "deleted"} == quick
    assert (laws.refused, laws.harmed) == ([], [])

    passing.seconds, laws.seconds = passing.seconds + 20_000.0, 45.0
    found = leftovers.inventory(account, "timeslice")
    outcomes = passing.deletion(account, found).run(found.things, leftovers.KINDS)
    assert [one for one in outcomes if one.left] == []
    assert leftovers.inventory(account, "timeslice").things == ()


@pytest.mark.slow
def test_a_cluster_that_stays_keeps_its_role(
    laws: Laws, account: Account, passing: Passing, creation: Creation
) -> None:
    found = leftovers.inventory(account, "timeslice")
    agreed = [kind for kind in leftovers.KINDS if kind.title != "EKS clusters"]
    outcomes = passing.deletion(account, found).run(found.things, agreed)
    told = {one.thing.kind: (one.what, one.why) for one in outcomes}
    assert told["EKS clusters"] == ("not agreed", "")
    why = f"IAM is shared by all regions, and the EKS cluster {CLUSTER} in us-east-1 is ACTIVE"
    assert {told[kind] for kind in ("instance profiles", "IAM roles", "IAM policies")} == {("left alone", why)}
    assert told["log groups"] == ("left alone", f"EKS cluster {CLUSTER} still exists")
    assert laws.harmed == []


@pytest.mark.slow
def test_what_could_not_be_looked_at_counts_as_left(
    creation: Creation, emulated: Emulated, account: Account, passing: Passing
) -> None:
    volume, queue = creation.volumes(OURS), creation.SQS_queues(OURS)
    emulated.denied["DescribeInstances"] = "UnauthorizedOperation"
    found = leftovers.inventory(account, "timeslice")
    told = {
        one.thing.id: (one.what, one.why) for one in passing.deletion(account, found).run(found.things, leftovers.KINDS)
    }
    assert told[volume] == ("left alone", "AWS could not be asked for instances, which may need it")
    assert told[queue] == ("deleted", "")


def test_a_refusal_that_may_pass_is_tried_again(
    creation: Creation, emulated: Emulated, account: Account, passing: Passing
) -> None:
    vpc = creation.VPCs(OURS)
    found = leftovers.inventory(account, "timeslice")
    emulated.faults["DeleteVpc"] = ["DependencyViolation", "RequestLimitExceeded", NO_NETWORK]
    (outcome,) = passing.deletion(account, found).run(found.things, leftovers.KINDS)
    assert (outcome.thing.id, outcome.what) == (vpc, "deleted")
    assert passing.seconds == 30.0
    assert ("VPCs", vpc) not in creation.census()


@pytest.mark.slow
def test_a_deletion_whose_answer_is_lost_has_happened(
    laws: Laws, emulated: Emulated, account: Account, passing: Passing
) -> None:
    """Each call that changes something, once."""
    seen: set[str] = set()

    def lose(call: str) -> BaseException | None:
        if not call.startswith(("Delete", "Terminate", "Release", "Remove", "Detach", "Disassociate")) or call in seen:
            return None
        seen.add(call)
        return ReadTimeoutError(endpoint_url="https://x")

    found = leftovers.inventory(account, "timeslice")
    emulated.lost = lose
    outcomes = passing.deletion(account, found).run(found.things, leftovers.KINDS)
    assert {(one.thing.kind, one.what, one.why) for one in outcomes} == ALL_DELETED
    assert len(seen) > len(KINDS)


@pytest.mark.slow
def test_what_botocore_deleted_at_its_first_try_and_does_not_find_at_its_second_is_deleted(
    creation: Creation, emulated: Emulated, account: Account, passing: Passing
) -> None:
    creation.volumes(OURS)
    creation.SQS_queues(OURS)
    codes = {"DeleteVolume": "InvalidVolume.NotFound", "DeleteQueue": "AWS.SimpleQueueService.NonExistentQueue"}
    found = leftovers.inventory(account, "timeslice")
    emulated.lost = lambda call: ClientError({"Error": {"Code": codes[call]}}, call) if call in codes else None
    outcomes = passing.deletion(account, found).run(found.things, leftovers.KINDS)
    assert [one.what for one in outcomes] == ["deleted", "deleted"]


# Interrupted.


@pytest.mark.slow
def test_interrupted_again_and_again_it_comes_to_its_end_and_the_records_have_everything(
    laws: Laws,
    emulated: Emulated,
    account: Account,
    creation: Creation,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Each run ends as by `kill -9` at its eleventh change, right after AWS has made it."""
    before, runs, code = creation.census(), 0, 130
    found = {(one.kind, one.id) for one in leftovers.inventory(account, "timeslice").things}
    while code == 130:
        runs += 1
        left = iter(range(10, -1, -1))

        def stop(call: str, left: Any = left) -> BaseException | None:
            changes = call.startswith(("Delete", "Terminate", "Release", "Remove", "Detach", "Disassociate"))
            return KeyboardInterrupt() if changes and next(left) == 0 else None

        emulated.lost = stop
        monkeypatch.setattr("sys.stdin", Terminal("timeslice\n"))
        code, _, _ = run(capsys)
        assert runs < 20
    emulated.lost = None
    assert (code, runs > 2) == (0, True)
    assert found & creation.census() == set()
    done = records(tmp_path)
    tried = {(one["kind"], one["id"]) for one in done if one["event"] == "deleting"}
    # What the node group took with it was not asked for.
    assert {kind for kind, _ in found - tried} <= {"instances"}
    assert (before - creation.census()) & found == found


@pytest.mark.slow
def test_ctrl_c_while_waiting_says_what_was_done_and_what_was_not(
    creation: Creation, emulated: Emulated, passing: Passing, capsys: Capture
) -> None:
    instance, volume = creation.instances(OURS), creation.volumes(OURS)
    creation.add_ons(OURS)

    def interrupt() -> None:
        raise KeyboardInterrupt

    passing.at[1.0] = interrupt
    code, out, err = run(capsys)
    assert code == 130
    assert f"not gone yet instance {instance}\n" in out
    assert f"not tried volume {volume}\n" in out
    assert "1 not gone yet, 2 not tried" in out
    assert "interrupted" in err


def test_what_nobody_expected_fails_one_thing_and_loses_nothing(
    creation: Creation, emulated: Emulated, capsys: Capture, tmp_path: Path
) -> None:
    volume, queue = creation.volumes(OURS), creation.SQS_queues(OURS)
    emulated.faults["DeleteVolume"] = [RecursionError("too deep")]
    code, out, _ = run(capsys)
    assert code == 1
    assert f"failed volume {volume}: unexpected RecursionError: too deep\n" in out
    assert f"deleted SQS queue {queue}\n" in out
    assert "1 failed, 1 deleted" in out
    outcomes = {one["id"]: one["outcome"] for one in records(tmp_path) if one["event"] == "outcome"}
    assert outcomes == {volume: "failed", queue: "deleted"}


def test_a_fault_of_ours_between_two_things_loses_nothing_of_what_was_done(
    creation: Creation, account: Account, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    volume, role = creation.volumes(OURS), creation.IAM_roles(OURS)
    found = leftovers.inventory(account, "timeslice")

    def fault(*_: object) -> list[str]:
        raise ZeroDivisionError

    monkeypatch.setattr(regions, "holding", fault)
    with pytest.raises(ZeroDivisionError):
        clean_up.run(account, found, yes=True, to_stderr=False)
    out = capsys.readouterr().out
    assert f"deleted volume {volume}\n" in out
    assert f"not tried IAM role {role}\n" in out
    assert "1 deleted, 1 not tried" in out
    outcomes = {one["id"]: one["outcome"] for one in records(tmp_path) if one["event"] == "outcome"}
    assert outcomes == {volume: "deleted"}


# The record.


def test_the_record_has_a_line_before_each_call_and_one_for_each_outcome(
    creation: Creation, emulated: Emulated, capsys: Capture, tmp_path: Path
) -> None:
    volume, vpc = creation.volumes(OURS), creation.VPCs(OURS)
    there: list[list[str]] = []

    def look(call: str) -> None:
        if call in ("DeleteVolume", "DeleteVpc"):
            there.append([one["event"] for one in records(tmp_path)])

    emulated.lost = look
    code, out, err = run(capsys, "--json")
    (file,) = (tmp_path / "state" / "tandem" / "leftovers").iterdir()
    assert re.fullmatch(r"timeslice-us-east-1-\d{8}T\d{6}\.\d{6}Z-\d+\.jsonl", file.name)
    assert (code, json.loads(out)["record"]) == (0, str(file))
    assert str(file) in err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert there == [["deleting"], ["deleting", "outcome", "deleting"]]
    assert [(one["event"], one["id"], one.get("outcome")) for one in records(tmp_path)] == [
        ("deleting", volume, None),
        ("outcome", volume, "deleted"),
        ("deleting", vpc, None),
        ("outcome", vpc, "deleted"),
    ]
    assert f"deleted volume {volume}\n" in err


@pytest.mark.slow
def test_without_a_record_nothing_is_deleted(
    creation: Creation, emulated: Emulated, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    volume = creation.volumes(OURS)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    code, _, err = run(capsys)
    assert code == 2
    assert re.search(r"^tandem: the record .* cannot be written \(Not a directory\).*XDG_STATE_HOME", err, re.M)
    assert ("volumes", volume) in creation.census()


@pytest.mark.slow
@pytest.mark.parametrize(("writes", "deleted"), [(0, 0), (1, 1), (2, 1), (3, 2)])
def test_a_disk_that_fills_up_stops_the_deletion_and_nothing_is_lost(
    creation: Creation, emulated: Emulated, capsys: Capture, monkeypatch: pytest.MonkeyPatch, writes: int, deleted: int
) -> None:
    things = [(kind, creation.make(kind, OURS)) for kind in ("volumes", "VPCs", "SQS queues")]
    fill_up(monkeypatch, writes)
    code, out, err = run(capsys)
    assert code == 2
    assert err.count("the record ") == 1
    assert "(No space left on device), and without it nothing is deleted" in err
    assert [one in creation.census() for one in things] == [at >= deleted for at in range(3)]
    # On the screen is also what is not in the record any more.
    assert out.count("\ndeleted ") == deleted


def fill_up(monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
    real, left = os.write, iter(range(writes, -1, -1))

    def write(file: int, data: bytes) -> int:
        if next(left) > 0:
            return real(file, data)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", write)


class Broken(io.StringIO):
    """A file that cannot be written."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def write(self, text: str) -> int:
        raise self.error


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "No space left on device"),
        (ValueError("I/O operation on closed file"), "unexpected ValueError"),
    ],
)
def test_a_screen_that_fails_does_not_stop_the_deletion(
    creation: Creation,
    account: Account,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    error: Exception,
    why: str,
) -> None:
    volume, queue = creation.volumes(OURS), creation.SQS_queues(OURS)
    found = leftovers.inventory(account, "timeslice")
    monkeypatch.setattr("sys.stdout", Broken(error))
    with pytest.raises(CallError, match=rf"cannot be written \({why}\)") as raised:
        clean_up.run(account, found, yes=True, to_stderr=False)
    (file,) = (tmp_path / "state" / "tandem" / "leftovers").iterdir()
    assert str(file) in str(raised.value)
    assert [one["id"] for one in records(tmp_path) if one["event"] == "outcome"] == [volume, queue]


# What is protected.


def status_of(status: str) -> None:
    from moto.eks.models import eks_backends

    eks_backends["123456789012"]["us-east-1"].clusters[CLUSTER].status = status


@pytest.mark.slow
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
def test_a_cluster_that_is_up_or_coming_up_is_not_deleted_by_a_script(
    creation: Creation, capsys: Capture, status: str, groups: int, protected: bool
) -> None:
    creation.EKS_clusters(OURS, name=CLUSTER)
    for _ in range(groups):
        creation.node_groups(OURS, cluster=CLUSTER)
    status_of(status)
    code, _, err = run(capsys)
    assert (code, ("EKS clusters", CLUSTER) in creation.census()) == ((1, True) if protected else (0, False))
    assert (f"{CLUSTER} is {status} with {groups} node group" in err) is protected


def test_without_a_look_at_eks_a_script_deletes_nothing(
    creation: Creation, emulated: Emulated, capsys: Capture
) -> None:
    volume = creation.volumes(OURS)
    emulated.denied["ListClusters"] = "AccessDeniedException"
    code, _, err = run(capsys)
    assert code == 1
    assert "AWS could not be asked for EKS clusters; AWS could not be asked for node groups: the stack seems" in err
    emulated.denied.clear()
    assert ("volumes", volume) in creation.census()


def test_an_add_on_leaves_its_objects_to_the_cluster(
    creation: Creation, emulated: Emulated, account: Account, passing: Passing
) -> None:
    creation.add_ons(OURS)
    found = leftovers.inventory(account, "timeslice")
    passing.deletion(account, found).run(found.things, leftovers.KINDS)
    assert [asked for call, asked in emulated.asked if call == "DeleteAddon"] == [{"preserve": "true"}]


# Text from AWS.


def test_text_from_aws_does_not_steer_the_terminal(creation: Creation, emulated: Emulated, capsys: Capture) -> None:
    # XML, in which EC2 answers, has no ESC; JSON has it, in which EKS, SQS and CloudWatch Logs answer.
    creation.volumes({**OURS, "Name": "models\x9b31m\nnothing is left"})
    creation.EKS_clusters({**OURS, "Name": "\x1b[2Jcluster"}, name="other")
    emulated.faults["DeleteVolume"] = [PermissionError("\x1b]0;title\x07\nnothing is left")]
    code, out, err = run(capsys)
    assert code == 1
    assert not set(out + err) & {"\x1b", "\x9b"}
    assert not any(line.startswith("nothing is left") for line in out.splitlines())
    assert "unexpected PermissionError: ]0;title nothing is left" in out
