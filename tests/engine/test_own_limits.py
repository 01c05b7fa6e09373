"""Limits per model on a deployed stack. The nodes have an MPS daemon from their start, so a switch replaces them."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from sandbox.world import Event
from sandbox.world.controllers.user_data import mps_directory
from tests.engine.emulated import Raise, Stack
from tests.engine.switches import (
    CONFIGS,
    GROUP,
    JOB,
    JOBS,
    MODELS,
    NODE_GROUP,
    PLUGIN,
    RELEASE,
    TWO_NODES,
    VALUE,
    assert_no_mode_meets_another,
    in_order,
    journal,
)
from tests.sandbox.faults import Fault

STACK, OWN = "timeslice", "per-model"
ROUND = (OWN, "mps", OWN, "exclusive", OWN, STACK)
"""From timeslice to limits per model and back, by way of the two other modes."""
TEMPLATE = f"{GROUP}-template"
CLAIMS = frozenset(
    f"tandem-{of}-mps-daemon-{part}" for of in ("gpu-proof", "ollama") for part in ("claim", "persistent-volume")
)
"""How pods mount the daemon's directory."""
NAMESPACE = "tandem-gpu-proof-namespace"
DAEMON = "/run/tandem-mps"


def sharing(mode: str) -> dict[str, Any]:
    """The section `sharing` with this mode; `per-model` is MPS with limits per model."""
    return {"sharing": {"mode": "mps", "limits": OWN} if mode == OWN else {"mode": mode, "limits": "equal"}}


def daemons(stack: Stack) -> set[str]:
    """The directories of the MPS daemons of the GPU nodes; empty text for a node without one."""
    nodes = stack.entities("kubernetes:core/v1:Node")
    return {mps_directory(node) for node in nodes if "tandem/pool" in node.outputs["metadata"]["labels"]}


def assert_switched(stack: Stack, events: list[Event], mode: str) -> None:
    """The shares are proved before the first model starts, in the new mode, on new nodes, which run a daemon or not."""
    kinds = [event.kind for event in events]
    last_change = len(kinds) - 1 - kinds[::-1].index("mode")
    assert last_change < kinds.index("prove") < kinds.index("start")
    assert "prove" not in kinds[kinds.index("start") :]
    stopped, started = ([event for event in events if event.kind == kind] for kind in ("stop", "start"))
    assert sorted(event.who for event in stopped) == sorted(event.who for event in started)
    for event in started:
        assert event.who in {one.who for one in events[: events.index(event)] if one.kind == "stop"}
    assert {event.node for event in stopped}.isdisjoint(event.node for event in started)
    assert {event.config for event in events if event.kind in ("prove", "start")} == {CONFIGS[mode]}
    assert daemons(stack) == {DAEMON if mode == OWN else ""}


def test_the_first_up_proves_the_limits_on_a_node_with_the_daemon_before_a_model_starts(raised: Raise) -> None:
    stack = raised("mps", sharing(OWN))
    assert daemons(stack) == {DAEMON}
    assert in_order(journal(stack)) == ["mode", "prove", "start"]
    assert stack.comes_up().changed == {}
    stack.goes_down()


@pytest.mark.parametrize("replacement", ["create-first", "delete-first"])
def test_a_switch_to_or_from_limits_per_model_replaces_the_group_and_its_models_start_there(
    raised: Raise, replacement: str
) -> None:
    stack = raised(STACK, {**TWO_NODES, "gpu-nodes": {**TWO_NODES["gpu-nodes"], "replacement": replacement}})
    for earlier, mode in pairwise((STACK, *ROUND)):
        before = journal(stack)
        stack.configure(sharing(mode))
        run = stack.comes_up()
        level = set() if "mps" in (earlier, mode) else {NAMESPACE}
        assert run.changed == {
            "update": {TEMPLATE, PLUGIN, *MODELS, *level},
            "replace": {GROUP, *JOBS, VALUE},
            "create" if mode == OWN else "delete": CLAIMS,
        }
        events = journal(stack)[len(before) :]
        assert_switched(stack, events, mode)
        if replacement == "delete-first":
            assert in_order(events) == ["stop", "mode", "prove", "start"]
        assert [entity.status for entity in stack.entities(NODE_GROUP, GROUP)] == [""]
        assert stack.findings().agree
    stack.goes_down()


