"""SpotJob: its Job, its checkpoints and its rights, argument by argument."""

import json
import subprocess
import sys
from typing import Any

import pulumi
import pytest

from components import BucketCheckpoints, SpotJob, SpotJobArgs, VolumeCheckpoints
from components.spot_job.checkpoints import Checkpoints
from sandbox.graph import Graph, plain
from sandbox.preview.program import run
from tests.components.conftest import Mocks
from tests.pages import ROOT, blocks

JOB = "kubernetes:batch/v1:Job"
CLASS = "kubernetes:scheduling.k8s.io/v1:PriorityClass"
NAMESPACE = "kubernetes:core/v1:Namespace"
BUCKET = BucketCheckpoints(cluster_name="c", bucket="mine", prefix="runs/train")
VOLUME = VolumeCheckpoints(zone="us-east-1a", size_gib=7)
DISRUPTED = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def args(**changed: Any) -> SpotJobArgs:
    return SpotJobArgs(**{"image": "example.com/train:1", "command": ["python", "train.py"], **changed})


def graph_of(name: str = "train", **changed: Any) -> Graph:
    return run(lambda: SpotJob(name, args(**changed)), project="test", stack="test")


def job_of(graph: Graph) -> dict[str, Any]:
    [job] = graph.of_type(JOB)
    found: dict[str, Any] = plain(job.inputs)
    return found


def spec_of(**changed: Any) -> dict[str, Any]:
    spec: dict[str, Any] = job_of(graph_of(**changed))["spec"]
    return spec


def pod_of(**changed: Any) -> dict[str, Any]:
    pod: dict[str, Any] = spec_of(**changed)["template"]["spec"]
    return pod


def container_of(**changed: Any) -> dict[str, Any]:
    [container] = pod_of(**changed)["containers"]
    found: dict[str, Any] = container
    return found


def environment(**changed: Any) -> dict[str, str]:
    return {one["name"]: one["value"] for one in container_of(**changed)["env"]}


def inputs_of(graph: Graph, token: str) -> dict[str, Any]:
    [found] = graph.of_type(token)
    inputs: dict[str, Any] = plain(found.inputs)
    return inputs


@pytest.mark.real_world(
    behaviour="A Job whose pod is evicted fails at once with `backoffLimit: 0`, unless its `podFailurePolicy` ignores "
    "the condition DisruptionTarget",
    source="https://kubernetes.io/docs/tasks/job/pod-failure-policy/",
)
def test_interruptions_are_no_failures_and_failures_have_a_limit() -> None:
    spec = spec_of(retries=5)
    # 143 is 128 + SIGTERM.
    stopped = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [143]}}
    assert spec["podFailurePolicy"] == {"rules": [DISRUPTED, stopped]}
    assert spec["backoffLimit"] == 5
    assert spec["podReplacementPolicy"] == "Failed"
    # Kubernetes rejects a podFailurePolicy with any other restart policy.
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


def test_by_default_a_job_has_three_retries_no_deadline_and_is_kept() -> None:
    spec = spec_of()
    assert spec["backoffLimit"] == 3
    assert {"activeDeadlineSeconds", "ttlSecondsAfterFinished", "suspend"} & spec.keys() == set()


def test_deadline_and_time_to_keep_are_those_given() -> None:
    spec = spec_of(deadline_seconds=7200, keep_seconds=3600)
    assert (spec["activeDeadlineSeconds"], spec["ttlSecondsAfterFinished"]) == (7200, 3600)


def test_the_program_has_90_of_the_120_seconds_of_a_spot_notice_or_those_given() -> None:
    assert pod_of()["terminationGracePeriodSeconds"] == 90
    assert pod_of(stop_seconds=120)["terminationGracePeriodSeconds"] == 120


