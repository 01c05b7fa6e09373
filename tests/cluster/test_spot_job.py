"""SpotJob on a real control plane: evictions through its API, a node that is lost, failures, and suspension.

The test plays the kubelet: it reports how each pod ends.
"""

import datetime

import pytest

from components import SpotJob, SpotJobArgs
from sandbox.preview.program import run
from sharing.modes.base import GPU_RESOURCE
from tests.cluster.deployment import Deployment, Graphs, Object, manifests
from tests.cluster.nodes import nodes
from tests.cluster.test_importance import apply, pair
from tests.cluster.test_placement import GPU_NODE
from tests.control_plane.running import HELD

NAME = "train"
ARGS = SpotJobArgs(image="example.com/train:1", command=["python", "train.py"], retries=1)
INTERRUPTIONS = 5
LONGEST_DELAY = datetime.timedelta(minutes=10)


class Job:
    """The Job and its only pod, whose fate the test decides."""

    def __init__(self, cluster: Deployment, args: SpotJobArgs) -> None:
        self._cluster = cluster
        for one in manifests(run(lambda: SpotJob(NAME, args), project="test", stack="test")):
            if one["kind"] == "Job":
                template = one["spec"]["template"]
                template["metadata"] = {**template.get("metadata", {}), "annotations": HELD}
            cluster.api.apply(one)
        self.uids: list[str] = []

    @property
    def path(self) -> str:
        return f"/apis/batch/v1/namespaces/{NAME}/jobs/{NAME}"

    def status(self) -> Object:
        found: Object = self._cluster.api.call("GET", self.path)["status"]
        return found

    def conditions(self) -> dict[str, str]:
        """The reasons of the conditions that are true."""
        return {
            condition["type"]: condition.get("reason", "")
            for condition in self.status().get("conditions", [])
            if condition["status"] == "True"
        }

    def wait_for_pod(self) -> Object:
        """The next pod, once the scheduler has placed it; no other pod runs."""

        def placed() -> list[Object]:
            return [
                pod
                for pod in self._cluster.pods(NAME)
                if pod["metadata"]["uid"] not in self.uids and "nodeName" in pod["spec"]
            ]

        [pod] = self._cluster.wait_for("the pod was placed", placed)
        self.uids.append(pod["metadata"]["uid"])
        self._report(pod, "Running")
        return pod

    def evict(self, pod: Object) -> None:
        """Evicts the pod as a drain does, and reports the end of its program."""
        name = pod["metadata"]["name"]
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": NAME}}
        self._cluster.api.call("POST", f"{self._path_of(pod)}/eviction", eviction)
        assert len(self._cluster.api.list("v1", "Pod", NAME)) == 1, "the next pod waits for the end of this one"
        self.ends(pod, 143)

    def ends(self, pod: Object, code: int) -> None:
        """Reports the exit code of the pod's program; removes the pod if it is being deleted."""
        # Long ago: the Job controller waits after each end, also of a pod that it ignores
        # (kubernetes v1.36 pkg/controller/job/backoff_utils.go, newBackoffRecord, MaxJobPodFailureBackOff).
        ended = datetime.datetime.now(datetime.UTC) - LONGEST_DELAY
        terminated = {
            "exitCode": code,
            "reason": "Completed" if code == 0 else "Error",
            "finishedAt": f"{ended:%Y-%m-%dT%H:%M:%SZ}",
        }
        containers = [container["name"] for container in pod["spec"]["containers"]]
        states = [{"name": name, "image": "", "imageID": "", "ready": False, "restartCount": 0} for name in containers]
        self._report(
            pod,
            "Failed" if code else "Succeeded",
            containerStatuses=[{**state, "state": {"terminated": terminated}} for state in states],
        )
        found = self._cluster.api.get("v1", "Pod", pod["metadata"]["name"], NAME)
        if found and "deletionTimestamp" in found["metadata"]:
            self._cluster.api.call("DELETE", self._path_of(pod), gracePeriodSeconds="0")

    def _report(self, pod: Object, phase: str, **status: object) -> None:
        self._cluster.api.patch(f"{self._path_of(pod)}/status", {"status": {"phase": phase, **status}})

    def _path_of(self, pod: Object) -> str:
        return f"/api/v1/namespaces/{NAME}/pods/{pod['metadata']['name']}"