def test_on_karpenter_a_switch_to_and_from_limits_per_model_replaces_the_pool(raised: Raise) -> None:
    stack = raised("karpenter")
    for mode in (OWN, "mps", OWN, STACK):
        before = journal(stack)
        stack.configure(sharing(mode))
        run = stack.comes_up()
        assert run.operations["replace"] == {"tandem-karpenter-gpu-pool", *JOBS, VALUE}
        assert "tandem-karpenter-gpu-class" in run.operations["update"]
        events = journal(stack)[len(before) :]
        assert in_order(events) == ["stop", "mode", "prove", "start"]
        assert_switched(stack, events, mode)
        assert stack.findings().agree
    stack.goes_down()


def test_more_replicas_keep_the_nodes_and_their_daemon(raised: Raise) -> None:
    stack = raised("mps", sharing(OWN))
    before = journal(stack)
    stack.configure({"sharing": {"replicas": 3}})
    assert stack.comes_up().changed == {"update": {GROUP, PLUGIN, *MODELS}, "replace": {*JOBS, VALUE}}
    events = journal(stack)[len(before) :]
    assert in_order(events) == ["stop", "mode", "prove", "start"]
    assert len({event.node for event in events}) == 1
    assert daemons(stack) == {DAEMON}


def test_without_a_proof_models_still_start_on_new_nodes_in_the_new_mode(raised: Raise) -> None:
    stack = raised(STACK, {"proof": False})
    for mode in (OWN, "mps"):
        before = journal(stack)
        stack.configure(sharing(mode))
        stack.comes_up()
        events = journal(stack)[len(before) :]
        starts = [event for event in events if event.kind == "start"]
        assert {event.config for event in starts} == {CONFIGS[mode]}
        assert {event.node for event in starts}.isdisjoint(event.node for event in events if event.kind == "stop")
        assert daemons(stack) == {DAEMON if mode == OWN else ""}


def fails(operation: Any, kind: Any = "error") -> Fault:
    """A fault of the node group."""
    return Fault(type=NODE_GROUP, operation=operation, name=GROUP, kind=kind)


FAILING = {
    "the new group gets no capacity": (STACK, OWN, fails("create", "failed")),
    "the new group is refused": (OWN, "mps", fails("create")),
    "the lost answer to the plugin's update": (
        "mps",
        OWN,
        Fault(type=RELEASE, operation="update", name=PLUGIN, kind="lost"),
    ),
    "the proof of the shares": (OWN, STACK, Fault(type=JOB, operation="create", name=max(JOBS))),
    "the lost answer to a model's update": (
        "mps",
        OWN,
        Fault(type=RELEASE, operation="update", name=min(MODELS), kind="lost"),
    ),
    "the old group's deletion": (STACK, OWN, fails("delete")),
    "the lost answer to that": (OWN, "mps", fails("delete", "lost")),
}
"""The switch, and the fault that stops it."""


@pytest.mark.parametrize("step", FAILING)
def test_a_switch_of_nodes_that_failed_half_way_is_finished_or_taken_back_by_the_next_up(
    raised: Raise, step: str, tmp_path: Path
) -> None:
    old, new, fault = FAILING[step]
    stack = raised("mps", sharing(old))
    before = journal(stack)
    stack.configure(sharing(new))
    stack.stops(faults=(fault,))
    assert stack.fired == 1
    for attempt, then in ((stack.copied_to(tmp_path), new), (stack, old)):
        attempt.configure(sharing(then))
        attempt.comes_up()
        whole = journal(attempt)[len(before) :]
        assert_no_mode_meets_another(whole)
        ends = [event for event in whole if event.kind == "start"][-2:]
        assert {event.config for event in ends} == {CONFIGS[then]}
        assert daemons(attempt) == {DAEMON if then == OWN else ""}
        assert attempt.findings().agree


def test_a_quota_for_two_nodes_takes_a_switch_back_by_delete_first_or_by_parking(raised: Raise, tmp_path: Path) -> None:
    """The old group runs until an `up` succeeds, and so does the new one whose proof failed: there is no third node."""
    stack = raised(STACK)
    stack.behind(lambda world: world.allow_vcpus("L-3819A6DF", 2 * 4))
    stack.configure(sharing(OWN))
    stack.stops(faults=(Fault(type=JOB, operation="create", name=max(JOBS)),))
    other = stack.copied_to(tmp_path)
    other.configure({**sharing(STACK), "gpu-nodes": {"replacement": "delete-first"}})
    other.comes_up()
    stack.configure(sharing(STACK))
    stack.stops(saying="MaxSpotInstanceCountExceeded")
    for desired in (0, 1):
        stack.configure({"gpu-nodes": {"desired": desired}})
        stack.comes_up()
    for each in (other, stack):
        assert ([entity.status for entity in each.entities(NODE_GROUP, GROUP)], daemons(each)) == ([""], {""})
        assert each.findings().agree
