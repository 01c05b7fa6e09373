"""The Jobs of a share proof: one reads the node, the other holds its shares. And what their pods run."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import pulumi

from components.arguments import check_arguments, check_least
from components.containers import MODEL_USER, NOBODY, ROOT, UNPRIVILEGED, run_as
from components.share_proof.expectation import ShareExpectation, node_expectation
from components.share_proof.waits import EXCLUSIVE_SECONDS, NODE_SECONDS, PODS_SECONDS, STEP_SECONDS, waits
from sharing import versions
from sharing.gpus import Gpu, find_gpu
from sharing.modes import Sharing
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
"""Modules of `in_pod`, which run in the cluster, on their own."""
FOLDER = "/proof"
DISRUPTED = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
"""A pod that its node's shutdown, an eviction or a spot interruption ends is replaced, and counts as no failure.

Only `Ignore`: a Job that ends by `FailJob` has a reason that Pulumi does not know, and waits for (pulumi-kubernetes
provider/pkg/await/checker/job/check.go, collectJobConditionErrors).
"""
EVICTED_LAST = {"karpenter.sh/do-not-disrupt": "true"}
"""Karpenter evicts such a pod only when the grace period of its node ends, which is ten minutes. It drains the node all
the same where the pool or the AMI has changed, or the node has expired: a longer proof then fails, and the next `up`
repeats it (karpenter v1.14.1 pkg/controllers/disruption/types.go, EventualDisruptionClass; pkg/utils/pod).
"""
SHARE_MEMORY, NODE_MEMORY = "1Gi", "128Mi"
"""Most that a pod of each kind takes: Python with a CUDA context (`sharing.host.RUNNER_MIB` is an engine with one), and
Python alone, which takes 24 MiB (Python 3.11.7, 2026-11-22)."""
CREDENTIALS = "/var/run/secrets/kubernetes.io/serviceaccount"


@dataclass(frozen=True)
class PluginPods:
    """How to find the device plugin's pods."""

    namespace: str
    selector: str


DEVICE_PLUGIN = PluginPods(DEVICE_PLUGIN_NAMESPACE, f"app.kubernetes.io/name={PLUGIN_CHART}")
"""Of the plugin's own chart, whatever its releases are called (templates/_helpers.tpl, selectorLabels)."""
GPU_OPERATOR = PluginPods(OPERATOR_NAMESPACE, "app=nvidia-device-plugin-daemonset")
"""Of the GPU Operator (assets/state-device-plugin/0500_daemonset.yaml)."""


@dataclass(frozen=True, kw_only=True)
class ShareProofArgs:
    """Inputs of ShareProof.

    Raises `ValueError` for a value that no field takes, an unknown GPU, and a sharing mode that it does not support.
    """

    sharing: Sharing
    """The mode, e.g. `Mps(replicas=2)`."""
    gpu: Gpu | str
    """The GPU of the nodes, e.g. `"t4"`."""
    gpus_per_node: int = 1
    """GPUs of one node."""
    instance_types: Sequence[str] = ()
    """EC2 types of those nodes; any when absent. While one type takes the place of another, nodes of both are there."""
    pool: str = "gpu"
    """Value of the node label `tandem/pool` of the nodes to prove."""
    namespace: str = "share-proof"
    """Namespace of the Jobs."""
    mode_taint: pulumi.Input[str] | None = None
    """Value of the nodes' taint `tandem/mode`, the mode's name when absent. Another one evicts the pods that tolerate
    the old one, and proves again."""
    plugin: PluginPods = field(default_factory=lambda: DEVICE_PLUGIN)
    """The pods of the device plugin: an error names them where a node advertises no share."""
    tolerations: Sequence[Mapping[str, str]] = ()
    """For taints of the nodes besides `nvidia.com/gpu` and `tandem/mode`, as Kubernetes writes tolerations."""

    def __post_init__(self) -> None:
        check_arguments(self)
        check_least(self, gpus_per_node=1)
        if problems := self.sharing.check(find_gpu(self.gpu)):
            raise ValueError(f"ShareProofArgs.{problems[0]}")


