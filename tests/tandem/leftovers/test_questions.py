"""What `leftovers --delete` asks and says. What it then does: `test_deletion.py`."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest

from tandem.aws.resources import Resource
from tandem.leftovers import clean_up, inventory, screen
from tandem.leftovers.deletion import Outcome, What
from tandem.leftovers.inventory import Inventory
from tests.command import ROOT, Printed, Screen
from tests.tandem.aws.emulated import OURS, OWNER, pairs
from tests.tandem.aws.scripted import Account

KINDS = {kind.title: kind for kind in inventory.KINDS}
IN_ALL_REGIONS = "IAM is shared by all regions, so it stays while the stack has a cluster in any region."


Asked = Callable[[str, str, str], tuple[bool, str]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, capsys: Printed) -> Asked:
    """Asks for the resources of a kind; returns whether the user agrees, and the question."""

    def ask(title: str, ids: str, answer: str) -> tuple[bool, str]:
        other = Resource(kind="VPCs", id="vpc", tags=OURS)
        mine = (Resource(kind=title, id=id, tags=OURS) for id in ids.split())
        monkeypatch.setattr("sys.stdin", Screen(answer))
        agreed = clean_up._agrees(KINDS[title], Inventory(owner=OWNER, resources=(other, *mine), unseen={}))
        return agreed, capsys.readouterr().err

    return ask


@pytest.mark.parametrize(
    ("title", "ids", "question"),
    [
        ("node groups", "a", "Delete 1 node group (a)? Their instances are deleted with them. [y/N] "),
        ("snapshots", "a", "Delete 1 snapshot (a)? A snapshot cannot be recreated. [y/N] "),
        ("volumes", "a b", "Delete 2 volumes (a, b)? Their data is lost. [y/N] "),
        ("schedule groups", "a", "Delete 1 schedule group (a)? Their schedules are deleted with them. [y/N] "),
        ("subnets", "a b c", "Delete 3 subnets (a, b, c)? [y/N] "),
        ("IAM policies", "a b c d", f"Delete 4 IAM policies (a, b, c, …)? {IN_ALL_REGIONS} [y/N] "),
    ],
)
def test_each_kind_is_asked_for_with_what_is_lost(asked: Asked, title: str, ids: str, question: str) -> None:
    assert asked(title, ids, "y\n") == (True, question)


@pytest.mark.parametrize(("answer", "agreed"), [("YES\n", True), ("\n", False), ("n\n", False), ("", False)])
def test_no_is_the_default(asked: Asked, answer: str, agreed: bool) -> None:
    assert asked("volumes", "a", answer)[0] is agreed


def test_the_guide_has_the_words_of_the_screen_and_those_of_the_record() -> None:
    guide = (ROOT / "docs" / "how-to" / "delete-what-is-left.md").read_text(encoding="utf-8")
    assert dict(re.findall(r"`([\w ]+)` for `([\w ]+)`", guide)) == screen.WORDS


VOLUME = {"VolumeId": "v", "State": "in-use", "Tags": pairs(OURS)}
LISTED = {"ec2 describe_volumes": {"Volumes": [VOLUME]}}


def test_after_an_interrupt_it_says_what_aws_was_asked_to_delete(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Printed
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    account: Any = Account({**LISTED, "ec2 delete_volume": KeyboardInterrupt()})
    volumes = tuple(Resource(kind="volumes", id=id, tags=OURS) for id in ("v", "w"))
    with pytest.raises(KeyboardInterrupt):
        clean_up.run(account, Inventory(owner=OWNER, resources=volumes, unseen={}), yes=True, to_stderr=False)
    assert capsys.readouterr().out.splitlines() == [
        "still deleting volume v: AWS was asked to delete it",
        "not tried volume w",
        "1 still deleting, 1 not tried",
    ]


def test_a_pipe_gets_each_line_whole(capsys: Printed) -> None:
    long = replace(OWNER, stack="a-stack-with-a-long-name" * 4)
    screen.show(Inventory(owner=long, resources=(), unseen={}), Account(), deleting=False)  # type: ignore[arg-type]
    outcomes = [
        Outcome(resource=Resource(kind="volumes", id="v", tags={}), what=what, why="why " * 30)
        for what in get_args(What)
    ]
    screen.outcome(outcomes[0], to_stderr=False)
    screen.counts(outcomes, to_stderr=False)
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in said] == ["No", "deleted", "1"]
    assert min(map(len, said)) > 80


def test_programs_get_only_the_outcomes_and_the_record_has_them_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    out, err = Screen(), Screen()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    account: Any = Account({"ec2 describe_volumes": {"Volumes": [{**VOLUME, "Tags": []}]}})
    inventory = Inventory(owner=OWNER, resources=(Resource(kind="volumes", id="v", tags=OURS),), unseen={})
    done = clean_up.run(account, inventory, yes=True, to_stderr=True)
    why = "its tags are no longer those of stack timeslice"
    outcome = {"kind": "volumes", "id": "v", "outcome": "refused", "why": why}
    [record] = (tmp_path / "tandem" / "leftovers").iterdir()
    assert done
    assert done.as_dict() == {"outcomes": [outcome], "record": str(record)}
    assert json.loads(record.read_text()).items() >= {"event": "outcome", **outcome}.items()
    assert out.getvalue() == ""
    # The line of progress is erased before each line that stays.
    said = re.sub(r"\x1b\[[\d;]*m", "", err.getvalue())
    assert "\x1b[2Krefused volume v: its tags are" in said
    assert said.endswith("\x1b[2K1 refused\n")
