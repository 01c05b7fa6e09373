"""SpotJob: its Job, its checkpoints and its rights, argument by argument."""

import json
import subprocess
import sys
from typing import Any

import pulumi
import pytest

from components import BucketCheckpoints, SpotJob, SpotJobArgs, VolumeCheckpoints
from sandbox.graph import Graph, plain
from sandbox.preview.program import run
from tests.components.conftest import Mocks
from tests.conftest import Golden
from tests.goldens import describe, in_full
from tests.pages import ROOT, blocks

JOB = "kubernetes:batch/v1:Job"
BUCKET = BucketCheckpoints(cluster_name="c", bucket="mine", prefix="runs/train")
VOLUME = VolumeCheckpoints(zone="us-east-1a", size_gib=7)
DISRUPTED = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def args(**changed: Any) -> SpotJobArgs:
    return SpotJobArgs(**{"image": "example.com/train:1", "command": ["python", "train.py"], **changed})


def graph_of(name: str = "train", **changed: Any) -> Graph:
    return run(lambda: SpotJob(name, args(**changed)), project="test", stack="test")


def inputs_of(graph: Graph, token: str) -> dict[str, Any]:
    [found] = graph.of_type(token)
    inputs: dict[str, Any] = plain(found.inputs)
    return inputs


def job_of(graph: Graph) -> dict[str, Any]:
    return inputs_of(graph, JOB)


def test_a_job_with_every_argument_registers_the_resources_of_its_golden(golden: Golden) -> None:
    """The opposite of the builder in `conftest.py`, which leaves out what it can and has a bucket."""
    graph = graph_of(
        environment={"EPOCHS": "3", "NVIDIA_DRIVER_CAPABILITIES": "all"},
        checkpoints=VOLUME,
        pool="big",
        resource_name="nvidia.com/mig-1g.24gb",
        ready_labels={"nvidia.com/mig.config.state": "success"},
        mode_taint="mig-1",
        tolerations=[{"key": "team", "operator": "Exists"}],
        cpu_millis=250,
        memory_mib=1024,
        user=0,
        priority_class="low",
        retries=5,
        stop_seconds=120,
        deadline_seconds=7200,
        keep_seconds=3600,
        wait=True,
        namespace=pulumi.Output.from_input("batch"),
        tags={"owner": "us"},
    )
    golden("components/SpotJob-every-argument.json", f"{in_full(describe(graph))}\n")


@pytest.mark.real_world(
    behaviour="A Job whose pod is evicted fails at once with `backoffLimit: 0`, unless its `podFailurePolicy` ignores "
    "the condition DisruptionTarget",
    source="https://kubernetes.io/docs/tasks/job/pod-failure-policy/",
)
def test_interruptions_are_no_failures_and_failures_have_a_limit() -> None:
    spec = job_of(graph_of(retries=5))["spec"]
    # 143 is 128 + SIGTERM.
    stopped = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [143]}}
    assert spec["podFailurePolicy"] == {"rules": [DISRUPTED, stopped]}
    assert spec["backoffLimit"] == 5
    # Kubernetes rejects a podFailurePolicy with any other restart policy.
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


@pytest.mark.real_world(
    behaviour="A pod without a PriorityClass has priority 0 and evicts pods of a lower priority",
    source="kubernetes plugin/pkg/admission/priority/admission.go; tests/cluster/test_spot_job.py runs it",
)
def test_a_job_evicts_no_model_unless_its_class_says_so() -> None:
    graph = graph_of(namespace="batch")
    own = inputs_of(graph, "kubernetes:scheduling.k8s.io/v1:PriorityClass")
    assert (own["value"], own["preemptionPolicy"]) == (0, "Never")
    assert job_of(graph)["spec"]["template"]["spec"]["priorityClassName"] == own["metadata"]["name"]


def test_a_job_has_the_name_of_the_component_as_kubernetes_allows_it() -> None:
    assert job_of(graph_of("Train_it"))["metadata"]["name"].startswith("train-it-")
    assert len(job_of(graph_of("a" * 80))["metadata"]["name"]) == 63


def test_without_checkpoints_a_job_has_neither_role_nor_volume() -> None:
    graph = graph_of()
    assert not [one for one in graph if one.type.startswith("aws:") or "PersistentVolume" in one.type]
    assert "volumes" not in job_of(graph)["spec"]["template"]["spec"]


