"""A switch of mode on a deployed stack: models stop, nodes change, shares are proved, models start, in this order."""

from itertools import pairwise
from pathlib import Path

import pytest

from sandbox.world import Event
from tests.engine.emulated import Raise, Run, Stack
from tests.engine.switches import (
    CONFIGS,
    GROUP,
    INSTANCE,
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
from tests.sandbox.outside import Outside

STACK = "timeslice"
ROUND = ("mps", "timeslice", "exclusive", "mps", "exclusive", "timeslice")
"""From timeslice through every ordered pair of the three modes, once."""


def switch(stack: Stack, mode: str, faults: tuple[Fault, ...] = ()) -> Run:
    """`pulumi config set --path tandem:sharing.mode MODE && pulumi up`, which succeeds if no faults are given."""
    stack.configure({"sharing": {"mode": mode}})
    return stack.up(faults=faults) if faults else stack.comes_up()


def assert_in_order(events: list[Event], config: str, models: int = 2) -> None:
    """Every model stops before any node has the new mode; then it is proved; then they start in it."""
    assert in_order(events) == ["stop", "mode", "prove", "start"], events
    stopped, started = ([event for event in events if event.kind == kind] for kind in ("stop", "start"))
    assert len(stopped) == len(started) == models
    assert {event.config for event in events if event.kind != "stop"} == {config}
    assert config not in {event.config for event in stopped}


def test_every_mode_switches_to_every_other_and_replaces_nothing_but_the_proof(raised: Raise) -> None:
    stack = raised(STACK, TWO_NODES)
    recycled = stack.recycled()
    for earlier, mode in pairwise((STACK, *ROUND)):
        before = journal(stack)
        run = switch(stack, mode)
        # Under MPS the proof has another user, and its namespace another Pod Security level.
        level = {"tandem-gpu-proof-namespace"} if "mps" in (earlier, mode) else set()
        assert run.changed == {"update": {GROUP, PLUGIN, *MODELS, *level}, "replace": {*JOBS, VALUE}}
        assert_in_order(journal(stack)[len(before) :], CONFIGS[mode])
        assert stack.recycled() == recycled
        assert stack.findings().agree


def test_without_a_proof_models_are_still_evicted_before_the_mode_changes(raised: Raise) -> None:
    stack = raised(STACK, {"proof": False})
    before = journal(stack)
    assert switch(stack, "mps").changed == {"update": {GROUP, PLUGIN, *MODELS}, "replace": {VALUE}}
    assert in_order(journal(stack)[len(before) :]) == ["stop", "mode", "start"]


FAILING = {
    "the node group's update": (Fault(type=NODE_GROUP, operation="update", name=GROUP), []),
    "the lost answer to it": (Fault(type=NODE_GROUP, operation="update", name=GROUP, kind="lost"), ["stop"]),
    "the plugin's update": (Fault(type=RELEASE, operation="update", name=PLUGIN), ["stop"]),
    "the lost answer to that": (
        Fault(type=RELEASE, operation="update", name=PLUGIN, kind="lost"),
        ["stop", "mode"],
    ),
    "the old proof's deletion": (Fault(type=JOB, operation="delete"), ["stop", "mode"]),
    "the proof of the shares": (Fault(type=JOB, operation="create", name=max(JOBS)), ["stop", "mode", "prove"]),
    "a model's update": (Fault(type=RELEASE, operation="update", name=min(MODELS)), None),
}
"""The fault, and the last step of the switch before it; None if chance decides that."""


@pytest.mark.parametrize("step", FAILING)
def test_a_switch_that_failed_half_way_is_finished_or_taken_back_by_the_next_up(
    raised: Raise, step: str, tmp_path: Path
) -> None:
    fault, so_far = FAILING[step]
    stack = raised(STACK)
    before = journal(stack)
    failed = switch(stack, "mps", faults=(fault,))
    assert (failed.code != 0, stack.fired) == (True, 1)
    half = journal(stack)[len(before) :]
    if so_far is not None:
        assert in_order(half) == so_far
    # A group whose update failed is replaced without the refresh: tests/engine/test_failed_groups.py.
    options = ["--refresh"] if fault.type == NODE_GROUP else []
    for attempt, then in ((stack.copied_to(tmp_path), "mps"), (stack, "timeslice")):
        attempt.configure({"sharing": {"mode": then}})
        run = attempt.comes_up(*options)
        assert not {GROUP, *MODELS} & run.operations["replace"]
        whole = journal(attempt)[len(before) :]
        assert_no_mode_meets_another(whole)
        ends = [event for event in whole if event.kind == "start"][-2:]
        assert {event.config for event in ends} == {CONFIGS[then]}
        assert attempt.findings().agree


def test_shares_that_are_not_there_fail_the_up_with_expectation_and_fact_and_no_model_starts(raised: Raise) -> None:
    stack = raised(STACK)
    before = journal(stack)

    def spoil(world: Outside) -> None:
        """Somebody uninstalls feature discovery, without which the MPS daemon finds no node."""
        [discovery] = [
            entity
            for entity in world.entities()
            if entity.type == RELEASE and entity.name == "tandem-sharing-discovery"
        ]
        world.forget(discovery.type, discovery.id)

    stack.behind(spoil)
    stack.configure({"sharing": {"mode": "mps"}})
    assert "advertises" in stack.stops(saying="expected: 2 shares")
    assert "start" not in in_order(journal(stack)[len(before) :])
    stack.comes_up("--refresh")
    assert in_order(journal(stack)[len(before) :])[-2:] == ["prove", "start"]


def test_a_switch_while_the_node_no_longer_exists_continues_with_the_next_one(raised: Raise) -> None:
    stack = raised(STACK)

    def reclaim(world: Outside) -> None:
        [gpu] = [
            entity
            for entity in world.entities()
            if entity.type == INSTANCE and entity.inputs["instanceType"] == "g4dn.xlarge"
        ]
        world.forget(gpu.type, gpu.id)

    stack.behind(reclaim)
    switch(stack, "mps")
    assert in_order(journal(stack))[-2:] == ["prove", "start"]
    assert stack.findings().agree


def test_a_switch_of_a_pair_that_is_broken_repairs_it(raised: Raise) -> None:
    stack = raised(STACK)
    stack.configure({"models": [{"name": "llama2:7b", "context": 4096}, {"name": "mistral:7b", "context": 2048}]})
    stack.stops(faults=(Fault(type=RELEASE, operation="update"),))
    switch(stack, "mps")
    assert in_order(journal(stack))[-4:] == ["stop", "mode", "prove", "start"]
    assert stack.findings().agree


def test_on_karpenter_the_node_goes_before_the_one_of_the_new_mode_comes(raised: Raise) -> None:
    stack = raised("karpenter")
    before = journal(stack)
    run = switch(stack, "mps")
    assert run.operations["replace"] == {"tandem-karpenter-gpu-pool", *JOBS, VALUE}
    events = journal(stack)[len(before) :]
    assert_in_order(events, "mps-2")
    [old], [new] = ({event.node for event in events if event.kind == kind} for kind in ("stop", "start"))
    assert old != new
    assert stack.findings().agree
