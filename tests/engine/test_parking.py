"""A stack with the section `park`: while it is parked, no `up` wakes it or waits. After the wake, all takes effect."""

import json
from datetime import datetime
from typing import Any

import pytest
import yaml

from tests.engine.command_line import says
from tests.engine.emulated import Raise, Stack
from tests.engine.test_switch import MODELS, PLUGIN, in_order, journal

PARK = {"schedule": "0 20 * * MON-FRI", "wake": "0 8 * * MON-FRI", "timezone": "Europe/Paris"}
POOL = {"name": "gpu", "instance-types": ["g4dn.xlarge"], "capacity": "spot", "max": 1}
SECTIONS: dict[str, Any] = {"park": PARK, "gpu-nodes": [POOL], "budget": {"max-usd-per-hour": 9.0}}
GROUP, VALUE, PROOF = "tandem-gpu-group", "tandem-gpu-mode", "tandem-gpu-proof"
NODE_GROUP, POD, INSTANCE = "aws:eks/nodeGroup:NodeGroup", "kubernetes:core/v1:Pod", "aws:ec2/instance:Instance"
BED = datetime.fromisoformat("2026-11-23T20:00:00+01:00")
"""The emulated clock starts on a Monday at noon."""
RISE = datetime.fromisoformat("2026-11-24T08:00:00+01:00")


def move_clock(stack: Stack, to: datetime) -> None:
    stack.behind(lambda world: world.move_clock(to))


def remove_schedule(stack: Stack) -> None:
    values = yaml.safe_load(stack.place.stack_file.read_text(encoding="utf-8"))
    del values["config"]["tandem:park"]
    stack.place.stack_file.write_text(yaml.safe_dump(values), encoding="utf-8")


def nodes(stack: Stack) -> int:
    """GPU nodes that run."""
    return len([one for one in stack.entities(INSTANCE) if one.inputs["instanceType"].startswith("g4dn")])


def serving(stack: Stack) -> int:
    """Models that run on a node."""
    pods = [one for one in stack.entities(POD) if one.id.startswith("ollama/")]
    return sum(bool(one.outputs["node"]) for one in pods)


def size(stack: Stack) -> dict[str, int]:
    [group] = stack.entities(NODE_GROUP, GROUP)
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
    move_clock(stack, BED)
    assert (nodes(stack), serving(stack)) == (0, 0)

    for options in ((), ("--refresh",), ()):
        assert stack.comes_up(*options).changed == {}, options

    stack.configure({"models": [{"name": "llama2:7b", "context": 4096}, {"name": "mistral:7b", "context": 2048}]})
    run = stack.comes_up()
    # The shares are checked again after the wake: the taint gets a value that evicts models from the nodes.
    assert run.changed == {"update": {GROUP, PLUGIN, *MODELS}, "replace": {VALUE}, "delete": {PROOF}}
    assert stack.comes_up().changed == {}

    stack.configure({"sharing": {"mode": "mps"}})
    stack.comes_up()
    stack.configure({"gpu-nodes": [{**POOL, "max": 2}]})
    stack.comes_up()
    assert (nodes(stack), serving(stack)) == (0, 0)
    assert size(stack) == {"minSize": 0, "desiredSize": 0, "maxSize": 2}

    before = journal(stack)
    move_clock(stack, RISE)
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
    stack.goes_down()


def test_nothing_changes_if_nothing_has_changed_since_the_stack_was_parked_and_woken(raised: Raise) -> None:
    stack = raised("timeslice", SECTIONS)
    move_clock(stack, BED)
    assert stack.comes_up("--refresh").changed == {}
    move_clock(stack, RISE)
    assert (nodes(stack), serving(stack)) == (1, 2)
    for options in ((), ("--refresh",)):
        assert stack.comes_up(*options).changed == {}, options
    assert size(stack)["desiredSize"] == 1
    # A change after all of that does not send the old size.
    stack.configure({"gpu-nodes": [{**POOL, "max": 2}]})
    stack.comes_up()
    assert (size(stack)["desiredSize"], nodes(stack)) == (2, 2)
    stack.goes_down()


def test_a_parked_stack_is_destroyed_with_nothing_left(raised: Raise) -> None:
    stack = raised("timeslice", SECTIONS)
    move_clock(stack, BED)
    stack.goes_down()


def test_a_degraded_group_stays_as_it_is_and_status_shows_the_reason(raised: Raise) -> None:
    stack = raised("timeslice", SECTIONS)
    [group] = stack.entities(NODE_GROUP, GROUP)
    stack.behind(lambda world: world.reclaim(group.id))
    # 20:00 in Paris is eight hours after noon there, and seven hours after noon UTC.
    assert "it is Monday, 2026-11-23 19:00 UTC; 0 GPU nodes running" in says(stack, 0, "wait", "timeslice", "7h")
    assert size(stack)["desiredSize"] == 1
    name = group.outputs["nodeGroupName"]
    assert f"failed: park of {name}: ResourceInUseException (" in says(stack, 0, "status", "timeslice")
    [call] = json.loads(says(stack, 0, "status", "timeslice", "--json"))["failed_calls"]
    assert (call["verb"], call["group"], call["code"]) == ("park", name, "ResourceInUseException")


