"""The Jobs of a share proof, and the changes that repeat it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from components import ShareProof, ShareProofArgs
from components.share_proof.expectation import MOST_PODS, expectations, fingerprint, verified
from sandbox.graph import Graph, plain
from sandbox.preview.program import run
from sharing.hardware.gpus import gpus
from sharing.modes.modes import Exclusive, Mig, Mps, Sharing, TimeSlicing

JOB = "kubernetes:batch/v1:Job"
T4 = gpus()["t4"]
ON_A_T4 = "of nvidia.com/gpu on a node with 1 T4"
THREE = f"3 shares {ON_A_T4}: 3 per GPU"


def args(sharing: Sharing | None = None, **changed: Any) -> ShareProofArgs:
    return ShareProofArgs(**{"sharing": sharing or Mps(replicas=4), "gpu": T4, **changed})


GRAPHS: dict[str, Graph] = {}
"""By their arguments, because many tests look at the same ones."""


def graph_of(given: ShareProofArgs) -> Graph:
    if repr(given) not in GRAPHS:
        GRAPHS[repr(given)] = run(lambda: ShareProof("proof", given), project="test", stack="test")
    return GRAPHS[repr(given)]


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


PER_MODEL = Mps(replicas=3, limits="per-model")


@pytest.mark.parametrize(
    ("sharing", "count", "limits_mib", "pods", "summary"),
    [
        (Exclusive(), 1, (), 1, f"1 share {ON_A_T4}: one entire GPU each"),
        (Exclusive(), 4, (), 4, "4 shares of nvidia.com/gpu on a node with 4 T4: one entire GPU each"),
        (
            TimeSlicing(replicas=3),
            2,
            (),
            6,
            "6 shares of nvidia.com/gpu on a node with 2 T4: 3 per GPU, all of",
        ),
        (
            Mps(replicas=4),
            1,
            (),
            4,
            f"4 shares {ON_A_T4}: 4 per GPU, 3,840 MiB each, enforced",
        ),
        (TimeSlicing(replicas=40), 1, (), MOST_PODS, f"40 shares {ON_A_T4}: 40 per GPU"),
        (PER_MODEL, 1, (9000, 3000), 2, f"{THREE}, limits of 9,000 and 3,000 MiB, enforced"),
        (PER_MODEL, 1, (9000, 3000, 2000), 3, f"{THREE}, limits of 9,000, 3,000 and 2,000 MiB, enforced"),
        (PER_MODEL, 1, (9000,), 1, f"{THREE}, a limit of 9,000 MiB, enforced"),
        # A third of the 14,912 MiB that CUDA shows on a T4, less the 66 of the MPS server on an H100.
        (PER_MODEL, 1, (), 3, f"{THREE}, a limit of 4,948 MiB each, enforced"),
    ],
)
def test_each_share_has_a_pod_up_to_a_maximum(
    sharing: Sharing, count: int, limits_mib: tuple[int, ...], pods: int, summary: str
) -> None:
    [expected] = expectations(sharing, T4, count, limits_mib)
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


def test_pods_with_limits_of_their_own_mount_the_daemons_directory_through_a_claim() -> None:
    given = args(PER_MODEL, limits_mib=(9000, 3000))
    job = of_shares(given)
    assert environment(job)["CUDA_MPS_PIPE_DIRECTORY"] == "/run/tandem-mps"
    assert {"name": "mps-daemon", "mountPath": "/run/tandem-mps"} in pod_of(job)["containers"][0]["volumeMounts"]
    assert {"name": "mps-daemon", "persistentVolumeClaim": {"claimName": "mps-daemon"}} in pod_of(job)["volumes"]
    assert pod_of(job)["nodeSelector"]["tandem/mps"] == "per-model"
    [volume] = [plain(one.inputs)["spec"] for one in graph_of(given).of_type("kubernetes:core/v1:PersistentVolume")]
    # A pod that waits for a missing directory could not say that it is missing.
    assert volume["hostPath"] == {"path": "/run/tandem-mps", "type": "DirectoryOrCreate"}
    # The pod that reads the node uses no GPU.
    assert "mps-daemon" not in str(pod_of(of_node(given)))


@pytest.mark.real_world(
    behaviour="The level `baseline` allows root, and a claim on any volume; `restricted` allows no root",
    source="kubernetes pod-security-admission, policy/check_runAsNonRoot.go and check_hostPathVolumes.go",
)
@pytest.mark.parametrize(
    ("sharing", "level", "user"),
    [(PER_MODEL, "baseline", 0), (Mps(), "baseline", 0), (TimeSlicing(), "restricted", 65534)],
    ids=["per-model", "equal", "time slices"],
)
def test_the_pods_are_root_only_under_mps(sharing: Sharing, level: str, user: int) -> None:
    graph = graph_of(args(sharing))
    [namespace] = graph.of_type("kubernetes:core/v1:Namespace")
    labels = plain(namespace.inputs)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == level
    assert pod_of(of_shares(args(sharing)))["securityContext"]["runAsUser"] == user


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


def test_the_jobs_are_new_if_time_slices_get_limits() -> None:
    # The device plugin does the same for both.
    assert not set(jobs(args(PER_MODEL))) & set(jobs(args(TimeSlicing(replicas=3))))


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


def test_other_limits_do_not_repeat_the_proof() -> None:
    given, other = args(PER_MODEL, limits_mib=(9000, 3000)), args(PER_MODEL, limits_mib=(8000, 4000))
    assert set(jobs(given)) == set(jobs(other))
    [one], [two] = [expectations(each.sharing, T4, 1, each.limits_mib) for each in (given, other)]
    assert verified(one) == verified(two)


def test_the_verified_shares_are_unknown_until_the_jobs_are_done() -> None:
    graph = run(lambda: ShareProof("proof", args()), project="test", stack="test", preview=True)
    [proof] = graph.of_type("tandem:index:ShareProof")
    assert not isinstance(plain(graph.outputs[proof.urn])["verifiedShares"], dict)


def test_the_fingerprint_differs_between_resources() -> None:
    [one] = expectations(TimeSlicing(replicas=2), T4, 1)
    other = replace(one, resource="nvidia.com/mig-1g.10gb", device="slice")
    assert len({fingerprint([one]), fingerprint([other]), fingerprint([one, other])}) == 3
