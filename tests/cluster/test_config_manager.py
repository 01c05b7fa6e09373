"""The real config-manager on the real API server: what it links, whom it signals, how often it crashes.

Build it from NVIDIA/k8s-device-plugin at the pinned version, `go build ./cmd/config-manager`, and put it on the PATH.
With TANDEM_WRITE_TRACES=1 the traces are written instead of compared.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.config_manager import PROGRAM, StrangerError, play
from tests.control_plane.running import ControlPlane

TRACES = Path(__file__).resolve().parents[1] / "sandbox" / "config_manager.json"
ATTEMPTS = 6
"""On a busy machine the node may be listed before the program first asks for the label, so that it begins with the
label's configuration now and then. Without a label there is no such race: those traces must come at once."""
SCENARIOS: list[dict[str, Any]] = json.loads(TRACES.read_text(encoding="utf-8"))["traces"]


@pytest.fixture(scope="module", autouse=True)
def program() -> None:
    if shutil.which(PROGRAM) is None:
        pytest.skip(f"`{PROGRAM}` of the device plugin is not on the PATH")


@pytest.mark.real_world(
    behaviour="config-manager starts with the default configuration whatever the node's label says, and never signals "
    "where there is no label.",
    source="k8s-device-plugin v0.20.0, cmd/config-manager/main.go, run",
)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=[one["name"] for one in SCENARIOS])
def test_the_traces_are_those_of_the_real_program(
    plane: ControlPlane, tmp_path: Path, scenario: dict[str, Any]
) -> None:
    races = scenario["label"] != "" and (scenario["label"] != scenario["default"] or len(scenario["steps"]) > 1)
    found = []
    for attempt in range(ATTEMPTS if races else 1):
        folder = tmp_path / f"{tmp_path.name[:40]}-{attempt}"
        try:
            played = list(play(plane, folder, scenario))
        except StrangerError:
            continue
        if os.environ.get("TANDEM_WRITE_TRACES"):
            write(scenario, played[0])
        found.append(played)
        if played == [{"events": scenario["events"], "link": scenario["link"]}] * scenario["nodes"]:
            return
    pytest.fail(f"the program never did what the trace says, but {found}")


def write(scenario: dict[str, Any], found: dict[str, Any]) -> None:
    """Puts what the program did into the scenario's trace."""
    scenario |= found
    whole = json.loads(TRACES.read_text(encoding="utf-8"))
    whole["traces"] = [scenario if one["name"] == scenario["name"] else one for one in whole["traces"]]
    TRACES.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