@pytest.fixture
def ready(cluster: Deployment, graphs: Graphs) -> Deployment:
    """A cluster with the nodes of the stack `timeslice`."""
    for one in nodes(graphs("timeslice")):
        cluster.join(one)
    cluster.wait_for_nodes(GPU_NODE)
    return cluster


def test_a_job_that_is_evicted_five_times_completes_and_never_failed(ready: Deployment) -> None:
    job = Job(ready, ARGS)
    for _ in range(INTERRUPTIONS):
        job.evict(job.wait_for_pod())
    last = job.wait_for_pod()
    assert (job.status()["active"], job.status().get("failed", 0)) == (1, 0)
    assert last["spec"]["nodeName"] == GPU_NODE
    assert last["spec"]["containers"][0]["resources"]["limits"][GPU_RESOURCE] == "1"
    job.ends(last, 0)
    ready.wait_for("the Job was complete", lambda: "Complete" in job.conditions())
    assert (job.status()["succeeded"], len(job.uids)) == (1, INTERRUPTIONS + 1)


@pytest.mark.real_world(
    behaviour="The Job controller counts a pod that `kubectl delete pod` ended as failed, unless a rule on its exit "
    "code ignores it",
    source="kubernetes v1.36 pkg/controller/job/job_controller.go, isPodFailed",
)
def test_a_deleted_pod_that_saved_its_checkpoint_is_no_failure(ready: Deployment) -> None:
    job = Job(ready, ARGS)
    for _ in range(ARGS.retries + 1):
        pod = job.wait_for_pod()
        ready.api.call("DELETE", f"/api/v1/namespaces/{NAME}/pods/{pod['metadata']['name']}")
        job.ends(pod, 143)
    job.wait_for_pod()
    assert job.status().get("failed", 0) == 0


def test_a_job_waits_for_a_free_share_beside_less_important_models(ready: Deployment) -> None:
    for release in apply(ready, pair(one="normal", two="low")).values():
        ready.install(release)
    ready.wait_for_models("one", "two")
    before = {one["metadata"]["uid"] for one in ready.pods("ollama")}
    job = Job(ready, ARGS)
    ready.wait_until_unplaced(NAME, lambda pod: True, "not eligible due to preemptionPolicy=Never")
    assert {one["metadata"]["uid"] for one in ready.pods("ollama")} == before
    ready.offer(GPU_NODE, GPU_RESOURCE, 3)
    job.ends(job.wait_for_pod(), 0)
    ready.wait_for("the Job was complete", lambda: "Complete" in job.conditions())


def is_being_deleted(cluster: Deployment, pod: Object) -> bool:
    return "deletionTimestamp" in (cluster.api.get("v1", "Pod", pod["metadata"]["name"], NAME) or pod)["metadata"]


def test_a_job_in_a_queue_has_no_pod_until_it_is_admitted_and_survives_its_preemption(ready: Deployment) -> None:
    """Kueue admits a Job by setting `suspend` to false, and preempts it by setting it to true."""
    job = Job(ready, SpotJobArgs(image=ARGS.image, command=ARGS.command, retries=0, queue="rest"))
    ready.wait_for("the Job was suspended", lambda: "Suspended" in job.conditions())
    assert ready.api.list("v1", "Pod", NAME) == []
    ready.api.patch(job.path, {"spec": {"suspend": False}})
    first = job.wait_for_pod()
    ready.api.patch(job.path, {"spec": {"suspend": True}})
    ready.wait_for("the pod was being deleted", lambda: is_being_deleted(ready, first))
    job.ends(first, 143)
    ready.api.patch(job.path, {"spec": {"suspend": False}})
    job.ends(job.wait_for_pod(), 0)
    ready.wait_for("the Job was complete", lambda: "Complete" in job.conditions())
    assert job.status().get("failed", 0) == 0
