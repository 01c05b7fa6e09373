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
from sharing.modes.modes import GPU_RESOURCE, Mps
from sharing.names import MODE_TAINT, tolerations
from tests.cluster.deployment import Deployment, Graphs, Object, is_ready, manifests
from tests.cluster.nodes import nodes
from tests.cluster.test_placement import GPU_NODE, NO_SHARE_LEFT, place_of, pod
from tests.components.node_reader import read_node
from tests.control_plane.api import ApiError
from tests.control_plane.running import HELD

NAMESPACE = "share-proof"
T4 = gpus()["t4"]
ARGS = ShareProofArgs(sharing=Mps(replicas=4), gpu=T4)
EXPECTED = expectations(ARGS.sharing, T4, ARGS.gpus_per_node)
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
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


def test_fewer_shares_than_expected_fail_the_job_in_time_and_say_why(start: Start) -> None:
    job = start(2, activeDeadlineSeconds=4)
    said: set[str] = set()

    def two_wait() -> bool:
        for one in job.pods():
            for condition in one.get("status", {}).get("conditions", []):
                said.add(condition.get("message", ""))
        return len(job.running()) == 2 and len(job.pods()) == 4

    ended = job.wait(two_wait)
    assert (ended["type"], ended["reason"]) == ("Failed", "DeadlineExceeded")
    assert any(NO_SHARE_LEFT in one for one in said)


def test_a_failed_job_does_not_try_again(start: Start) -> None:
    job = start(2)

    def one_gives_up() -> bool:
        running = job.running()
        for one in running[:1]:
            job.becomes("Failed", one)
        return bool(running)

    assert job.wait(one_gives_up)["reason"] == "BackoffLimitExceeded"


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


def test_without_its_failure_policy_an_interruption_fails_the_job(start: Start) -> None:
    job = start(4, podFailurePolicy=None)
    job.wait_until_placed()
    job.interrupt(job.pods()[0], "TerminationByKubelet")
    assert job.wait()["reason"] == "BackoffLimitExceeded"


def test_a_node_without_the_expected_share_gets_no_pod_of_the_proof(
    deployed: Deployment, graphs: Graphs, proof: list[Object]
) -> None:
    for one in nodes(graphs("mps"), desired=0):
        deployed.join(one)
    job = Kubelet(deployed, job_of(proof, "shares"))
    deployed.wait_until_unplaced(NAMESPACE, lambda one: one["metadata"]["labels"]["job-name"] == job.name)
    assert not any(one["spec"].get("nodeName") for one in job.pods())


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


def rights(cluster: Deployment, user: str) -> set[tuple[str, str]]:
    """The verbs and resources that a service account may use in all API groups of interest."""
    allowed = set()
    for version in ("v1", "apps/v1", "batch/v1", "rbac.authorization.k8s.io/v1"):
        group = version.rpartition("/")[0]
        root = f"/apis/{version}" if group else f"/api/{version}"
        for resource in cluster.api.call("GET", root)["resources"]:
            name, _, subresource = resource["name"].partition("/")
            for verb in VERBS:
                attributes = {
                    "verb": verb, "group": group, "resource": name, "subresource": subresource, "namespace": NAMESPACE
                }  # fmt: skip
                if _may(cluster, user, attributes):
                    allowed.add((verb, resource["name"]))
    return allowed


def _may(cluster: Deployment, user: str, attributes: dict[str, str]) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": user,
            "groups": ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated"],
            "resourceAttributes": attributes,
        },
    }
    answer = cluster.api.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


def test_the_reader_may_get_nodes_and_the_pods_on_shares_may_nothing(deployed: Deployment) -> None:
    deployed.wait_for(
        "the role was known", lambda: _may(deployed, READER, {"verb": "get", "group": "", "resource": "nodes"})
    )
    assert rights(deployed, READER) == {("get", "nodes")}
    assert rights(deployed, PROBER) == set()


def tolerating(name: str, *values: str) -> Object:
    """A pod that tolerates these modes."""
    return pod(name, tolerations=[one for value in values for one in tolerations(value)])


def test_a_change_of_the_mode_taint_evicts_the_pods_of_the_old_mode_and_lets_in_those_of_the_new(
    cluster: Deployment, graphs: Graphs
) -> None:
    gpu_nodes(cluster, graphs("mps"), 4)

    def taint(mode: str) -> None:
        cluster.taint(GPU_NODE, [{"key": MODE_TAINT, "value": mode, "effect": "NoExecute"}])

    taint("timeslice")
    cluster.api.apply(tolerating("old", "timeslice"))
    cluster.api.apply(tolerating("both", "timeslice", "mps"))
    cluster.api.apply(tolerating("new", "mps"))
    assert {place_of(cluster, "old"), place_of(cluster, "both")} == {GPU_NODE}
    assert "untolerated taint" in cluster.wait_until_unplaced("default", lambda one: one["metadata"]["name"] == "new")

    taint("mps")
    cluster.wait_for("the old pod to be deleted", lambda: cluster.api.get("v1", "Pod", "old") is None)
    assert place_of(cluster, "new") == GPU_NODE
    both = cluster.api.get("v1", "Pod", "both") or {}
    assert is_ready(both)
    with pytest.raises(ApiError, match="not found"):
        cluster.api.call("GET", "/api/v1/namespaces/default/pods/old")
