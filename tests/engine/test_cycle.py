"""Every stack, from its first `up` to its `destroy`."""

import pytest

from sandbox.world import Entity
from tests.engine.emulated import Raise
from tests.sandbox.outside import Outside


def test_a_stack_comes_up_as_planned_stays_and_leaves_nothing(raised: Raise, any_stack: str) -> None:
    stack = raised(any_stack)
    findings = stack.findings()
    assert (findings.agree, findings.resources) == (True, len(stack.graph))
    assert stack.comes_up().changed == {}
    run = stack.refresh("--expect-no-changes")
    assert (run.code, run.changed) == (0, {}), run.errors
    stack.goes_down()


def test_up_repairs_what_somebody_changed_or_deleted(raised: Raise) -> None:
    stack = raised("timeslice")

    def meddle(world: Outside) -> None:
        by_type: dict[str, Entity] = {entity.type: entity for entity in world.entities() if entity.made_by == "pulumi"}
        vpc = by_type["aws:ec2/vpc:Vpc"]
        world.tamper(vpc.type, vpc.id, lambda entity: entity.inputs.update(enableDnsHostnames=False))
        group = next(entity for entity in world.entities() if entity.name == "tandem-system")
        world.tamper(group.type, group.id, lambda entity: entity.inputs.update(labels={"somebody": "was-here"}))
        addon = next(entity for entity in world.entities() if entity.name == "tandem-coredns")
        world.forget(addon.type, addon.id)

    stack.behind(meddle)
    assert [resource.name for resource in stack.findings().missing] == ["tandem-coredns"]
    assert stack.comes_up("--refresh").changed == {
        "create": frozenset({"tandem-coredns"}),
        "update": frozenset({"tandem-vpc", "tandem-system"}),
    }
    assert stack.findings().agree


@pytest.mark.parametrize("name", ["timeslice", "karpenter"])
def test_a_preview_shows_every_resource_that_up_creates(nothing: Raise, name: str) -> None:
    stack = nothing(name)
    previewed = stack.preview()
    assert previewed.code == 0, previewed.errors
    assert previewed.changed == stack.comes_up().changed
