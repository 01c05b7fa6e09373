"""The emulated config-manager does what the real one did: tests/cluster/test_config_manager.py wrote the traces."""

import json
from pathlib import Path
from typing import Any

import pytest

from sandbox.world.config_sidecar import ConfigSidecar

TRACES: list[dict[str, Any]] = json.loads(
    (Path(__file__).resolve().parents[1] / "config_manager.json").read_text(encoding="utf-8")
)["traces"]


@pytest.mark.parametrize("trace", TRACES, ids=[one["name"] for one in TRACES])
def test_the_emulation_reproduces_the_trace_of_the_real_program(trace: dict[str, Any]) -> None:
    manager = ConfigSidecar(trace["configs"], trace["default"], signals_found=trace["process"] == "found")
    label = trace["label"]
    for step in trace["steps"]:
        verb, _, value = step.partition(" ")
        if verb == "boot":
            assert manager.initialize()
            manager.start(label, process_runs=False)
        elif verb == "restart":
            manager.start(label, process_runs=True)
        else:
            label = value
            manager.change(label)
    assert (manager.events, manager.link) == (trace["events"], trace["link"])


def test_with_one_configuration_and_no_label_there_is_nothing_to_signal_and_nothing_crashes() -> None:
    found = [one for one in TRACES if len(one["configs"]) == 1]
    assert len(found) >= 5
    assert {one["nodes"] for one in found} == {1, 2}
    for trace in found:
        assert trace["events"] == [f"link {trace['default']}"]
