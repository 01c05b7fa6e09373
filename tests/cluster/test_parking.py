"""`tandem park` and `tandem wake` of Karpenter's pools, with a real API server, Job controller and scheduler.

KWOK ends a Job's pod successfully. What its script does is tested in tests/components/test_scheduled_parking.py.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox.graph import Graph, plain
from tandem.main import main
from tests.cluster.deployment import Deployment, manifests
from tests.cluster.nodes import nodes
from tests.program.conftest import graph_with

ROOT = Path(__file__).parents[2]
SECTIONS: dict[str, Any] = {
    "gpu-nodes": {"provisioner": "karpenter", "instance-types": ["g4dn.xlarge"], "max": 1},
    "park": {"schedule": "0 20 * * MON-FRI", "wake": "0 8 * * MON-FRI"},
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    values = yaml.safe_load((ROOT / "Pulumi.timeslice.yaml").read_text(encoding="utf-8"))
    values["config"] |= {f"tandem:{name}": content for name, content in SECTIONS.items()}
    path = tmp_path / "Pulumi.timeslice.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    return path


def apply_schedule(cluster: Deployment) -> Graph:
    """Applies the CronJobs of the schedule and what they need; returns the graph of their stack."""
    graph = graph_with("timeslice", SECTIONS)
    for manifest in manifests(graph):
        if manifest["metadata"].get("namespace") == "ollama" or manifest["kind"] == "Namespace":
            cluster.api.apply(manifest)
    return graph


@pytest.mark.parametrize("verb", ["park", "wake"])
def test_the_job_of_the_schedule_runs_now_and_is_cleaned_up_with_its_cron_job(
    cluster: Deployment, file: Path, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = apply_schedule(cluster)
    for node in nodes(graph):
        cluster.join(node)
    assert main([verb, str(file), "--kubeconfig", str(cluster.plane.kubeconfig), "--json"]) == 0
    name = json.loads(capsys.readouterr().out)["job"]
    job = cluster.api.get("batch/v1", "Job", name, "ollama")
    assert job is not None
    assert job["status"]["succeeded"] == 1
    [cron_job] = [
        one for one in cluster.api.list("batch/v1", "CronJob", "ollama") if one["metadata"]["name"].endswith(verb)
    ]
    [owner] = job["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (cron_job["metadata"]["uid"], True)
    [declared] = [
        plain(resource.inputs)
        for resource in graph.of_type("kubernetes:batch/v1:CronJob")
        if resource.name.endswith(verb)
    ]
    [container] = job["spec"]["template"]["spec"]["containers"]
    [expected] = declared["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["env"]) == (expected["image"], expected["env"])
