"""The share proof on a real control plane: its Jobs, its rights, and the taint with which a change of mode evicts."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from components import ShareProof, ShareProofArgs
from components.share_proof.expectation import expectations, node_expectation
from sandbox.graph import Graph
from sandbox.preview.program import run
from sharing.hardware.gpus import gpus
from sharing.modes.base import GPU_RESOURCE
from sharing.modes.modes import Mps
from tests.cluster.deployment import Deployment, Graphs, Object, manifests
from tests.cluster.nodes import nodes
from tests.cluster.test_placement import GPU_NODE
from tests.components.node_reader import read_node
from tests.control_plane.api import ApiError
from tests.control_plane.running import HELD

NAMESPACE = "share-proof"
T4 = gpus()["t4"]
ARGS = ShareProofArgs(sharing=Mps(replicas=4), gpu=T4)
EXPECTED = expectations(ARGS.sharing, T4, ARGS.gpus_per_node)
READER, PROBER = f"system:serviceaccount:{NAMESPACE}:node-prober", f"system:serviceaccount:{NAMESPACE}:share-prober"


@pytest.fixture(scope="module")
def proof() -> list[Object]:
    return manifests(run(lambda: ShareProof("proof", ARGS), project="test", stack="test"))


@pytest.fixture
def deployed(cluster: Deployment, proof: list[Object]) -> Deployment:
    """All objects of the proof except its Jobs."""
    for one in proof:
        if one["kind"] != "Job":
            cluster.api.apply(one)
    return cluster


def job_of(proof: list[Object], role: str) -> Object:
    [job] = [one for one in proof if one["kind"] == "Job" and one["metadata"]["name"].startswith(role)]
    return job


class Kubelet:
    """Runs a Job's pods like the real ones: each waits for the others, and ends with them."""

    def __init__(self, cluster: Deployment, job: Object, **spec: Any) -> None:
        self.cluster, self.name = cluster, job["metadata"]["name"]
        template = job["spec"]["template"]
        held = {**template, "metadata": {**template["metadata"], "annotations": HELD}}
        cluster.api.apply({**job, "spec": {**job["spec"], "template": held, **spec}})
        self._wanted = int(job["spec"]["completions"])

    def pods(self) -> list[Object]:
        return self.cluster.api.list("v1", "Pod", NAMESPACE, labelSelector=f"job-name={self.name}")

    def running(self) -> list[Object]:
        return [one for one in self.pods() if one["status"]["phase"] == "Running"]

    def run(self) -> None:
        """Updates the pods as one pass of kubelet does."""
        for one in self.pods():
            with suppress(ApiError):  # deleted since it was listed
                if "deletionTimestamp" in one["metadata"]:
                    self.cluster.api.call("DELETE", self._path(one), gracePeriodSeconds="0")
                elif one["spec"].get("nodeName") and one["status"]["phase"] == "Pending":
                    self.becomes("Running", one)
        if len(self.running()) == self._wanted:
            for one in self.running():
                self.becomes("Succeeded", one)

    def wait_until_placed(self) -> None:
        """Waits until all pods have a node."""
        self.cluster.wait_for("placed", lambda: sum("nodeName" in one["spec"] for one in self.pods()) == self._wanted)

    def condition(self) -> Object:
        """The condition that says how the Job ended, once it has ended."""
        job = self.cluster.api.get("batch/v1", "Job", self.name, NAMESPACE) or {}
        found = {
            condition["type"]: condition
            for condition in job.get("status", {}).get("conditions", [])
            if condition["status"] == "True"
        }
        ended: Object = found.get("Complete") or found.get("Failed") or {}
        return ended

    def wait(self, seen: Callable[[], bool] = lambda: True) -> Object:
        """Runs pods until the Job has ended and `seen` was true before that."""
        ever = False

        def ended() -> Object:
            nonlocal ever
            self.run()
            ever = ever or seen()
            return self.condition()

        condition = self.cluster.wait_for(f"Job {self.name} had ended", ended)
        assert ever
        return condition

    def _path(self, one: Object) -> str:
        return f"/api/v1/namespaces/{NAMESPACE}/pods/{one['metadata']['name']}"

    def interrupt(self, one: Object, reason: str) -> None:
        """Ends a pod, as the kubelet does when its node shuts down or the pod is evicted."""
        condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "interrupted"}
        self.becomes("Failed", one, conditions=[*one["status"].get("conditions", []), condition])

    def becomes(self, phase: str, one: Object, **status: Any) -> None:
        self.cluster.api.patch(f"{self._path(one)}/status", {"status": {"phase": phase, **status}})


