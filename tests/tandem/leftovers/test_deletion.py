"""`leftovers --delete` if something goes wrong: nothing else breaks, and every deletion is recorded."""

import datetime
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
from moto.eks.models import eks_backends
from rich.status import Status

from tandem.leftovers import clean_up, deletion, inventory, regions, screen
from tandem.leftovers.record import Record
from tandem.terminal import CallError
from tests.tandem.aws.cleaning import Cleaning
from tests.tandem.aws.conftest import Answers, Records, Run
from tests.tandem.aws.creation import Creation
from tests.tandem.aws.emulated import ACCOUNT, CLUSTER, OURS, REGION, Emulated
from tests.tandem.aws.slow_deletions import CHANGES, Delays
from tests.tandem.leftovers.test_order_of_deletion import ALL_DELETED, KINDS

pytestmark = pytest.mark.slow

Capture = pytest.CaptureFixture[str]
NO_NETWORK = EndpointConnectionError(endpoint_url="https://eks")
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# Repeated searches.


@pytest.mark.parametrize("fault", ["ThrottlingException", "ExpiredTokenException", "AccessDeniedException", NO_NETWORK])
def test_a_failed_search_is_repeated_until_the_timeout(
    delays: Delays, emulated: Emulated, cleaning: Cleaning, fault: Any
) -> None:
    found = cleaning.look()
    emulated.faults["DescribeNodegroup"] = [None, fault, fault, None, fault]
    outcomes = cleaning.delete(found)
    assert emulated.faults["DescribeNodegroup"] == []
    assert cleaning.too_early == set()
    assert {(one.resource.kind, one.what, one.why) for one in outcomes} == ALL_DELETED


def test_resources_that_a_stuck_node_group_needs_are_left_for_the_next_run(delays: Delays, cleaning: Cleaning) -> None:
    delays.seconds = 10_000.0
    shown = {one.resource.kind: (one.what, one.why) for one in cleaning.delete()}
    assert shown["node groups"] == ("not gone yet", "not finished after 25 minutes; AWS may still be deleting it")
    assert shown["EKS clusters"] == ("left alone", f"node group {CLUSTER}/system still exists")
    slow, quick = (
        {"node groups", "add-ons", "VPC endpoints"},
        {"snapshots", "EventBridge rules", "SQS queues", "schedule groups"},
    )
    # The node group needs all other resources, directly or indirectly.
    outcomes = ("not gone yet", "deleted", "left alone")
    assert [{kind for kind in shown if shown[kind][0] == what} for what in outcomes] == [
        slow,
        quick,
        {*KINDS} - slow - quick,
    ]
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


def test_a_temporary_refusal_is_retried(creation: Creation, emulated: Emulated, cleaning: Cleaning) -> None:
    vpc = creation.VPCs(OURS)
    emulated.faults["DeleteVpc"] = ["DependencyViolation", "RequestLimitExceeded", NO_NETWORK]
    (outcome,) = cleaning.delete()
    assert (outcome.resource.id, outcome.what) == (vpc, "deleted")
    assert cleaning.seconds == 30.0
    assert ("VPCs", vpc) not in creation.census()


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


def test_a_resource_that_botocore_deletes_and_then_misses_in_its_retry_counts_as_deleted(
    creation: Creation, emulated: Emulated, cleaning: Cleaning
) -> None:
    creation.volumes(OURS)
    creation.SQS_queues(OURS)
    codes = {"DeleteVolume": "InvalidVolume.NotFound", "DeleteQueue": "AWS.SimpleQueueService.NonExistentQueue"}
    emulated.lost = lambda call: ClientError({"Error": {"Code": codes[call]}}, call) if call in codes else None
    assert [one.what for one in cleaning.delete()] == ["deleted", "deleted"]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are listed in /proc only on Linux")
def test_the_name_of_the_record_reaches_the_disk_before_the_first_deletion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    synced: list[Path] = []
    monkeypatch.setattr("tandem.leftovers.record.keep_names", synced.append)
    record = Record("dev", REGION, datetime.datetime(2026, 11, 25, tzinfo=datetime.UTC))
    record.close()
    assert synced == [record.path.parent]


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


