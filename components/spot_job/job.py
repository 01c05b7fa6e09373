"""The batch/v1 Job of a SpotJob: one pod on a share, replaced after each interruption."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi

from components.arguments import check_arguments, check_least, check_tags
from components.containers import NOBODY, UNPRIVILEGED, run_as
from components.interruptions import DISRUPTED, SPOT_NOTICE_SECONDS
from components.spot_job.checkpoints import DIRECTORY, Checkpoints, Storage
from sharing.aws.tags import VOLUME
from sharing.modes.base import GPU_RESOURCE
from sharing.names import POOL_LABEL, tolerations

Manifest = dict[str, Any]
INTERRUPTED = 143
"""Exit code of a program that SIGTERM ended: 128 + 15, as a shell reports it."""
STOPPED = {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [INTERRUPTED]}}
"""A program that exits with this code after SIGTERM has not failed.

Not every SIGTERM comes with the condition `DisruptionTarget`: `kubectl delete pod` sets none, and the Job controller
counts such a pod as failed (kubernetes pkg/controller/job/job_controller.go, isPodFailed).
"""
SHELLS = frozenset({"ash", "bash", "dash", "ksh", "sh", "zsh"})


@check_arguments
@dataclass(frozen=True, kw_only=True)
class SpotJobArgs:
    """Inputs of SpotJob.

    Raises `ValueError` for a value of the wrong type, a number out of range, an empty command, a shell command without
    `exec`, `wait` without a deadline, and tags that AWS refuses.
    """

    image: pulumi.Input[str]
    """Container image of the program."""
    command: Sequence[str]
    """The program and its arguments, without a shell. It is process 1 of its container, so it receives SIGTERM itself.
    It has `stop_seconds` to save a checkpoint, and must then exit with code 143. Code 0 means that its work is done.
    """
    environment: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    """Environment variables of the program."""
    checkpoints: Checkpoints | None = None
    """Where the program keeps its checkpoints: `BucketCheckpoints` or `VolumeCheckpoints`. Without them, it starts from
    the beginning after each interruption.
    """
    resource_name: str = GPU_RESOURCE
    """Extended resource of which the pod requests one, e.g. `nvidia.com/gpu`."""
    pool: str = "gpu"
    """The pool to run on: the value of the label `tandem/pool` on its nodes. With `Mps(limits="per-model")` there, the
    program would have no limit: choose another pool.
    """
    ready_labels: Mapping[str, str] = field(default_factory=dict)
    """Extra node labels that the pod requires, e.g. the one that a node gets once its MIG slices are ready."""
    mode_taint: pulumi.Input[str] | None = None
    """Value of the taint `tandem/mode` that the pod tolerates; any other value evicts it. Defaults to any value."""
    tolerations: Sequence[Mapping[str, str]] = ()
    """Kubernetes tolerations for taints of the nodes other than `nvidia.com/gpu` and `tandem/mode`."""
    cpu_millis: int = 500
    """CPU request in thousandths of a vCPU."""
    memory_mib: int = 4096
    """RAM of the pod in MiB: its request and its limit."""
    user: int = NOBODY
    """User ID and group ID of the program. MPS serves one user at a time, so under MPS it must be 0, which is the user
    of the models.
    """
    priority_class: pulumi.Input[str] | None = None
    """Name of the pod's PriorityClass. By default, the component creates one of value 0, in which the pod waits for a
    free share. In a lower class than the models', it makes room for them; in a higher one, it takes their shares.
    """
    retries: int = 3
    """Number of times that a failed program is started again. Interruptions do not count."""
    stop_seconds: int = 90
    """Time between SIGTERM and SIGKILL in seconds, at most 120: AWS gives notice of a spot interruption two minutes
    before, and the eviction takes some of that time.
    """
    deadline_seconds: int | None = None
    """Time after which the Job fails, in seconds. It includes waiting for nodes and interruptions."""
    keep_seconds: int | None = None
    """Time after which Kubernetes deletes the ended Job, in seconds. `pulumi up --refresh` then creates it again. By
    default, the Job is kept.
    """
    wait: bool = False
    """Whether `pulumi up` waits until the Job has succeeded. If the Job fails, `up` fails, and the next one replaces
    it.
    """
    queue: pulumi.Input[str] | None = None
    """Name of a Kueue LocalQueue in the namespace. The Job stays suspended until Kueue admits it."""
    namespace: pulumi.Input[str] | None = None
    """An existing namespace for the Job. By default, the component creates one that has its name."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags on the AWS resources."""

    def __post_init__(self) -> None:
        check_tags(self, VOLUME)
        check_least(self, cpu_millis=1, memory_mib=1, user=0, retries=0)
        check_least(self, stop_seconds=1, deadline_seconds=1, keep_seconds=1)
        if self.stop_seconds > SPOT_NOTICE_SECONDS:
            raise ValueError(
                f"SpotJobArgs.stop_seconds is {self.stop_seconds}, but a spot instance ends {SPOT_NOTICE_SECONDS} "
                f"seconds after its notice. Pass {SPOT_NOTICE_SECONDS} or less."
            )
        if not self.command:
            raise ValueError("SpotJobArgs.command is empty. Pass the program and its arguments.")
        if _hides_signals(self.command):
            raise ValueError(
                f"SpotJobArgs.command starts the shell {self.command[0]!r}, which does not forward SIGTERM to the "
                "program. Pass the program without a shell, or start it with `exec`."
            )
        if self.wait and self.deadline_seconds is None:
            raise ValueError(
                "SpotJobArgs.wait is True, but `deadline_seconds` is missing. Pass the longest time to wait."
            )


