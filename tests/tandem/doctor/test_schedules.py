"""`tandem doctor` shows calls of the section `park` that failed."""

import datetime

import pytest

from sharing.stack.park import ParkSettings
from tandem.aws import parked_nodes
from tandem.doctor.deployed import has_schedules
from tests.tandem.aws.creation import Creation
from tests.tandem.aws.emulated import CLUSTER, OURS
from tests.tandem.doctor.conftest import Cases
from tests.tandem.doctor.findings import findings, summary
from tests.tandem.doctor.scenes import configured

FRIDAY = datetime.datetime(2026, 11, 27, 7, 5, tzinfo=datetime.UTC)
PARK = ParkSettings(schedule="0 20 * * *", wake="0 8 * * *", timezone="UTC")


def failure(days: int) -> parked_nodes.Failure:
    at = FRIDAY - datetime.timedelta(days=days)
    return parked_nodes.Failure(at=at, verb="wake", group="gpus", code="ResourceInUseException", message="busy")


def test_the_three_newest_failures_are_warnings(
    creation: Creation, case: Cases, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [failure(days) for days in range(4)]
    monkeypatch.setattr(parked_nodes, "find_failures", lambda account, stack: failures)
    assert summary("parking", case("timeslice")) == [("ok", "not deployed yet")]
    creation.EKS_clusters(OURS, CLUSTER)
    assert summary("parking", case("timeslice")) == [
        ("warning", f"wake of gpus failed on 2026-11-{day} 07:05 UTC: ResourceInUseException (busy)")
        for day in (27, 26, 25)
    ]
    assert findings("parking", case("timeslice"))[0].fix == "Remove the cause, then run `tandem wake timeslice`."
    failures.clear()
    assert summary("parking", case("timeslice")) == [("ok", "no schedule has failed in 14 days")]


@pytest.mark.parametrize(
    ("stack", "park", "checked"), [("timeslice", PARK, True), ("timeslice", None, False), ("karpenter", PARK, False)]
)
def test_only_schedules_of_node_groups_are_checked(
    case: Cases, stack: str, park: ParkSettings | None, checked: bool
) -> None:
    """A CronJob, not EventBridge Scheduler, parks Karpenter's pools."""
    assert has_schedules(configured(case(stack), park=park)) is checked
