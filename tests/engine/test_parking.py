"""A stack with the section `park`: while it is parked, no `up` wakes it or waits. After the wake, all takes effect."""

import json
from typing import Any

import pytest
import yaml

from tests.engine.emulated import Raise, Stack
from tests.engine.test_switch import MODELS, PLUGIN, in_order, journal
from tests.sandbox.outside import Outside

PARK = {"schedule": "0 20 * * MON-FRI", "wake": "0 8 * * MON-FRI", "timezone": "Europe/Paris"}
POOL = {"name": "gpu", "instance-types": ["g4dn.xlarge"], "capacity": "spot", "max": 1}
SECTIONS: dict[str, Any] = {"park": PARK, "gpu-nodes": [POOL], "budget": {"max-usd-per-hour": 9.0}}
GROUP, VALUE, PROOF = "tandem-gpu-group", "tandem-gpu-mode", "tandem-gpu-proof"
NODE_GROUP, POD, INSTANCE = "aws:eks/nodeGroup:NodeGroup", "kubernetes:core/v1:Pod", "aws:ec2/instance:Instance"

SCHEDULE = "aws:scheduler/schedule:Schedule"


def call(stack: Stack, verb: str) -> None:
    """Makes the calls of the schedules with this verb, `park` or `wake`."""
    calls = [json.loads(one.inputs["target"]["input"]) for one in stack.entities(SCHEDULE) if one.name.endswith(verb)]

    def make(world: Outside) -> None:
        for asked in calls:
            sizes = {f"{key[0].lower()}{key[1:]}": size for key, size in asked["ScalingConfig"].items()}
            world.resize(f"{asked['ClusterName']}:{asked['NodegroupName']}", sizes)

    stack.behind(make)


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
    call(stack, "park")
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
    call(stack, "wake")
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
    call(stack, "park")
    assert stack.comes_up("--refresh").changed == {}
    call(stack, "wake")
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
    call(stack, "park")
    stack.goes_down()


def test_the_section_can_be_added_and_removed(raised: Raise) -> None:
    stack = raised("timeslice", {"gpu-nodes": [POOL], "budget": SECTIONS["budget"]})
    stack.configure({"park": PARK})
    assert stack.comes_up().changed == {"create": {"tandem-parking"}}
    remove_schedule(stack)
    run = stack.comes_up()
    assert run.changed == {"delete": {"tandem-parking"}}
    assert run.warnings == ()
    assert stack.findings().agree


def test_cron_jobs_for_models_of_karpenter_come_and_go(raised: Raise) -> None:
    """tests/cluster/test_parking.py runs them."""
    stack = raised("karpenter", {"park": PARK})
    assert (nodes(stack), serving(stack)) == (1, 2)
    for options in ((), ("--refresh",)):
        assert stack.comes_up(*options).changed == {}, options
    stack.goes_down()


def test_a_parked_stack_whose_schedule_is_removed_stays_parked_until_a_refresh(raised: Raise) -> None:
    stack = raised("timeslice", SECTIONS)
    call(stack, "park")
    remove_schedule(stack)
    [warning] = stack.comes_up().warnings
    assert "if its nodes do not start with this `up`, run `pulumi up --refresh`" in warning
    assert stack.comes_up().warnings == (), "only the `up` that removes the schedule knows of it"
    assert (nodes(stack), serving(stack)) == (0, 0)
    assert stack.comes_up("--refresh").changed == {"update": frozenset({GROUP})}
    assert (nodes(stack), serving(stack)) == (1, 2)


def test_a_group_that_gets_another_size_without_its_schedule_wakes(raised: Raise) -> None:
    stack = raised("timeslice", {**SECTIONS, "gpu-nodes": [{**POOL, "max": 2}]})
    call(stack, "park")
    remove_schedule(stack)
    assert "if its nodes do not start with this `up`" in stack.comes_up().warnings[0]
    assert size(stack)["desiredSize"] == 1
    assert nodes(stack) == 1


def test_a_stack_that_was_changed_while_it_was_parked_wakes_without_its_schedule(raised: Raise) -> None:
    stack = raised("timeslice", SECTIONS)
    call(stack, "park")
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
            for instance in entities.of(INSTANCE):
                if instance.made_by == "karpenter":
                    entities.remove(instance)

    stack = raised("karpenter", {"park": PARK})
    stack.behind(park)
    remove_schedule(stack)
    [warning] = stack.comes_up().warnings
    assert "run `kubectl --namespace ollama scale deployment llama2-7b mistral-7b --replicas=1`" in warning