def test_the_program_is_process_1_with_its_own_environment() -> None:
    container = container_of(environment={"EPOCHS": "3"})
    assert (container["image"], container["command"]) == ("example.com/train:1", ["python", "train.py"])
    assert "args" not in container
    assert environment(environment={"EPOCHS": "3"}) == {"EPOCHS": "3", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_a_variable_of_the_caller_overrides_ours() -> None:
    assert environment(environment={"NVIDIA_DRIVER_CAPABILITIES": "all"})["NVIDIA_DRIVER_CAPABILITIES"] == "all"


def test_a_job_runs_on_a_share_of_the_pool_like_a_model() -> None:
    pod = pod_of()
    assert pod["nodeSelector"] == {"tandem/pool": "gpu"}
    assert pod["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"key": "tandem/mode", "operator": "Exists"},
    ]
    assert pod["containers"][0]["resources"] == {
        "requests": {"cpu": "500m", "memory": "4096Mi"},
        "limits": {"nvidia.com/gpu": "1", "memory": "4096Mi"},
    }


@pytest.mark.real_world(
    behaviour="A pod without a PriorityClass has priority 0 and evicts pods of a lower priority",
    source="kubernetes plugin/pkg/admission/priority/admission.go; tests/cluster/test_spot_job.py runs it",
)
def test_a_job_evicts_no_model_unless_its_class_says_so() -> None:
    graph = graph_of("train", namespace="batch")
    own = inputs_of(graph, CLASS)
    assert own["metadata"]["name"] == "tandem-batch.train"
    assert (own["value"], own["preemptionPolicy"]) == (0, "Never")
    assert not own.get("globalDefault")
    assert job_of(graph)["spec"]["template"]["spec"]["priorityClassName"] == "tandem-batch.train"
    assert not list(graph_of(priority_class="theirs").of_type(CLASS))


def test_a_job_runs_on_a_slice_of_another_pool() -> None:
    pod = pod_of(
        pool="big",
        resource_name="nvidia.com/mig-1g.24gb",
        ready_labels={"nvidia.com/mig.config.state": "success"},
        mode_taint="mig-1",
        tolerations=[{"key": "team", "operator": "Exists"}],
        cpu_millis=250,
        memory_mib=1024,
        priority_class="low",
    )
    assert pod["nodeSelector"] == {"tandem/pool": "big", "nvidia.com/mig.config.state": "success"}
    assert pod["tolerations"] == [
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"key": "tandem/mode", "operator": "Equal", "value": "mig-1"},
        {"key": "team", "operator": "Exists"},
    ]
    assert pod["containers"][0]["resources"] == {
        "requests": {"cpu": "250m", "memory": "1024Mi"},
        "limits": {"nvidia.com/mig-1g.24gb": "1", "memory": "1024Mi"},
    }
    assert pod["priorityClassName"] == "low"


@pytest.mark.parametrize(("user", "level"), [(65534, "restricted"), (1000, "restricted"), (0, "baseline")])
def test_a_pod_has_no_privileges_and_its_namespace_the_strictest_level(user: int, level: str) -> None:
    graph = graph_of(user=user)
    pod = job_of(graph)["spec"]["template"]["spec"]
    assert pod["securityContext"] == {
        "runAsUser": user,
        "runAsGroup": user,
        "runAsNonRoot": user != 0,
        "seccompProfile": {"type": "RuntimeDefault"},
        "fsGroup": user,
        "fsGroupChangePolicy": "OnRootMismatch",
    }
    [container] = pod["containers"]
    assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    labels = inputs_of(graph, NAMESPACE)["metadata"]["labels"]
    assert labels == {"pod-security.kubernetes.io/enforce": level}


def test_a_pod_has_an_account_of_its_own_without_a_token() -> None:
    graph = graph_of()
    account = inputs_of(graph, "kubernetes:core/v1:ServiceAccount")
    pod = job_of(graph)["spec"]["template"]["spec"]
    assert (account["metadata"], pod["serviceAccountName"]) == ({"name": "train", "namespace": "train"}, "train")
    assert (account["automountServiceAccountToken"], pod["automountServiceAccountToken"]) == (False, False)
    assert pod["enableServiceLinks"] is False


def test_no_pod_can_connect_to_those_of_the_job() -> None:
    policy = inputs_of(graph_of(), "kubernetes:networking.k8s.io/v1:NetworkPolicy")
    assert policy["metadata"] == {"name": "train", "namespace": "train"}
    assert policy["spec"] == {
        "podSelector": {"matchLabels": {"batch.kubernetes.io/job-name": "train"}},
        "policyTypes": ["Ingress"],
    }


def test_a_job_has_the_name_of_the_component_also_as_its_namespace() -> None:
    graph = graph_of("Train_it")
    metadata = job_of(graph)["metadata"]
    # Names in Kubernetes have lower-case letters and dashes.
    assert metadata["name"].startswith("train-it-")
    assert metadata["namespace"] == metadata["name"] == inputs_of(graph, NAMESPACE)["metadata"]["name"]
    assert len(job_of(graph_of("a" * 80))["metadata"]["name"]) == 63


def test_in_an_existing_namespace_the_job_creates_none() -> None:
    graph = graph_of(namespace=pulumi.Output.from_input("batch"), checkpoints=VOLUME)
    assert not list(graph.of_type(NAMESPACE))
    inside = [plain(one.inputs)["metadata"] for one in graph if one.type.startswith("kubernetes:")]
    assert {one["namespace"] for one in inside if "namespace" in one} == {"batch"}
    assert inputs_of(graph, "kubernetes:core/v1:PersistentVolume")["metadata"] == {"name": "batch-train-checkpoints"}


