"""What `leftovers --delete` asks and says. What it then does: `test_deletion.py`."""

import re
from collections.abc import Callable

import pytest

from tandem.aws.resources import Resource
from tandem.leftovers import clean_up, inventory, screen
from tandem.leftovers.inventory import Inventory
from tests.command import ROOT, Printed, Screen
from tests.tandem.aws.emulated import OURS, OWNER

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
