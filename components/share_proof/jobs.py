"""The Jobs of a share proof: one reads the node, the other holds its shares."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import pulumi

from components.arguments import check_arguments, check_least
from components.containers import API_ACCESS, MODEL_USER, NOBODY, ROOT, UNPRIVILEGED, run_as
from components.interruptions import DISRUPTED
from components.mps_daemon import CLAIM
from components.share_proof.expectation import ShareExpectation, judge_limits, node_expectation
from components.share_proof.waits import EXCLUSIVE_SECONDS, NODE_SECONDS, PODS_SECONDS, STEP_SECONDS, waits
from sharing import versions
from sharing.hardware.gpus import Gpu, find_gpu
from sharing.modes.modes import Sharing
from sharing.modes.mps_clients import PIPE_DIRECTORY, PIPE_VARIABLE
from sharing.names import (
    DEVICE_PLUGIN_NAMESPACE,
    OPERATOR_NAMESPACE,
    PLUGIN_CHART,
    POOL_LABEL,
    PROOF_LABEL,
    PROOF_PORT,
    TYPE_LABEL,
    tolerations,
)

Manifest = dict[str, Any]
SCRIPTS = ("cuda", "shares", "verdict", "node")
"""Modules of `in_pod`, which run in the cluster without the rest of this package."""
FOLDER = "/proof"
EVICTED_LAST = {"karpenter.sh/do-not-disrupt": "true"}
"""Karpenter evicts a pod with this annotation only when its node's grace period of ten minutes ends.

It still drains the node if the pool or the AMI changes or the node expires. A proof that takes longer then fails, and
the next `up` repeats it (karpenter v1.14.1 pkg/controllers/disruption/types.go, EventualDisruptionClass;
pkg/utils/pod).
"""
SHARE_MEMORY, NODE_MEMORY = "1Gi", "128Mi"
"""Memory limits. A pod on a share is Python with a CUDA context (compare `sharing.fit.host.RUNNER_MIB`, an engine with
one). The pod that reads the node is Python alone, which takes 24 MiB (Python 3.11.7, 2026-11-22).
"""


@check_arguments
@dataclass(frozen=True)
class PluginPods:
    """How to find the device plugin's pods."""

    namespace: str
    """Namespace of the pods."""
    selector: str
    """Label selector of the pods, e.g. `app=nvidia-device-plugin-daemonset`."""


DEVICE_PLUGIN = PluginPods(DEVICE_PLUGIN_NAMESPACE, f"app.kubernetes.io/name={PLUGIN_CHART}")
"""Pods of the plugin's own chart, for any release name (templates/_helpers.tpl, selectorLabels)."""
GPU_OPERATOR = PluginPods(OPERATOR_NAMESPACE, "app=nvidia-device-plugin-daemonset")
"""Pods of the GPU Operator (assets/state-device-plugin/0500_daemonset.yaml)."""


@check_arguments
@dataclass(frozen=True, kw_only=True)
class ShareProofArgs:
    """Inputs of ShareProof.

    Raises `ValueError` for a value of the wrong type, an unknown GPU, and a sharing mode that the GPU does not support.
    """

    sharing: Sharing
    """The sharing mode to prove, e.g. `Mps(replicas=2)`."""
    gpu: Gpu | str
    """The nodes' GPU: a catalogue name, e.g. `"t4"`, or a `Gpu`."""
    gpus_per_node: int = 1
    """Number of GPUs per node."""
    instance_types: Sequence[str] = ()
    """EC2 instance types of the nodes to prove; empty for all. During a change of type, a pool has nodes of both types.
    """
    pool: str = "gpu"
    """The pool to prove: the value of the label `tandem/pool` on its nodes."""
    limits_mib: Sequence[int] = ()
    """With `Mps(limits="per-model")`: memory limits in MiB to prove together on one GPU, e.g. those of the models.
    Empty: an equal part for each share.
    """
    namespace: str = "share-proof"
    """Namespace of the Jobs, created by this component."""
    mode_taint: pulumi.Input[str] | None = None
    """Value of the nodes' taint `tandem/mode`. Defaults to the name of the mode's configuration, e.g. `mps-2`. A new
    value evicts pods that only tolerate the old one, and repeats the proof.
    """
    plugin: PluginPods = field(default_factory=lambda: DEVICE_PLUGIN)
    """The device plugin's pods. An error names them if a node advertises no share."""
    tolerations: Sequence[Mapping[str, str]] = ()
    """Kubernetes tolerations for taints of the nodes other than `nvidia.com/gpu` and `tandem/mode`."""

    def __post_init__(self) -> None:
        check_least(self, gpus_per_node=1)
        gpu = find_gpu(self.gpu)
        if problems := self.sharing.check(gpu, gpus=self.gpus_per_node):
            raise ValueError(f"ShareProofArgs.{problems[0]}")
        if self.limits_mib and (rule := judge_limits(self.limits_mib, self.sharing, gpu)):
            raise ValueError(f"ShareProofArgs.limits_mib {rule}")


