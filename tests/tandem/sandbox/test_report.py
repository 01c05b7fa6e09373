"""What `tandem sandbox status --json` says, and what the guide says of it."""

from __future__ import annotations

import re
from pathlib import Path

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
    *, orphans: tuple[Orphan, ...] = (), missing: tuple[Managed, ...] = (), unfinished: tuple[Unfinished, ...] = ()
) -> Findings:
    return Findings((), 3, 5, orphans, missing, unfinished)


def test_the_guide_has_every_key_of_the_report() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", GUIDE.read_text(encoding="utf-8"), flags=re.MULTILINE))
    report = as_report("dev", findings(orphans=(ORPHAN,), missing=(MANAGED,), unfinished=(UNFINISHED,)))
    assert list(rows) == list(report)
    for key in ("unfinished", "orphans", "missing"):
        assert re.findall(r"`(\w+)`", rows[key]) == list(report[key][0])


def test_what_is_unfinished_comes_first_and_one_refresh_is_enough() -> None:
    report = as_report("dev", findings(orphans=(ORPHAN,), missing=(MANAGED,), unfinished=(UNFINISHED,)))
    assert report["repairs"] == ["tandem sandbox refresh dev", "tandem sandbox delete dev vpc vpc-2"]


def test_up_is_the_last_because_it_refuses_while_there_are_orphans() -> None:
    waits = Unfinished(URN, "aws:ec2/vpc:Vpc", "replacing")
    report = as_report("dev", findings(orphans=(ORPHAN,), unfinished=(waits,)))
    assert report["repairs"] == ["tandem sandbox delete dev vpc vpc-2", "tandem sandbox up dev"]


def test_nothing_to_repair_is_agreement() -> None:
    report = as_report("dev", findings())
    assert (report["agree"], report["repairs"]) == (True, [])
    assert (report["resources"], report["things"]) == (3, 5)