def test_a_role_reaches_the_objects_under_the_prefix_and_nothing_else() -> None:
    policy = json.loads(inputs_of(graph_of(checkpoints=BUCKET), "aws:iam/policy:Policy")["policy"])
    objects = ["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:PutObject"]
    listing = {"StringLike": {"s3:prefix": "runs/train/*"}}
    assert policy["Statement"] == [
        {"Effect": "Allow", "Action": objects, "Resource": "arn:aws:s3:::mine/runs/train/*"},
        {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::mine", "Condition": listing},
    ]


@pytest.mark.slow
def test_the_program_gets_the_region_of_its_bucket() -> None:
    pod = job_of(graph_of(checkpoints=BUCKET))["spec"]["template"]["spec"]
    found = {one["name"]: one["value"] for one in pod["containers"][0]["env"]}
    # As the program in Python finds it: the region of the emulated cloud.
    shown = "import boto3; print(boto3.session.Session().region_name)"
    done = subprocess.run([sys.executable, "-c", shown], env=found, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "us-east-1"


@pytest.mark.real_world(
    behaviour="The annotation `pulumi.com/skipAwait` of a Job also skips the wait for its deletion, so a replacement "
    "with the same name fails",
    source="pulumi-kubernetes provider/pkg/metadata/overrides.go, allowsSkipAwaitWithDelete; pulumi-kubernetes#3154",
)
def test_pulumi_waits_for_the_end_of_a_job_only_if_asked_and_always_for_its_deletion() -> None:
    assert job_of(graph_of())["metadata"]["annotations"] == {"pulumi.com/waitFor": "jsonpath={.metadata.uid}"}
    graph = graph_of(wait=True, deadline_seconds=3600)
    [job] = graph.of_type(JOB)
    assert job_of(graph)["metadata"]["annotations"] == {"pulumi.com/replaceUnready": "true"}
    # Longer than the deadline, so that Pulumi sees how the Job ended.
    assert job.options["customTimeouts"] == {"create": "4200s", "update": "4200s"}


def trigger(name: str = "train", **changed: Any) -> Any:
    [job] = graph_of(name, **changed).of_type(JOB)
    return job.options["replacementTrigger"]


def test_a_change_of_the_job_replaces_it_and_nothing_else_does() -> None:
    changes: list[dict[str, Any]] = [
        {"image": "example.com/train:2"},
        {"queue": "rest"},
        {"checkpoints": VOLUME},
        {"mode_taint": pulumi.Output.from_input("mps-2")},
        {"deadline_seconds": 60},
    ]
    assert len({trigger(), *(trigger(**changed) for changed in changes)}) == len(changes) + 1
    assert trigger(wait=True, deadline_seconds=60) == trigger(deadline_seconds=60)
    assert trigger(tags={"owner": "us"}) == trigger()


@pytest.mark.parametrize(
    "command",
    [
        ["sh", "-c", "python train.py"],
        ["/bin/bash", "-ec", "cd /work && python train.py"],
        ["bash", "-l", "-c", "python train.py; exit"],
        # The shells of Debian, Alpine and macOS, and that of POSIX's origin.
        *([shell, "-c", "python train.py"] for shell in ("dash", "ash", "zsh", "ksh")),
    ],
)
def test_a_shell_that_keeps_sigterm_to_itself_is_refused(command: list[str]) -> None:
    with pytest.raises(ValueError, match=r"^SpotJobArgs\.command starts the shell .* start it with `exec`\.$"):
        args(command=command)


def test_other_commands_are_accepted() -> None:
    args(command=["sh", "-c", "cd /work && exec python train.py"])
    args(command=["bash", "train.sh"])
    args(command=["/opt/wash", "-c"])


def test_a_prefix_that_would_widen_the_role_or_the_keys_is_refused() -> None:
    for prefix in ("train", "run=1/x_y.z-0"):
        BucketCheckpoints(cluster_name="c", bucket="b", prefix=prefix)
    for prefix in ("", "/a", "a/", "a//b", "*", "a?", "${aws:username}", "a b"):
        with pytest.raises(ValueError, match=r"^BucketCheckpoints\.prefix is "):
            BucketCheckpoints(cluster_name="c", bucket="b", prefix=prefix)


def test_the_program_of_the_guide_that_deploys_the_job_runs_under_stock_mocks() -> None:
    guide = ROOT / "docs" / "how-to" / "run-a-batch-job-on-spot.md"
    [program] = [block.text for block in blocks(guide) if 'title="job.py"' in block.head]
    mocks = Mocks()
    pulumi.runtime.set_mocks(mocks, project="theirs", stack="test")
    pulumi.runtime.test(lambda: exec(program, {}))()  # type: ignore[no-untyped-call]  # pulumi.runtime.test has none
    [job] = [inputs for kind, _, inputs in mocks.made if kind == JOB]
    assert job["spec"]["template"]["spec"]["containers"][0]["command"] == ["python", "-u", "train.py"]
