"""A stack with the section `park`: while it is parked, no `up` wakes it or waits. After the wake, all takes effect."""

from typing import Any

import pytest
import yaml

from sandbox.world import tokens
from tests.engine.emulated import Raise, Stack
from tests.engine.parked import PARK, nodes, park, serving, wake
from tests.engine.switches import MODELS, PLUGIN, in_order, journal
from tests.sandbox.outside import Outside

POOL = {"name": "gpu", "instance-types": ["g4dn.xlarge"], "capacity": "spot", "max": 1}
SECTIONS: dict[str, Any] = {"park": PARK, "gpu-nodes": [POOL], "budget": {"max-usd-per-hour": 9.0}}
GROUP, VALUE, PROOF = "tandem-gpu-group", "tandem-gpu-mode", "tandem-gpu-proof"
LONGER = {"models": [{"name": "llama2:7b", "context": 4096}, {"name": "mistral:7b", "context": 2048}]}


def remove_schedule(stack: Stack) -> None:
    values = yaml.safe_load(stack.place.stack_file.read_text(encoding="utf-8"))
    del values["config"]["tandem:park"]
    stack.place.stack_file.write_text(yaml.safe_dump(values), encoding="utf-8")


def size(stack: Stack) -> dict[str, int]:
    [group] = stack.entities(tokens.NODE_GROUP, GROUP)
    return dict(group.outputs["scalingConfig"])


@pytest.mark.real_world(
    behaviour="A schedule of EventBridge resizes a node group behind Pulumi's back; the provider sends the old size "
    "with every change of the maximum",
    source="terraform-provider-aws internal/service/eks/node_group.go, resourceNodeGroupUpdate (expandNodegroupScaling"
    "Config sends all three sizes)",
)
def test_a_parked_stack_is_neither_woken_nor_waited_for_and_changes_take_effect_after_the_wake(raised: Raise) -> None:
    stack = raised("timeslice", SECTIONS)
    assert (nodes(stack), serving(stack)) == (1, 2)
    park(stack)
    assert (nodes(stack), serving(stack)) == (0, 0)
    assert stack.comes_up().changed == {}

    stack.configure(LONGER)
    run = stack.comes_up()
    # The shares are checked again after the wake: the taint gets a value that evicts models from the nodes.
    assert run.changed == {"update": {GROUP, PLUGIN, *MODELS}, "replace": {VALUE}, "delete": {PROOF}}
    stack.configure({"sharing": {"mode": "mps"}, "gpu-nodes": [{**POOL, "max": 2}]})
    stack.comes_up("--refresh")
    assert (nodes(stack), serving(stack)) == (0, 0)
    assert size(stack) == {"minSize": 0, "desiredSize": 0, "maxSize": 2}

    before = journal(stack)
    wake(stack)
    assert (nodes(stack), serving(stack)) == (2, 2)
    run = stack.comes_up()
    assert run.operations["create"] == {PROOF}
    assert {GROUP, *MODELS} <= run.operations["update"]
    events = [event for event in journal(stack)[len(before) :] if event.kind != "mode"]
    # The models started in the new mode at the wake. Then they stop, the shares are checked, and they start again.
    assert in_order(events) == ["start", "stop", "prove", "start"]
    assert {event.config for event in events} == {"mps-2"}
    assert size(stack) == {"minSize": 0, "desiredSize": 2, "maxSize": 2}
    assert stack.comes_up().changed == {}
    assert stack.findings().agree


def test_nothing_changes_if_nothing_has_changed_since_the_stack_was_parked_and_woken(raised: Raise) -> None:
    stack = raised("timeslice", SECTIONS)
    for resize, size_of_group in ((park, 0), (wake, 1)):
        resize(stack)
        assert stack.comes_up("--refresh").changed == {}
        assert (nodes(stack), size(stack)["desiredSize"]) == (size_of_group, size_of_group)
    park(stack)
    stack.goes_down()


def test_the_section_can_be_added_and_removed(raised: Raise) -> None:
    stack = raised("timeslice", {"gpu-nodes": [POOL], "budget": SECTIONS["budget"]})
    stack.configure({"park": PARK})
    assert stack.comes_up().changed == {"create": {"tandem-parking"}}
    remove_schedule(stack)
    run = stack.comes_up()
    assert run.changed == {"delete": {"tandem-parking"}}
    assert run.warnings == ()


def test_a_parked_stack_whose_schedule_is_removed_stays_parked_until_a_refresh(raised: Raise) -> None:
    stack = raised("timeslice", SECTIONS)
    park(stack)
    remove_schedule(stack)
    [warning] = stack.comes_up().warnings
    assert "if its nodes do not start with this `up`, run `pulumi up --refresh`" in warning
    assert (nodes(stack), serving(stack)) == (0, 0)
    assert stack.comes_up("--refresh").changed == {"update": frozenset({GROUP})}
    assert (nodes(stack), serving(stack)) == (1, 2)


def test_a_stack_that_was_changed_while_it_was_parked_wakes_without_its_schedule(raised: Raise) -> None:
    stack = raised("timeslice", SECTIONS)
    park(stack)
    stack.configure({"gpu-nodes": [{**POOL, "max": 2}]})
    stack.comes_up()
    remove_schedule(stack)
    assert stack.comes_up().warnings == ()
    assert (nodes(stack), serving(stack)) == (1, 2)


def test_parked_models_of_karpenter_whose_schedule_is_removed_stay_parked_and_up_names_the_command(
    raised: Raise,
) -> None:
    def park(world: Outside) -> None:
        """As after the CronJob: without a settling of the cloud, no pod brings the node back."""
        with world.changing() as entities:
            for instance in entities.of(tokens.INSTANCE):
                if instance.made_by == "karpenter":
                    entities.remove(instance)

    stack = raised("karpenter", {"park": PARK})
    stack.behind(park)
    remove_schedule(stack)
    [warning] = stack.comes_up().warnings
    assert "run `kubectl --namespace ollama scale deployment llama2-7b mistral-7b --replicas=1`" in warning
