"""What `tandem sandbox status --json` says, and what the guide says of it."""

import re
from pathlib import Path

import pytest

from sandbox.world import Thing
from tandem.sandbox.report import as_report
from tandem.sandbox.state import Findings, Managed, Orphan, Unfinished

GUIDE = Path(__file__).parents[3] / "docs" / "how-to" / "use-the-sandbox.md"
URN = "urn:pulumi:dev::tandem::aws:ec2/vpc:Vpc::tandem-vpc"
UNFINISHED = Unfinished(URN, "aws:ec2/vpc:Vpc", "creating")
MANAGED = Managed(URN, "aws:ec2/vpc:Vpc", "vpc-1")
VPC = Thing(type="aws:ec2/vpc:Vpc", id="vpc-2", name="somebodys", inputs={}, outputs={})
ORPHAN = Orphan(VPC, "tandem sandbox delete dev vpc vpc-2")


def findings(
    *,
    orphans: tuple[Orphan, ...] = (),
    missing: tuple[Managed, ...] = (),
    unfinished: tuple[Unfinished, ...] = (),
    left_off: str = "",
) -> Findings:
    return Findings((), 3, 5, orphans, missing, unfinished, left_off)


def test_the_guide_has_every_key_of_the_report() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", GUIDE.read_text(encoding="utf-8"), flags=re.MULTILINE))
    report = as_report("dev", findings(orphans=(ORPHAN,), missing=(MANAGED,), unfinished=(UNFINISHED,)))
    assert list(rows) == list(report)
    for key in ("unfinished", "orphans", "missing"):
        assert re.findall(r"`(\w+)`", rows[key]) == list(report[key][0])


def test_what_is_unfinished_comes_first_and_one_refresh_is_enough() -> None:
    report = as_report("dev", findings(orphans=(ORPHAN,), missing=(MANAGED,), unfinished=(UNFINISHED,)))
    delete = "tandem sandbox delete dev vpc vpc-2"
    assert report["repairs"] == ["tandem sandbox refresh dev", delete, "tandem sandbox up dev"]


def test_up_is_the_last_because_it_refuses_while_there_are_orphans() -> None:
    waits = Unfinished(URN, "aws:ec2/vpc:Vpc", "replacing")
    report = as_report("dev", findings(orphans=(ORPHAN,), unfinished=(waits,)))
    assert report["repairs"] == ["tandem sandbox delete dev vpc vpc-2", "tandem sandbox up dev"]


def test_nothing_to_repair_is_agreement() -> None:
    report = as_report("dev", findings())
    assert (report["agree"], report["complete"], report["repairs"]) == (True, True, [])
    assert (report["resources"], report["things"]) == (3, 5)


@pytest.mark.parametrize(("left_off", "next"), [("up", "up"), ("destroy", "destroy"), ("refresh", "up")])
def test_a_stack_that_a_command_left_incomplete_is_continued_last(left_off: str, next: str) -> None:
    report = as_report("dev", findings(left_off=left_off))
    assert (report["agree"], report["complete"]) == (True, False)
    assert report["repairs"] == [f"tandem sandbox {next} dev"]
    report = as_report("dev", findings(missing=(MANAGED,), left_off=left_off))
    assert report["repairs"] == ["tandem sandbox refresh dev", f"tandem sandbox {next} dev"]


def test_a_destroy_that_did_not_finish_also_removes_what_a_replacement_left() -> None:
    """pulumi 3.260 pkg/resource/deploy/step_generator.go: NewRemovePendingReplaceStep where it deletes."""
    waits = Unfinished(URN, "aws:ec2/vpc:Vpc", "replacing")
    assert as_report("dev", findings(unfinished=(waits,), left_off="destroy"))["repairs"] == [
        "tandem sandbox destroy dev"
    ]