def gpu_nodes(cluster: Deployment, graph: Graph, *shares: int) -> None:
    """Nodes of the GPU group, in the mode that is proved, that offer this many shares each."""
    config = ARGS.sharing.config_name
    made = [one for one in nodes(graph, desired=len(shares)) if one["metadata"]["name"].startswith("tandem-gpu-group")]
    for one, count in zip(made, shares, strict=True):
        one["spec"]["taints"][1]["value"] = config
        one["status"]["allocatable"][GPU_RESOURCE] = one["status"]["capacity"][GPU_RESOURCE] = str(count)
        cluster.join(one)
    cluster.wait_for_nodes(*(one["metadata"]["name"] for one in made))


Start = Callable[..., Kubelet]


@pytest.fixture
def start(deployed: Deployment, graphs: Graphs, proof: list[Object]) -> Start:
    """A function that makes nodes with this many shares each, and starts the Job whose pods hold one each."""

    def started(*shares: int, **spec: Any) -> Kubelet:
        gpu_nodes(deployed, graphs("mps"), *shares)
        return Kubelet(deployed, job_of(proof, "shares"), **spec)

    return started


def test_the_job_is_complete_once_all_pods_held_a_share_of_one_node_at_the_same_time(start: Start) -> None:
    job = start(4, 4)
    places: set[str] = set()

    def together() -> bool:
        on = [one["spec"].get("nodeName") for one in job.pods()]
        places.update(filter(None, on))
        return len(on) == 4 and all(on)

    assert job.wait(together)["type"] == "Complete"
    assert len(places) == 1
    # The judge has the name that the others look for.
    assert {one["spec"]["hostname"] for one in job.pods()} == {f"{job.name}-{index}" for index in range(4)}


def test_pods_do_not_spread_over_nodes_that_have_the_shares_only_together(start: Start) -> None:
    job = start(2, 2, activeDeadlineSeconds=4)
    assert job.wait(lambda: len(job.running()) == 2)["reason"] == "DeadlineExceeded"


@pytest.mark.real_world(
    behaviour="The Job controller replaces an interrupted pod under the same index, and counts no failure",
    source="kubernetes v1.36 pkg/controller/job/pod_failure_policy.go, matchPodFailurePolicy",
)
@pytest.mark.parametrize("reason", ["TerminationByKubelet", "EvictionByEvictionAPI"])
def test_an_interrupted_pod_comes_again_and_the_job_still_completes(start: Start, reason: str) -> None:
    job = start(4)
    job.wait_until_placed()
    [first] = [one for one in job.pods() if one["spec"]["hostname"] == f"{job.name}-1"]
    job.interrupt(first, reason)

    def replaced() -> bool:
        return any(
            one["spec"]["hostname"] == f"{job.name}-1" and one["metadata"]["uid"] != first["metadata"]["uid"]
            for one in job.pods()
        )

    assert job.wait(replaced)["type"] == "Complete"


def test_the_nodes_reader_runs_on_a_gpu_node_whose_shares_are_all_taken(
    deployed: Deployment, graphs: Graphs, proof: list[Object]
) -> None:
    gpu_nodes(deployed, graphs("mps"), 0)
    job = job_of(proof, "node")
    deployed.api.apply(job)

    def complete() -> bool:
        found = deployed.api.get("batch/v1", "Job", job["metadata"]["name"], NAMESPACE) or {}
        return bool(found.get("status", {}).get("succeeded") == 1)

    deployed.wait_for("the reader was done", complete)
    [one] = deployed.pods(NAMESPACE)
    assert one["spec"]["nodeName"] == GPU_NODE


@pytest.mark.parametrize(
    ("shares", "account", "status", "words"),
    [
        (4, "node-prober", 0, ['"allocatable": {"nvidia.com/gpu": "4"}']),
        (
            2,
            "node-prober",
            1,
            [
                "expected: 4 shares of nvidia.com/gpu on a node with 1 T4",
                "- it advertises 2 nvidia.com/gpu, expected 4",
                "- its label nvidia.com/gpu.replicas is 2, expected 4",
            ],
        ),
        (4, "share-prober", 1, [f'User "{PROBER}" cannot get resource "nodes"']),
    ],
    ids=["as expected", "too few", "without the right"],
)
def test_the_reader_names_what_it_expects_and_finds_with_the_rights_that_it_has(
    deployed: Deployment, graphs: Graphs, tmp_path: Path, shares: int, account: str, status: int, words: list[str]
) -> None:
    gpu_nodes(deployed, graphs("mps"), shares)
    # As feature discovery labels it.
    label = f"{GPU_RESOURCE}.sharing-strategy", f"{GPU_RESOURCE}.replicas"
    deployed.relabel(GPU_NODE, {label[0]: "mps", label[1]: str(shares), "nvidia.com/mps.capable": "true"})
    (tmp_path / "ca.crt").write_bytes(deployed.api.certificate.read_bytes())
    token, expected = deployed.token_of(account, NAMESPACE), node_expectation(ARGS.sharing, T4, EXPECTED)
    ended, text = read_node(tmp_path, deployed.api.url, GPU_NODE, expected, token=token, limit="1")
    assert ended == status, text
    assert [word for word in words if word not in text] == [], text