def test_an_unexpected_exception_fails_one_resource_and_loses_no_result(
    creation: Creation, emulated: Emulated, run: Run, records: Records
) -> None:
    volume, queue = creation.volumes(OURS), creation.SQS_queues(OURS)
    emulated.faults["DeleteVolume"] = [RecursionError("too deep")]
    code, out, _ = run("--delete", "--yes")
    assert code == 1
    assert f"failed volume {volume}: unexpected RecursionError: too deep\n" in out
    assert f"deleted SQS queue {queue}\n" in out
    assert "1 failed, 1 deleted" in out
    outcomes = {one["id"]: one["outcome"] for one in records() if one["event"] == "outcome"}
    assert outcomes == {volume: "failed", queue: "deleted"}


def test_a_bug_between_two_resources_loses_no_result(
    creation: Creation, cleaning: Cleaning, capsys: Capture, monkeypatch: pytest.MonkeyPatch, records: Records
) -> None:
    volume, role = creation.volumes(OURS), creation.IAM_roles(OURS)
    monkeypatch.setattr(regions, "holding", lambda *_: [1 // 0])
    with pytest.raises(ZeroDivisionError):
        clean_up.run(cleaning.account, cleaning.look(), yes=True, to_stderr=False)
    out = capsys.readouterr().out
    assert f"deleted volume {volume}\n" in out
    assert f"not tried IAM role {role}\n" in out
    assert "1 deleted, 1 not tried" in out
    outcomes = {one["id"]: one["outcome"] for one in records() if one["event"] == "outcome"}
    assert outcomes == {volume: "deleted"}


# The record.


def test_the_record_has_a_line_before_each_call_and_one_for_each_outcome(
    creation: Creation, emulated: Emulated, run: Run, records: Records, folder: Path
) -> None:
    volume, vpc = creation.volumes(OURS), creation.VPCs(OURS)
    there: list[list[str]] = []

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
    cleaning: Cleaning,
    monkeypatch: pytest.MonkeyPatch,
    records: Records,
    folder: Path,
    error: Exception,
    why: str,
) -> None:
    def write(text: str) -> int:
        raise error

    volume, queue = creation.volumes(OURS), creation.SQS_queues(OURS)
    found, broken = cleaning.look(), io.StringIO()
    broken.write = write  # type: ignore[method-assign]
    monkeypatch.setattr("sys.stdout", broken)
    with pytest.raises(CallError) as said:
        clean_up.run(cleaning.account, found, yes=True, to_stderr=False)
    [record] = folder.iterdir()
    assert str(said.value) == f"the output cannot be written ({why}). Read the outcomes in {record}."
    assert [one["id"] for one in records() if one["event"] == "outcome"] == [volume, queue]
    assert not {("volumes", volume), ("SQS queues", queue)} & {*creation.census()}


def test_no_line_is_printed_while_the_status_is_shown(
    creation: Creation, cleaning: Cleaning, monkeypatch: pytest.MonkeyPatch
) -> None:
    creation.volumes(OURS)
    creation.SQS_queues(OURS)
    happened: list[str] = []
    for verb in ("start", "stop"):
        monkeypatch.setattr(Status, verb, lambda status, verb=verb: happened.append(verb))
    monkeypatch.setattr(screen, "outcome", lambda one, **_: happened.append(f"{one.what} {one.resource.kind}"))
    monkeypatch.setattr(screen, "counts", lambda outcomes, **_: happened.append("counts"))
    clean_up.run(cleaning.account, cleaning.look(), yes=True, to_stderr=False)
    volume = ["stop", "deleted volumes", "start"]
    queue = ["stop", "deleted SQS queues", "start"]
    # The last one is the end of rich's own `with`.
    assert happened == ["start", *volume, *queue, "stop", "counts", "stop"]


# Protected resources.


@pytest.mark.parametrize(
    ("count", "shown"), [(3, "v0, v1, v2"), (4, "v0, v1, v2 and 1 more"), (9, "v0, v1, v2 and 6 more")]
)
def test_a_reason_names_three_of_the_resources_that_still_exist(count: int, shown: str) -> None:
    assert deletion._some([f"v{index}" for index in range(count)]) == shown


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


def test_a_script_deletes_nothing_if_eks_cannot_be_searched(creation: Creation, emulated: Emulated, run: Run) -> None:
    volume = creation.volumes(OURS)
    emulated.denied["ListClusters"] = "AccessDeniedException"
    code, _, err = run("--delete", "--yes")
    assert code == 1
    assert "EKS clusters could not be listed; node groups could not be listed: the stack is probably running" in err
    assert ("volumes", volume) in creation.census()


# Text from AWS.
