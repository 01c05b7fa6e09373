"""Several people, and CI, look after one cluster."""

from __future__ import annotations

import pytest

from sandbox.world.callers import Callers
from tests.engine.emulated import Raise, Stack

ANNA, CI = "arn:aws:iam::123456789012:role/people/anna", "arn:aws:iam::123456789012:role/ci"


def as_(stack: Stack, principal: str) -> Stack:
    stack.callers = Callers(ambient=principal)
    return stack


@pytest.mark.real_world(
    behaviour="Only a principal with an access entry can talk to the Kubernetes API of a cluster.",
    source="https://docs.aws.amazon.com/eks/latest/userguide/access-entries.html",
)
def test_a_listed_admin_can_change_and_destroy_what_another_one_created(nothing: Raise) -> None:
    stack = nothing("dev", {"cluster": {"admins": [ANNA, CI]}})
    created = as_(stack, ANNA).up()
    assert created.code == 0, created.errors
    again = as_(stack, CI).up()
    assert (again.code, again.changed) == (0, {}), again.errors
    stack.configure({"models": [{"name": "mistral:7b", "context": 2048}]})
    changed = stack.up()
    assert changed.code == 0, changed.errors
    # Entries outlive every Kubernetes object: otherwise the last ones could not be deleted any more.
    gone = stack.destroy()
    assert gone.code == 0, gone.errors
    assert stack.findings().things == 0


@pytest.mark.real_world(
    behaviour="EKS makes an access entry for the creator of a cluster; a second one for the same principal fails.",
    source="https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAccessEntry.html (ResourceInUseException)",
)
def test_the_creator_can_be_listed_later_and_nobody_else_gets_in_before(nothing: Raise) -> None:
    stack = nothing("dev")
    created = as_(stack, ANNA).up()
    assert created.code == 0, created.errors
    strange = as_(stack, CI).destroy()
    assert strange.code != 0
    assert "the server has asked for the client to provide credentials" in "".join(strange.errors)
    stack.configure({"cluster": {"admins": [ANNA, CI]}})
    listed = as_(stack, ANNA).up()
    assert listed.code == 0, listed.errors
    assert as_(stack, CI).destroy().code == 0


def test_whoever_runs_up_is_let_in_before_anything_is_changed_inside(nothing: Raise) -> None:
    stack = nothing("dev")
    assert as_(stack, ANNA).up().code == 0
    # Anna's role is deleted; nobody listed anybody.
    stack.configure({"models": [{"name": "mistral:7b", "context": 2048}]})
    rescued = as_(stack, CI).up()
    assert rescued.code == 0, rescued.errors
    assert stack.destroy().code == 0