def shares_job(
    expected: ShareExpectation,
    args: ShareProofArgs,
    name: str,
    share: str,
    service: pulumi.Input[str],
    scripts: pulumi.Input[str],
    account: pulumi.Input[str],
    daemon: pulumi.Input[str] | None,
) -> Manifest:
    """Spec of the Job whose pods hold every expected share of one node at the same time, one pod per share.

    `daemon` names the claim on the directory of the node's MPS daemon, if the shares have limits of their own.
    """
    together = {
        "labelSelector": {"matchLabels": {PROOF_LABEL: share}},
        "topologyKey": "kubernetes.io/hostname",
    }
    environment = {
        "EXPECTATION": json.dumps(asdict(expected.to_pods())),
        "JUDGE": f"{name}-0.{share}",
        "SERVICE": share,
        "PORT": str(PROOF_PORT),
        "LIMIT_SECONDS": str(PODS_SECONDS),
        "BACK_SECONDS": str(waits(args.sharing).back),
        "STEP_SECONDS": str(STEP_SECONDS),
        # Under MPS, EXCLUSIVE_PROCESS is the correct mode. A pod without a context does not reach the MPS daemon.
        "EXCLUSIVE_SECONDS": str(0 if expected.strategy == "mps" else EXCLUSIVE_SECONDS),
        # Parts of the driver that NVIDIA's runtime mounts. The device plugin selects the device.
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
        # Each pod adds its own limit.
        **({PIPE_VARIABLE: PIPE_DIRECTORY} if daemon is not None else {}),
    }
    container = _container("shares", environment, SHARE_MEMORY)
    container["resources"]["limits"][expected.resource] = "1"
    pod = {
        **_pod(args, scripts, account, container),
        "securityContext": run_as(_user(args.sharing)),
        "subdomain": service,
        "automountServiceAccountToken": False,
    }
    if daemon is not None:
        pod["volumes"].append({"name": CLAIM, "persistentVolumeClaim": {"claimName": daemon}})
        container["volumeMounts"].append({"name": CLAIM, "mountPath": PIPE_DIRECTORY})
    pod["affinity"]["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [together]}
    return {
        "completionMode": "Indexed",
        "completions": expected.pods,
        "parallelism": expected.pods,
        **_once({PROOF_LABEL: share}, pod, waits(args.sharing).pods_job),
    }


def node_job(
    expected: Sequence[ShareExpectation], args: ShareProofArgs, scripts: pulumi.Input[str], account: pulumi.Input[str]
) -> Manifest:
    """Spec of the Job that reads what the node advertises."""
    environment = {
        "EXPECTATION": json.dumps(asdict(node_expectation(args.sharing, find_gpu(args.gpu), expected))),
        "LIMIT_SECONDS": str(NODE_SECONDS),
        "PAUSE_SECONDS": "5",
        **API_ACCESS,
        "PLUGIN_NAMESPACE": args.plugin.namespace,
        "PLUGIN_SELECTOR": args.plugin.selector,
    }
    container = _container("node", environment, NODE_MEMORY)
    container["env"].append({"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}})
    container["securityContext"]["readOnlyRootFilesystem"] = True
    pod = {
        **_pod(args, scripts, account, container),
        "securityContext": run_as(NOBODY),
        "automountServiceAccountToken": True,
    }
    return _once({PROOF_LABEL: "node"}, pod, waits(args.sharing).node_job)


def _once(labels: Mapping[str, str], pod: Manifest, deadline: int) -> Manifest:
    """A Job that runs once, for at most `deadline` seconds. It is kept, or the next update would create it again."""
    return {
        "backoffLimit": 0,
        "podFailurePolicy": {"rules": [DISRUPTED]},
        "activeDeadlineSeconds": deadline,
        "template": {"metadata": {"labels": {**labels}, "annotations": {**EVICTED_LAST}}, "spec": pod},
    }


def _pod(args: ShareProofArgs, scripts: pulumi.Input[str], account: pulumi.Input[str], container: Manifest) -> Manifest:
    # Mounted as the package `in_pod`, for `python -m in_pod.shares`.
    items = [{"key": f"{script}.py", "path": f"in_pod/{script}.py"} for script in SCRIPTS]
    labels = args.sharing.node_labels(find_gpu(args.gpu))
    return {
        "restartPolicy": "Never",
        "serviceAccountName": account,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        # Excludes nodes of the previous mode, which will be deleted, and nodes that are not partitioned yet.
        "nodeSelector": {POOL_LABEL: args.pool, **labels, **args.sharing.ready_labels},
        "affinity": _of_types(args.instance_types),
        "tolerations": [
            *tolerations(args.mode_taint or args.sharing.config_name),
            *(dict(toleration) for toleration in args.tolerations),
        ],
        "containers": [container],
        "volumes": [{"name": "scripts", "configMap": {"name": scripts, "items": items}}],
    }


def _of_types(names: Sequence[str]) -> Manifest:
    """Affinity to nodes of these instance types."""
    if not names:
        return {}
    chosen = {"matchExpressions": [{"key": TYPE_LABEL, "operator": "In", "values": [*names]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [chosen]}}}


def _container(script: str, environment: Mapping[str, pulumi.Input[str]], memory: str) -> Manifest:
    return {
        "name": "prober",
        "image": versions.PROBER_IMAGE,
        "command": ["python", "-u", "-B", "-m", f"in_pod.{script}"],
        "workingDir": FOLDER,
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": memory}},
        # The root file system stays writable on shares, because NVIDIA's runtime adds the driver to ld.so.cache.
        "securityContext": {**UNPRIVILEGED},
        "volumeMounts": [{"name": "scripts", "mountPath": FOLDER, "readOnly": True}],
        # `pulumi up` shows the end of the log as the reason.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _user(sharing: Sharing) -> int:
    """User of the pods on shares. The plugin's MPS serves one user at a time, so under MPS it is the models' user."""
    return MODEL_USER if sharing.needs_mps else NOBODY


def security_level(sharing: Sharing) -> str:
    """Pod Security level of the namespace: the strictest one that allows the pods' user."""
    return "baseline" if _user(sharing) == ROOT else "restricted"


@cache
def script_texts() -> dict[str, str]:
    """Texts of the scripts, by file name."""
    folder = files(__package__) / "in_pod"
    return {f"{name}.py": (folder / f"{name}.py").read_text(encoding="utf-8") for name in SCRIPTS}
