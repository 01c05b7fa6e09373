"""The order of `leftovers --delete`: the table of what AWS refuses, or breaks, in another order."""

import pytest

from tandem.leftovers import inventory
from tests.tandem.aws.cleaning import ORDER, Cleaning
from tests.tandem.aws.emulated import Emulated
from tests.tandem.aws.slow_deletions import Delays

KINDS = tuple(kind.title for kind in inventory.KINDS)
ALL_DELETED = {*((kind, "deleted", "") for kind in KINDS), ("instances", "gone already", "")}
"""The last one. For instances, that is the node group's, which is deleted with the group."""


def test_kinds_that_must_be_deleted_first_are_declared() -> None:
    after = {(first, kind.title) for kind in inventory.KINDS for first in kind.after}
    assert after == ORDER
    for first, then in after:
        assert KINDS.index(first) < KINDS.index(then), (first, then)


@pytest.mark.slow
def test_a_whole_stack_is_deleted(delays: Delays, emulated: Emulated, cleaning: Cleaning) -> None:
    found = cleaning.look()
    assert {resource.kind for resource in found.resources} == set(KINDS)
    outcomes = cleaning.delete(found)
    assert cleaning.too_early == set()
    assert {(one.resource.kind, one.what, one.why) for one in outcomes} == ALL_DELETED
    assert cleaning.resources() == []
    # An add-on is deleted with its cluster, and DeleteAddon then returns ResourceNotFoundException.
    calls = [call for call in emulated.calls if call in ("DeleteNodegroup", "DeleteAddon", "DeleteCluster")]
    assert calls == ["DeleteNodegroup", "DeleteAddon", "DeleteCluster"]
