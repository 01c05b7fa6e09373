"""The real GPU Operator on the real API server: the labels that it writes, and the nodes on which its pods run.

Build it from NVIDIA/gpu-operator at the pinned version, `go build ./cmd/gpu-operator`, and put it on the PATH. It reads
its manifests where its image has them: copy `assets/*` and `manifests` to that folder. The chart comes from NVIDIA's
repository, or from `--charts FOLDER`.
"""

import json
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sandbox.graph import Graph
from tests.cluster.charts import Render
from tests.cluster.deployment import Deployment
from tests.cluster.gpu_operator import PROGRAM, Operated
from tests.program.conftest import graph_with

ROOT = Path(__file__).resolve().parents[2]
TRACES = ROOT / "tests" / "sandbox" / "gpu_operator.json"
MANIFESTS = Path("/opt/gpu-operator")
"""Where the operator looks for its manifests (gpu-operator v26.7.0, controllers/state_manager.go, addState)."""
SELECTORS: dict[str, dict[str, str]] = json.loads(TRACES.read_text(encoding="utf-8"))["selectors"]
SCENARIOS: list[dict[str, Any]] = json.loads(TRACES.read_text(encoding="utf-8"))["traces"]
POOLS = {
    "gpu-nodes": [
        {"name": "whole", "instance-types": ["g4dn.xlarge"], "sharing": {"mode": "timeslice", "replicas": 2}},
        {
            "name": "cut",
            "instance-types": ["g7e.2xlarge"],
            "sharing": {"mode": "mig", "strategy": "single", "layout": "all-1g.24gb"},
        },
    ],
    "models": [
        {"name": "llama3.2:1b", "context": 2048, "pool": "whole"},
        {"name": "llama2:7b", "context": 2048, "pool": "cut"},
    ],
    "budget": {"max-usd-per-hour": 9.0},
}
pytestmark = [
    pytest.mark.skipif(shutil.which(PROGRAM) is None, reason=f"`{PROGRAM}` is not on the PATH"),
    pytest.mark.skipif(not MANIFESTS.is_dir(), reason=f"`{PROGRAM}` has no manifests: {MANIFESTS} is not there"),
]


@pytest.fixture(scope="module")
def graph() -> Graph:
    """A pool with entire GPUs and one with MIG."""
    return graph_with("timeslice", POOLS)


@pytest.mark.real_world(
    behaviour="The GPU Operator makes no pod for a node labelled `nvidia.com/gpu.deploy.operands: false`, whether it "
    "or feature discovery comes first; it rewrites `nvidia.com/gpu.present`.",
    source="gpu-operator v26.7.0, controllers/nodelabeling_controller.go, labelGPUNodes, run",
)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=[one["name"] for one in SCENARIOS])
def test_the_traces_are_those_of_the_real_operator(
    cluster: Deployment, graph: Graph, render: Render, scenario: dict[str, Any]
) -> None:
    with ExitStack() as running:
        operated = Operated(cluster, graph, render, running, unlabelled=scenario["unlabelled"])
        for step, seen in zip(scenario["steps"], scenario["seen"], strict=True):
            operated.take(step)
            operated.wait_for(seen)
        assert operated.history() == scenario["ever"]
        assert operated.selectors() == SELECTORS
        cluster.wait_for("the operator was ready", operated.is_ready)
