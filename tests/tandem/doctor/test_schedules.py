"""`tandem doctor` shows calls of the section `park` that failed."""

import datetime

import pytest

from sharing.sections.park import ParkSettings
from tandem.aws import parked_nodes
from tandem.doctor.deployed import has_schedules
from tests.tandem.aws.creation import Creation
from tests.tandem.aws.emulated import CLUSTER, OURS
from tests.tandem.doctor.conftest import Cases
from tests.tandem.doctor.findings import findings
from tests.tandem.doctor.scenes import configured

FRIDAY = datetime.datetime(2026, 11, 27, 7, 5, tzinfo=datetime.UTC)


def test_the_three_newest_failures_are_warnings(
    creation: Creation, case: Cases, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = [FRIDAY - datetime.timedelta(days=days) for days in range(4)]
    failures = [parked_nodes.Failure(at=at, verb="wake", group="gpus", code="Busy", message="busy") for at in days]
    monkeypatch.setattr(parked_nodes, "find_failures", lambda account, stack: failures)
    creation.EKS_clusters(OURS, CLUSTER)
    found = findings("parking", case("timeslice"))
    assert {one.verdict for one in found} == {"warning"}
    said = "wake of gpus failed on 2026-11-{} 07:05 UTC: Busy (busy)"
    assert [one.text for one in found] == [said.format(day) for day in (27, 26, 25)]
    assert found[0].fix == "Remove the cause, then run `tandem wake timeslice`."


def test_only_schedules_of_node_groups_are_checked(case: Cases) -> None:
    """A CronJob, not EventBridge Scheduler, parks Karpenter's pools."""
    park = ParkSettings(schedule="0 20 * * *", wake="0 8 * * *", timezone="UTC")
    stacks = ("timeslice", "karpenter")
    assert [has_schedules(configured(case(stack), park=park)) for stack in stacks] == [True, False]
    assert not has_schedules(case("timeslice"))
