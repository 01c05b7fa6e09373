"""The report of `tandem sandbox status --json`, and its description in the guide."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sandbox.world import Entity
from tandem.sandbox.report import as_report
from tandem.sandbox.state import Findings, Managed, Orphan, Unfinished

GUIDE = Path(__file__).parents[3] / "docs" / "how-to" / "use-the-sandbox.md"
URN = "urn:pulumi:dev::tandem::aws:ec2/vpc:Vpc::tandem-vpc"
UNFINISHED = Unfinished(URN, "aws:ec2/vpc:Vpc", "creating")
MANAGED = Managed(URN, "aws:ec2/vpc:Vpc", "vpc-1")
VPC = Entity(type="aws:ec2/vpc:Vpc", id="vpc-2", name="somebodys", inputs={}, outputs={})
ORPHAN = Orphan(VPC, "tandem sandbox delete dev vpc vpc-2")


NOTHING = Findings((), 3, 5, (), (), ())
WAITS = Unfinished(URN, "aws:ec2/vpc:Vpc", "replacing")
ALL: dict[str, Any] = {"orphans": (ORPHAN,), "missing": (MANAGED,), "unfinished": (UNFINISHED,)}


def test_the_guide_has_every_key_of_the_report() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", GUIDE.read_text(encoding="utf-8"), flags=re.MULTILINE))
    report = as_report("dev", replace(NOTHING, **ALL))
    assert list(rows) == list(report)
    assert rows["schema_version"] == str(report["schema_version"])
    for key in ("unfinished", "orphans", "missing"):
        assert re.findall(r"`(\w+)`", rows[key]) == list(report[key][0])


@pytest.mark.parametrize(
    ("found", "agree", "complete", "repairs"),
    [
        ({}, True, True, []),
        (ALL, False, False, ["refresh dev", "delete dev vpc vpc-2", "up dev"]),
        ({"orphans": (ORPHAN,), "unfinished": (WAITS,)}, False, False, ["delete dev vpc vpc-2", "up dev"]),
        *(
            ({"missing": lost, "left_off": verb}, not lost, False, [*["refresh dev"] * len(lost), f"{next} dev"])
            for verb, next in (("up", "up"), ("destroy", "destroy"), ("refresh", "up"))
            for lost in ((), (MANAGED,))
        ),
        # pulumi 3.260 pkg/resource/deploy/step_generator.go: NewRemovePendingReplaceStep where it deletes.
        ({"unfinished": (WAITS,), "left_off": "destroy"}, False, False, ["destroy dev"]),
    ],
)
def test_what_is_unfinished_comes_first_and_up_last_because_it_refuses_while_there_are_orphans(
    found: dict[str, Any], agree: bool, complete: bool, repairs: list[str]
) -> None:
    report = as_report("dev", replace(NOTHING, **found))
    assert (report["agree"], report["complete"], report["resources"], report["things"]) == (agree, complete, 3, 5)
    assert report["repairs"] == [f"tandem sandbox {command}" for command in repairs]