def test_waiting_parks_and_wakes_a_stack_of_the_sandbox(raised: Raise) -> None:
    stack = raised("timeslice", SECTIONS)
    assert "; 1 GPU node running" in says(stack, 0, "wait", "timeslice", "6h59m")
    assert says(stack, 0, "wait", "timeslice", "1m").endswith("; 0 GPU nodes running\n")
    woken = json.loads(says(stack, 0, "wait", "timeslice", "12h", "--json"))
    assert woken == {"schema_version": 1, "stack": "timeslice", "now": "2026-11-24T07:00:00+00:00", "gpu_nodes": 1}
    assert json.loads(says(stack, 0, "status", "timeslice", "--json"))["failed_calls"] == []


def test_the_section_can_be_added_and_removed(raised: Raise) -> None:
    stack = raised("timeslice", {"gpu-nodes": [POOL], "budget": SECTIONS["budget"]})
    stack.configure({"park": PARK})
    assert stack.comes_up().changed == {"create": {"tandem-parking"}}
    remove_schedule(stack)
    run = stack.comes_up()
    assert run.changed == {"delete": {"tandem-parking"}}
    assert run.warnings == ()
    move_clock(stack, BED)
    assert nodes(stack) == 1
    assert stack.findings().agree


def test_models_of_karpenter_are_parked_by_cron_jobs_and_karpenter_terminates_the_node(raised: Raise) -> None:
    stack = raised("karpenter", {"park": PARK})
    assert (nodes(stack), serving(stack)) == (1, 2)
    move_clock(stack, BED)
    assert (nodes(stack), serving(stack)) == (0, 0)
    for options in ((), ("--refresh",)):
        assert stack.comes_up(*options).changed == {}, options
    stack.configure({"models": [{"name": "llama2:7b", "context": 4096}, {"name": "mistral:7b", "context": 2048}]})
    stack.comes_up()
    stack.configure({"sharing": {"mode": "mps"}})
    stack.comes_up()
    assert (nodes(stack), serving(stack)) == (0, 0)
    move_clock(stack, RISE)
    assert (nodes(stack), serving(stack)) == (1, 2)
    run = stack.comes_up()
    assert run.operations["create"] == {PROOF}
    assert stack.comes_up().changed == {}
    assert (nodes(stack), serving(stack)) == (1, 2)
    stack.goes_down()


def test_a_parked_stack_whose_schedule_is_removed_stays_parked_until_a_refresh(raised: Raise) -> None:
    stack = raised("timeslice", SECTIONS)
    move_clock(stack, BED)
    remove_schedule(stack)
    [warning] = stack.comes_up().warnings
    assert "if its nodes do not start with this `up`, run `pulumi up --refresh`" in warning
    assert stack.comes_up().warnings == (), "only the `up` that removes the schedule knows of it"
    move_clock(stack, RISE)
    assert (nodes(stack), serving(stack)) == (0, 0)
    assert stack.comes_up("--refresh").changed == {"update": frozenset({GROUP})}
    assert (nodes(stack), serving(stack)) == (1, 2)


def test_a_group_that_gets_another_size_without_its_schedule_wakes(raised: Raise) -> None:
    stack = raised("timeslice", {**SECTIONS, "gpu-nodes": [{**POOL, "max": 2}]})
    move_clock(stack, BED)
    remove_schedule(stack)
    assert "if its nodes do not start with this `up`" in stack.comes_up().warnings[0]
    assert size(stack)["desiredSize"] == 1
    assert nodes(stack) == 1


def test_a_stack_that_was_changed_while_it_was_parked_wakes_without_its_schedule(raised: Raise) -> None:
    stack = raised("timeslice", SECTIONS)
    move_clock(stack, BED)
    stack.configure({"gpu-nodes": [{**POOL, "max": 2}]})
    stack.comes_up()
    remove_schedule(stack)
    assert stack.comes_up().warnings == ()
    assert (nodes(stack), serving(stack)) == (1, 2)


def test_parked_models_of_karpenter_whose_schedule_is_removed_stay_parked_and_up_names_the_command(
    raised: Raise,
) -> None:
    stack = raised("karpenter", {"park": PARK})
    move_clock(stack, BED)
    remove_schedule(stack)
    [warning] = stack.comes_up().warnings
    assert "run `kubectl --namespace ollama scale deployment llama2-7b mistral-7b --replicas=1`" in warning
    assert (nodes(stack), serving(stack)) == (0, 0)
