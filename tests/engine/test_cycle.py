"""Every stack, from its first `up` to its `destroy`."""

import pytest

from sandbox.world import Entity
from tests.engine.emulated import Raise, Stack
from tests.sandbox.outside import Outside


@pytest.fixture
def stack(raised: Raise, any_stack: str) -> Stack:
    return raised(any_stack)


def test_up_creates_what_the_plan_shows_and_state_and_cloud_agree(stack: Stack) -> None:
    found = stack.findings()
    assert found.agree
    assert found.resources == len(stack.graph)


def test_a_second_up_changes_nothing_and_a_refresh_shows_no_drift(stack: Stack) -> None:
    assert stack.comes_up().changed == {}
    run = stack.refresh("--expect-no-changes")
    assert (run.code, run.changed) == (0, {}), run.errors


def test_up_repairs_what_somebody_changed_or_deleted(stack: Stack) -> None:
    def meddle(world: Outside) -> None:
        by_type: dict[str, Entity] = {entity.type: entity for entity in world.entities() if entity.made_by == "pulumi"}
        vpc = by_type["aws:ec2/vpc:Vpc"]
        world.tamper(vpc.type, vpc.id, lambda entity: entity.inputs.update(enableDnsHostnames=False))
        group = next(one for one in world.entities() if one.name == "tandem-system")
        world.tamper(group.type, group.id, lambda entity: entity.inputs.update(labels={"somebody": "was-here"}))
        addon = next(one for one in world.entities() if one.name == "tandem-coredns")
        world.forget(addon.type, addon.id)

    stack.behind(meddle)
    assert [one.name for one in stack.findings().missing] == ["tandem-coredns"]
    assert stack.comes_up("--refresh").changed == {
        "create": frozenset({"tandem-coredns"}),
        "update": frozenset({"tandem-vpc", "tandem-system"}),
    }
    assert stack.findings().agree
    assert stack.up("--refresh").changed == {}


def test_destroy_leaves_nothing(stack: Stack) -> None:
    stack.goes_down()


def test_a_preview_shows_every_resource_that_up_creates(nothing: Raise, stack: Stack, any_stack: str) -> None:
    previewed = nothing(any_stack).preview()
    assert previewed.code == 0, previewed.errors
    assert previewed.changed == stack.first_up