def _hides_signals(command: Sequence[str]) -> bool:
    """Whether the command is a script for a shell that does not replace itself by the program."""
    shell, *words = command
    is_script = any(re.fullmatch(r"-\w*c", word) for word in words)
    return shell.rpartition("/")[2] in SHELLS and is_script and not any(re.search(r"\bexec ", word) for word in words)


def job_spec(
    args: SpotJobArgs, account: pulumi.Input[str], storage: Storage, priority_class: pulumi.Input[str]
) -> Manifest:
    """Spec of the Job."""
    options = {
        "activeDeadlineSeconds": args.deadline_seconds,
        "ttlSecondsAfterFinished": args.keep_seconds,
        "suspend": True if args.queue is not None else None,
    }
    return {
        "backoffLimit": args.retries,
        "podFailurePolicy": {"rules": [DISRUPTED, STOPPED]},
        # The new pod starts only when the old one has stopped: two would write the same checkpoints.
        "podReplacementPolicy": "Failed",
        **{key: value for key, value in options.items() if value is not None},
        "template": {"spec": _pod(args, account, storage, priority_class)},
    }


def _pod(
    args: SpotJobArgs, account: pulumi.Input[str], storage: Storage, priority_class: pulumi.Input[str]
) -> Manifest:
    # The volume belongs to root until its files get the pod's group.
    security = {**run_as(args.user), "fsGroup": args.user, "fsGroupChangePolicy": "OnRootMismatch"}
    pod: Manifest = {
        # Kubernetes requires this for a podFailurePolicy.
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": args.stop_seconds,
        "serviceAccountName": account,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "nodeSelector": {POOL_LABEL: args.pool, **args.ready_labels},
        "tolerations": [*tolerations(args.mode_taint), *(dict(toleration) for toleration in args.tolerations)],
        "securityContext": security,
        "containers": [_container(args, storage)],
        "priorityClassName": priority_class,
    }
    if storage.claim is not None:
        pod["volumes"] = [{"name": "checkpoints", "persistentVolumeClaim": {"claimName": storage.claim}}]
    return pod


def _container(args: SpotJobArgs, storage: Storage) -> Manifest:
    environment: dict[str, pulumi.Input[str]] = {
        # Parts of the driver that NVIDIA's runtime mounts. The device plugin selects the device.
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
        **storage.environment,
        **args.environment,
    }
    memory = {"memory": f"{args.memory_mib}Mi"}
    container: Manifest = {
        "name": "program",
        "image": args.image,
        "command": [*args.command],
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "resources": {
            "requests": {"cpu": f"{args.cpu_millis}m", **memory},
            "limits": {args.resource_name: "1", **memory},
        },
        # The root file system stays writable, because NVIDIA's runtime adds the driver to ld.so.cache.
        "securityContext": {**UNPRIVILEGED},
        # Kubernetes then shows the end of the log as the reason of a failure.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if storage.claim is not None:
        container["volumeMounts"] = [{"name": "checkpoints", "mountPath": DIRECTORY}]
    return container