def test_without_checkpoints_a_job_has_neither_role_nor_volume() -> None:
    graph = graph_of()
    assert not [one for one in graph if one.type.startswith("aws:") or "PersistentVolume" in one.type]
    assert "volumes" not in pod_of()
    assert "volumeMounts" not in container_of()


def test_a_role_reaches_the_objects_under_the_prefix_and_nothing_else() -> None:
    policy = json.loads(inputs_of(graph_of(checkpoints=BUCKET), "aws:iam/policy:Policy")["policy"])
    objects = ["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:PutObject"]
    listing = {"StringLike": {"s3:prefix": "runs/train/*"}}
    assert policy == {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": objects, "Resource": "arn:aws:s3:::mine/runs/train/*"},
            {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::mine", "Condition": listing},
        ],
    }


def test_only_pods_of_the_jobs_account_get_the_role_before_the_first_one_starts() -> None:
    graph = graph_of(checkpoints=BUCKET, tags={"owner": "us"})
    identity = inputs_of(graph, "aws:eks/podIdentityAssociation:PodIdentityAssociation")
    [role] = graph.of_type("aws:iam/role:Role")
    [policy] = graph.of_type("aws:iam/policy:Policy")
    attached = inputs_of(graph, "aws:iam/rolePolicyAttachment:RolePolicyAttachment")
    assert (identity["clusterName"], identity["namespace"], identity["serviceAccount"]) == ("c", "train", "train")
    assert identity["roleArn"] == plain(role.outputs)["arn"]
    assert (attached["role"], attached["policyArn"]) == (plain(role.outputs)["name"], plain(policy.outputs)["arn"])
    trust = json.loads(plain(role.inputs)["assumeRolePolicy"])["Statement"]
    assert [one["Principal"] for one in trust] == [{"Service": "pods.eks.amazonaws.com"}]
    assert trust[0]["Action"] == ["sts:AssumeRole", "sts:TagSession"]
    # The account of the emulated caller.
    assert trust[0]["Condition"] == {"StringEquals": {"aws:SourceAccount": "123456789012"}}
    for one in (plain(role.inputs), plain(policy.inputs), identity):
        assert one["tags"] == {"owner": "us"}
    [job] = graph.of_type(JOB)
    needed = {graph[urn].type.rpartition(":")[2] for urn in job.dependencies}
    assert {"RolePolicyAttachment", "PodIdentityAssociation", "NetworkPolicy", "ServiceAccount"} <= needed


@pytest.mark.slow
def test_the_program_gets_the_uri_and_the_region_of_its_bucket() -> None:
    found = environment(checkpoints=BUCKET)
    assert found["CHECKPOINT_URI"] == "s3://mine/runs/train/"
    # The region of the emulated cloud.
    assert found["AWS_REGION"] == "us-east-1"
    # As the program in Python finds it.
    shown = "import boto3; print(boto3.session.Session().region_name)"
    done = subprocess.run([sys.executable, "-c", shown], env=found, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "us-east-1"
    assert "CHECKPOINT_DIRECTORY" not in found


def test_a_volume_is_mounted_in_the_directory_that_the_program_gets() -> None:
    graph = graph_of(checkpoints=VOLUME, tags={"owner": "us"})
    pod = job_of(graph)["spec"]["template"]["spec"]
    assert pod["volumes"] == [{"name": "checkpoints", "persistentVolumeClaim": {"claimName": "train-checkpoints"}}]
    [container] = pod["containers"]
    assert container["volumeMounts"] == [{"name": "checkpoints", "mountPath": "/checkpoints"}]
    assert {"name": "CHECKPOINT_DIRECTORY", "value": "/checkpoints"} in container["env"]
    disk = inputs_of(graph, "aws:ebs/volume:Volume")
    assert (disk["availabilityZone"], disk["size"], disk["encrypted"]) == ("us-east-1a", 7, True)
    assert disk["tags"] == {"owner": "us", "Name": "train-checkpoints", "ebs.csi.aws.com/cluster": "true"}
    kept = inputs_of(graph, "kubernetes:core/v1:PersistentVolume")["spec"]
    [term] = kept["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1a"]}
    ]
    assert kept["capacity"] == {"storage": "7Gi"}
    claim = inputs_of(graph, "kubernetes:core/v1:PersistentVolumeClaim")
    assert (claim["metadata"], claim["spec"]["volumeName"]) == (
        {"name": "train-checkpoints", "namespace": "train"},
        "train-train-checkpoints",
    )


def test_a_volume_has_ten_gib_by_default() -> None:
    assert VolumeCheckpoints(zone="a").size_gib == 10


@pytest.mark.real_world(
    behaviour="The annotation `pulumi.com/skipAwait` of a Job also skips the wait for its deletion, so a replacement "
    "with the same name fails",
    source="pulumi-kubernetes provider/pkg/metadata/overrides.go, allowsSkipAwaitWithDelete; pulumi-kubernetes#3154",
)
def test_pulumi_waits_for_the_end_of_a_job_only_if_asked_and_always_for_its_deletion() -> None:
    graph = graph_of()
    [job] = graph.of_type(JOB)
    assert job_of(graph)["metadata"]["annotations"] == {"pulumi.com/waitFor": "jsonpath={.metadata.uid}"}
    assert "customTimeouts" not in job.options

    graph = graph_of(wait=True, deadline_seconds=3600)
    [job] = graph.of_type(JOB)
    assert job_of(graph)["metadata"]["annotations"] == {"pulumi.com/replaceUnready": "true"}
    # Longer than the deadline, so that Pulumi sees how the Job ended.
    assert job.options["customTimeouts"] == {"create": "4200s", "update": "4200s"}


def test_a_queue_holds_the_job_until_kueue_admits_it() -> None:
    job = job_of(graph_of(queue="rest"))
    assert job["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "rest"}
    assert job["spec"]["suspend"] is True
    assert not job_of(graph_of())["metadata"].get("labels")


def trigger(name: str = "train", **changed: Any) -> Any:
    [job] = graph_of(name, **changed).of_type(JOB)
    assert job.options["ignoreChanges"] == ("spec",)
    assert job.options["deleteBeforeReplace"] is True
    return job.options["replacementTrigger"]


REPLACED: dict[str, dict[str, Any]] = {
    "image": {"image": "example.com/train:2"},
    "command": {"command": ["python", "other.py"]},
    "environment": {"environment": {"A": "1"}},
    "retries": {"retries": 0},
    "deadline": {"deadline_seconds": 60},
    "queue": {"queue": "rest"},
    "checkpoints": {"checkpoints": VOLUME},
    "taint": {"mode_taint": pulumi.Output.from_input("mps-2")},
}


@pytest.mark.parametrize("what", REPLACED)
def test_a_change_of_the_job_replaces_it(what: str) -> None:
    assert trigger(**REPLACED[what]) != trigger()


def test_nothing_else_replaces_the_job() -> None:
    assert trigger() == trigger()
    assert trigger(wait=True, deadline_seconds=60) == trigger(deadline_seconds=60)
    assert trigger(tags={"owner": "us"}) == trigger()


@pytest.mark.parametrize(
    ("checkpoints", "location"),
    [(BUCKET, "s3://mine/runs/train/"), (VOLUME, "/checkpoints"), (None, None)],
    ids=["bucket", "volume", "none"],
)
def test_the_outputs_name_the_job_and_its_checkpoints(checkpoints: Checkpoints | None, location: str | None) -> None:
    graph = graph_of(checkpoints=checkpoints)
    [job] = graph.of_type("tandem:index:SpotJob")
    outputs = plain(graph.outputs[job.urn])
    assert (outputs["jobName"], outputs["namespace"], outputs.get("checkpointLocation")) == ("train", "train", location)


@pytest.mark.parametrize(
    "command",
    [
        ["sh", "-c", "python train.py"],
        ["/bin/bash", "-ec", "cd /work && python train.py"],
        ["bash", "-l", "-c", "python train.py; exit"],
    ],
)
def test_a_shell_that_keeps_sigterm_to_itself_is_refused(command: list[str]) -> None:
    with pytest.raises(ValueError, match=r"^SpotJobArgs\.command starts the shell .* start it with `exec`\.$"):
        args(command=command)


@pytest.mark.parametrize(
    "command",
    [
        ["sh", "-c", "cd /work && exec python train.py"],
        ["bash", "train.sh"],
        ["python", "-c", "print()"],
        ["/opt/wash", "-c"],
    ],
)
def test_other_commands_are_accepted(command: list[str]) -> None:
    assert args(command=command).command == command


@pytest.mark.parametrize("prefix", ["train", "a/b", "run=1/x_y.z-0"])
def test_a_plain_prefix_is_accepted(prefix: str) -> None:
    assert BucketCheckpoints(cluster_name="c", bucket="b", prefix=prefix).prefix == prefix


@pytest.mark.parametrize("prefix", ["", "/a", "a/", "a//b", "*", "a?", "${aws:username}", "a b"])
def test_a_prefix_that_would_widen_the_role_or_the_keys_is_refused(prefix: str) -> None:
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
