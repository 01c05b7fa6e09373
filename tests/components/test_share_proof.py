"""The Jobs of a share proof, and the changes that repeat it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from components import ShareProof, ShareProofArgs
from components.share_proof.expectation import MOST_PODS, expectations, fingerprint
from sandbox.graph import Graph, plain
from sandbox.preview.program import run
from sharing.hardware.gpus import gpus
from sharing.modes.modes import Exclusive, Mig, Mps, Sharing, TimeSlicing

JOB = "kubernetes:batch/v1:Job"
T4 = gpus()["t4"]


def args(sharing: Sharing | None = None, **changed: Any) -> ShareProofArgs:
    return ShareProofArgs(**{"sharing": sharing or Mps(replicas=4), "gpu": T4, **changed})


def graph_of(given: ShareProofArgs) -> Graph:
    return run(lambda: ShareProof("proof", given), project="test", stack="test")


def jobs(given: ShareProofArgs) -> dict[str, dict[str, Any]]:
    """The Jobs of a proof by name."""
    inputs = [plain(resource.inputs) for resource in graph_of(given).of_type(JOB)]
    return {one["metadata"]["name"]: one for one in inputs}


def of_shares(given: ShareProofArgs) -> dict[str, Any]:
    [job] = [one for name, one in jobs(given).items() if name.startswith("shares-")]
    return job


def of_node(given: ShareProofArgs) -> dict[str, Any]:
    [job] = [one for name, one in jobs(given).items() if name.startswith("node-")]
    return job


def pod_of(job: dict[str, Any]) -> dict[str, Any]:
    pod: dict[str, Any] = job["spec"]["template"]["spec"]
    return pod


def environment(job: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in pod_of(job)["containers"][0]["env"]}


@pytest.mark.parametrize(
    ("sharing", "count", "pods", "summary"),
    [
        (Exclusive(), 1, 1, "1 share of nvidia.com/gpu on a node with 1 T4: one entire GPU each"),
        (Exclusive(), 4, 4, "4 shares of nvidia.com/gpu on a node with 4 T4: one entire GPU each"),
        (TimeSlicing(replicas=3), 2, 6, "6 shares of nvidia.com/gpu on a node with 2 T4: 3 per GPU, all of its memory"),
        (
            Mps(replicas=4),
            1,
            4,
            "4 shares of nvidia.com/gpu on a node with 1 T4: 4 per GPU, 3,840 MiB each, enforced",
        ),
        (TimeSlicing(replicas=40), 1, MOST_PODS, "40 shares of nvidia.com/gpu on a node with 1 T4: 40 per GPU"),
    ],
)
def test_each_share_has_a_pod_up_to_a_maximum(sharing: Sharing, count: int, pods: int, summary: str) -> None:
    [expected] = expectations(sharing, T4, count)
    to_pods = expected.to_pods()
    assert (expected.pods, to_pods.pods) == (pods, pods)
    assert to_pods.summary.startswith(summary)


@pytest.mark.real_world(
    behaviour="Pulumi recognizes a failed Job only by the reasons BackoffLimitExceeded and DeadlineExceeded",
    source="pulumi-kubernetes provider/pkg/await/checker/job/check.go, collectJobConditionErrors",
)
@pytest.mark.parametrize("job_of", [of_shares, of_node])
def test_an_interrupted_pod_is_replaced_and_every_failure_has_a_reason_that_pulumi_knows(
    job_of: Callable[[ShareProofArgs], dict[str, Any]],
) -> None:
    job = job_of(args())
    [rule] = job["spec"]["podFailurePolicy"]["rules"]
    assert rule == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    # Kubernetes rejects a podFailurePolicy with any other restart policy.
    assert pod_of(job)["restartPolicy"] == "Never"


def seconds(timeout: str) -> int:
    assert timeout.endswith("m")
    return int(timeout[:-1]) * 60


SLICED = args(Mig(), gpu=gpus()["rtx-pro-server-6000"])


@pytest.mark.parametrize("given", [args(), SLICED], ids=["entire", "partitioned"])
def test_each_timeout_is_longer_than_the_ones_inside_it(given: ShareProofArgs) -> None:
    settings, deadline = environment(of_shares(given)), of_shares(given)["spec"]["activeDeadlineSeconds"]
    step, start, back = (float(settings[f"{name}_SECONDS"]) for name in ("STEP", "LIMIT", "BACK"))
    # The MPS daemon's pod has Kubernetes' default grace period of 30 seconds to stop.
    exclusive = float(environment(of_shares(args(TimeSlicing())))["EXCLUSIVE_SECONDS"])
    assert 30 < exclusive < step
    # Three questions and a verdict; all of them again after one pod was interrupted and replaced.
    attempt = start + 4 * step
    pod = start + 4 * step + back + 4 * step
    assert back > 600, "a new spot node starts within ten minutes"
    assert attempt < pod < deadline
    for job in graph_of(given).of_type(JOB):
        deadline = plain(job.inputs)["spec"]["activeDeadlineSeconds"]
        assert deadline + 120 < seconds(job.options["customTimeouts"]["create"])
    reads, deadline = environment(of_node(given)), of_node(given)["spec"]["activeDeadlineSeconds"]
    # The node starts and is read, is interrupted, is replaced and read again.
    assert 2 * (600 + float(reads["LIMIT_SECONDS"])) < deadline


@pytest.mark.real_world(
    behaviour="The MIG manager labels a node `nvidia.com/mig.config.state=success` once its GPUs are partitioned",
    source="mig-parted v0.15.0 pkg/mig/reconfigure/reconfigure.go, setState",
)
def test_no_pod_of_the_proof_runs_on_a_node_that_is_not_partitioned_yet() -> None:
    for job_of in (of_node, of_shares):
        assert pod_of(job_of(SLICED))["nodeSelector"]["nvidia.com/mig.config.state"] == "success"
        assert "nvidia.com/mig.config.state" not in pod_of(job_of(args()))["nodeSelector"]


@pytest.mark.parametrize(
    "changed",
    [
        args(TimeSlicing(replicas=4)),
        args(Exclusive()),
        args(Mps(replicas=2)),
        args(gpu=gpus()["l4"]),
        args(gpus_per_node=4),
    ],
)
def test_the_jobs_are_new_if_the_expected_shares_change(changed: ShareProofArgs) -> None:
    assert not set(jobs(changed)) & set(jobs(args()))


@pytest.mark.parametrize(
    "changed",
    [
        args(Mps(replicas=4, allocation_policy="distributed")),
        args(pool="other"),
        args(tolerations=[{"key": "team", "operator": "Exists"}], instance_types=["g4dn.xlarge"]),
        # A corrected catalogue.
        args(gpu=replace(T4, nvml_mib=16000, cuda_mib=15900)),
    ],
)
def test_the_jobs_stay_if_anything_else_changes(changed: ShareProofArgs) -> None:
    assert set(jobs(changed)) == set(jobs(args()))


def test_the_verified_shares_are_unknown_until_the_jobs_are_done() -> None:
    graph = run(lambda: ShareProof("proof", args()), project="test", stack="test", preview=True)
    [proof] = graph.of_type("tandem:index:ShareProof")
    assert not isinstance(plain(graph.outputs[proof.urn])["verifiedShares"], dict)


def test_the_fingerprint_differs_between_resources() -> None:
    [one] = expectations(TimeSlicing(replicas=2), T4, 1)
    other = replace(one, resource="nvidia.com/mig-1g.10gb", device="slice")
    assert len({fingerprint([one]), fingerprint([other]), fingerprint([one, other])}) == 3
