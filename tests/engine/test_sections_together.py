"""Metrics, page, importance and a schedule in one stack on the real engine: none disturbs another, and all go."""

from typing import Any

from sandbox.world import World
from tests.engine.emulated import Raise
from tests.engine.test_importance import SECTIONS as PLACED
from tests.engine.test_importance import classes
from tests.engine.test_monitoring import CHARTS, RELEASE
from tests.engine.test_parking import PARK, call, nodes, serving
from tests.engine.test_ui import DEPLOYMENT, SECRET, UI

STEADY, REST = ({**pool, "instance-types": ["g4dn.xlarge"], "max": 1} for pool in PLACED["gpu-nodes"])


def test_metrics_page_importance_and_schedule_come_stay_parked_and_go(raised: Raise) -> None:
    sections = {"park": PARK, "ui": UI, "monitoring": {"store": "builtin"}, "gpu-nodes": [STEADY, REST]}
    stack = raised("timeslice", {**PLACED, **sections})

    def charts() -> set[str]:
        return {one.inputs["chart"] for one in stack.entities(RELEASE)} & CHARTS

    assert (charts(), len(stack.entities(DEPLOYMENT)), len(stack.entities(SECRET))) == (CHARTS, 1, 2)
    assert {*classes(stack)} == {"tandem-ollama-high", "tandem-ollama-normal", "tandem-ollama-low"}
    assert (nodes(stack), serving(stack)) == (2, 3)
    assert stack.comes_up().changed == {}, "nothing has changed"

    call(stack, "park")
    assert (nodes(stack), serving(stack)) == (0, 0)
    for options in ((), ("--refresh",)):
        assert stack.comes_up(*options).changed == {}, options
    # Page and metrics are on system nodes, so they change while no GPU node runs. Nothing waits for one.
    stack.configure({"ui": {"admin-email": "me@example.com"}})
    changed = stack.comes_up().changed
    assert ("tandem-ui-credentials" in changed["replace"], "tandem-ui-server" in changed["update"]) == (True, True)
    first, *others = PLACED["models"]
    on: list[dict[str, Any]] = [{"monitoring": {"store": "builtin"}}, {"ui": {**UI, "enabled": True}}]
    off: list[dict[str, Any]] = [{"monitoring": {"store": "none"}}, {"ui": {"enabled": False}}]
    for change in [{"models": [{**first, "context": 1024}, *others]}, *off, *on]:
        stack.configure(change)
        assert stack.comes_up().changed != {}, change
        assert (nodes(stack), serving(stack)) == (0, 0), change
    assert stack.comes_up().changed == {}
    call(stack, "wake")
    assert (nodes(stack), serving(stack)) == (2, 3)
    proofs = stack.comes_up().operations["create"]
    assert proofs == {f"tandem-{pool['name']}-proof" for pool in (STEADY, REST)}
    assert serving(stack) == 3
    assert stack.comes_up().changed == {}
    assert stack.findings().agree

    stack.configure({"ui": {"enabled": False}, "monitoring": {"store": "none"}})
    gone = stack.comes_up().changed["delete"]
    assert gone == {"tandem-ui", "tandem-monitoring", "tandem-ollama-model-metrics"}
    assert (charts(), stack.entities(DEPLOYMENT), stack.entities(SECRET)) == (set(), [], [])
    stack.configure({"ui": {**UI, "enabled": True}, "monitoring": {"store": "builtin"}})
    stack.comes_up()
    stack.goes_down()
    assert stack.behind(World.entities) == []