def shares_job(
    expected: ShareExpectation,
    args: ShareProofArgs,
    name: str,
    share: str,
    service: pulumi.Input[str],
    scripts: pulumi.Input[str],
    account: pulumi.Input[str],
) -> Manifest:
    """Spec of the Job that holds every expected share of one node at the same time, one pod each."""
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
        # Under MPS the mode is what it should be, and who gets no context does not reach the MPS daemon.
        "EXCLUSIVE_SECONDS": str(0 if expected.strategy == "mps" else EXCLUSIVE_SECONDS),
        # What of the driver NVIDIA's runtime mounts; the plugin says which device.
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
    }
    container = _container("shares", environment, SHARE_MEMORY)
    container["resources"]["limits"][expected.resource] = "1"
    pod = {
        **_pod(args, scripts, account, container),
        "securityContext": run_as(_user(args.sharing)),
        "subdomain": service,
        "automountServiceAccountToken": False,
    }
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
    """Spec of the Job that reads what the node says it offers."""
    environment = {
        "EXPECTATION": json.dumps(asdict(node_expectation(args.sharing, find_gpu(args.gpu), expected))),
        "LIMIT_SECONDS": str(NODE_SECONDS),
        "PAUSE_SECONDS": "5",
        "API_SERVER": "https://kubernetes.default.svc",
        "CREDENTIALS": CREDENTIALS,
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
    """A Job that tries once within `deadline` seconds, and stays: gone, it would be made again by the next update."""
    return {
        "backoffLimit": 0,
        "podFailurePolicy": {"rules": [DISRUPTED]},
        "activeDeadlineSeconds": deadline,
        "template": {"metadata": {"labels": {**labels}, "annotations": {**EVICTED_LAST}}, "spec": pod},
    }


def _pod(args: ShareProofArgs, scripts: pulumi.Input[str], account: pulumi.Input[str], container: Manifest) -> Manifest:
    # As the package that they are here: `python -m in_pod.shares`.
    items = [{"key": f"{script}.py", "path": f"in_pod/{script}.py"} for script in SCRIPTS]
    labels = args.sharing.node_labels(find_gpu(args.gpu))
    return {
        "restartPolicy": "Never",
        "serviceAccountName": account,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        # Not on a node of the mode before, that is about to go, nor on one that has still to be cut.
        "nodeSelector": {POOL_LABEL: args.pool, **labels, **args.sharing.ready_labels},
        "affinity": _of_types(args.instance_types),
        "tolerations": [
            *tolerations(args.mode_taint or args.sharing.config_name),
            *(dict(one) for one in args.tolerations),
        ],
        "containers": [container],
        "volumes": [{"name": "scripts", "configMap": {"name": scripts, "items": items}}],
    }


def _of_types(names: Sequence[str]) -> Manifest:
    """Affinity to nodes of these types."""
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
        # The root of the file system stays writable on shares: NVIDIA's runtime puts the driver into ld.so.cache.
        "securityContext": {**UNPRIVILEGED},
        "volumeMounts": [{"name": "scripts", "mountPath": FOLDER, "readOnly": True}],
        # The end of the log is the reason that `pulumi up` shows.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _user(sharing: Sharing) -> int:
    """User of the pods on shares. MPS serves one user at a time: the proof must go through the models' server."""
    return MODEL_USER if sharing.needs_mps_daemon else NOBODY


def security_level(sharing: Sharing) -> str:
    """Pod Security level of the namespace: the strictest that takes that user."""
    return "baseline" if _user(sharing) == ROOT else "restricted"


@cache
def script_texts() -> dict[str, str]:
    """The scripts as they are shipped, by file name."""
    folder = files(__package__) / "in_pod"
    return {f"{name}.py": (folder / f"{name}.py").read_text(encoding="utf-8") for name in SCRIPTS}
