"""ShareProof: Jobs that end well only when a node offers the promised shares, and the pods on them get them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, cast

import pulumi
import pulumi_kubernetes as k8s

from components.containers import MODEL_USER, NOBODY, ROOT, UNPRIVILEGED, pod_security, run_as
from components.network_policies import network_policy, to_proof
from components.share_promise import Promise, fingerprint, promises, to_node
from components.share_waits import EXCLUSIVE_SECONDS, NODE_SECONDS, PODS_SECONDS, STEP_SECONDS, minutes, waits
from sharing import versions
from sharing.gpus import Gpu
from sharing.modes import Sharing
from sharing.names import POOL_LABEL, PROOF_LABEL, PROOF_PORT, TOKEN, TYPE_LABEL, safe_name, tolerations

Manifest = dict[str, Any]
SCRIPTS = ("cuda_share", "share_prober", "share_verdict", "node_prober")
"""Modules of this package that run in the cluster, on their own."""
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


DEVICE_PLUGIN = PluginPods("nvidia-device-plugin", "app.kubernetes.io/name=nvidia-device-plugin")
"""Of the plugin's own chart, whatever its releases are called (templates/_helpers.tpl, selectorLabels)."""
GPU_OPERATOR = PluginPods("gpu-operator", "app=nvidia-device-plugin-daemonset")
"""Of the GPU Operator (assets/state-device-plugin/0500_daemonset.yaml)."""


@dataclass(frozen=True, kw_only=True)
class ShareProofArgs:
    """Inputs of ShareProof."""

    sharing: Sharing
    """The mode, e.g. `Mps(replicas=2)`."""
    gpu: Gpu
    """The card of the nodes, e.g. `gpus()["t4"]`."""
    gpus_per_node: int = 1
    """Cards of one node."""
    instance_types: Sequence[str] = ()
    """EC2 types of those nodes; any when absent. While one type takes the place of another, nodes of both are there."""
    pool: str = "gpu"
    """Value of the node label `tandem/pool` of the nodes to prove."""
    namespace: str = "share-proof"
    """Namespace of the Jobs."""
    mode_taint: pulumi.Input[str] | None = None
    """Value of the nodes' taint `tandem/mode`, the mode's name when absent. Another one takes the shares from whoever
    tolerated the old, and proves anew."""
    plugin: PluginPods = field(default_factory=lambda: DEVICE_PLUGIN)
    """The pods of the device plugin: an error names them where a node advertises no share."""
    tolerations: Sequence[Mapping[str, str]] = ()
    """For taints of the nodes besides `nvidia.com/gpu` and `tandem/mode`, as Kubernetes writes tolerations."""


class ShareProof(pulumi.ComponentResource):
    """Proves that the shares are real, anew whenever mode, replicas, layout or GPU change; no model may hold them then.

    A failed proof fails the update with what was promised and what was seen, and is made anew by the next one.
    """

    verified_shares: pulumi.Output[dict[str, Any]]
    """What was promised, by resource; known once it is proved."""

    def __init__(self, name: str, args: ShareProofArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(TOKEN.format("ShareProof"), name, None, opts)
        promised = promises(args.sharing, args.gpu, args.gpus_per_node)
        mark = fingerprint(promised)
        child, meta = pulumi.ResourceOptions(parent=self), k8s.meta.v1.ObjectMetaArgs
        anew = pulumi.ResourceOptions(replacement_trigger=args.mode_taint)
        namespace = k8s.core.v1.Namespace(
            f"{name}-namespace",
            metadata=meta(name=args.namespace, labels=pod_security(_level(args.sharing))),
            opts=child,
        ).metadata.name
        scripts = k8s.core.v1.ConfigMap(
            f"{name}-scripts", metadata=meta(name="scripts", namespace=namespace), data=script_texts(), opts=child
        ).metadata.name
        # The only ones with access to the API, and to nothing but nodes.
        reader = self._account(name, "node-prober", namespace)
        self._may_get_nodes(name, args.namespace, reader)
        prober = self._account(name, "share-prober", namespace)
        # Pods that start before it listen to the whole cluster.
        policy = network_policy(f"{name}-incoming", namespace, to_proof(), child)

        node = self._job(
            f"{name}-node-job",
            meta(name=f"node-{mark}", namespace=namespace),
            node_job(promised, args, scripts, reader),
            pulumi.ResourceOptions.merge(anew, pulumi.ResourceOptions(parent=self, depends_on=[policy])),
        )
        # While a plugin of the old mode still runs, pods would get its shares and fail for it.
        after_node = pulumi.ResourceOptions.merge(anew, pulumi.ResourceOptions(parent=self, depends_on=[node]))
        jobs = [node]
        for promise in promised:
            share = safe_name(f"shares-{promise.resource.rpartition('/')[2]}", 40)
            service = k8s.core.v1.Service(
                f"{name}-{share}",
                metadata=meta(name=share, namespace=namespace),
                spec=k8s.core.v1.ServiceSpecArgs(
                    # No address of its own: it gives each pod a name, also before that is ready.
                    cluster_ip="None",
                    publish_not_ready_addresses=True,
                    selector={PROOF_LABEL: share},
                ),
                opts=child,
            ).metadata.name
            job = f"{share}-{mark}"
            jobs.append(
                self._job(
                    f"{name}-{share}-job",
                    meta(name=job, namespace=namespace),
                    shares_job(promise, args, job, share, service, scripts, prober),
                    after_node,
                )
            )
        self.verified_shares = pulumi.Output.all(*(job.status for job in jobs)).apply(
            lambda _: {promise.resource: asdict(promise) for promise in promised}
        )
        self.register_outputs({"verifiedShares": self.verified_shares})

    def _account(self, name: str, role: str, namespace: pulumi.Input[str]) -> pulumi.Output[str]:
        account = k8s.core.v1.ServiceAccount(
            f"{name}-{role}",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=role, namespace=namespace),
            automount_service_account_token=False,
            opts=pulumi.ResourceOptions(parent=self),
        )
        return cast(pulumi.Output[str], account.metadata.name)

    def _may_get_nodes(self, name: str, namespace: str, account: pulumi.Input[str]) -> None:
        child = pulumi.ResourceOptions(parent=self)
        # Roles of the cluster have no namespace: the name keeps two proofs apart.
        meta = k8s.meta.v1.ObjectMetaArgs(name=f"{namespace}-node-prober")
        role = k8s.rbac.v1.ClusterRole(
            f"{name}-role",
            metadata=meta,
            rules=[k8s.rbac.v1.PolicyRuleArgs(api_groups=[""], resources=["nodes"], verbs=["get"])],
            opts=child,
        )
        k8s.rbac.v1.ClusterRoleBinding(
            f"{name}-binding",
            metadata=meta,
            role_ref=k8s.rbac.v1.RoleRefArgs(
                api_group="rbac.authorization.k8s.io", kind="ClusterRole", name=role.metadata.name
            ),
            subjects=[k8s.rbac.v1.SubjectArgs(kind="ServiceAccount", name=account, namespace=namespace)],
            opts=child,
        )

    def _job(
        self, name: str, meta: k8s.meta.v1.ObjectMetaArgs, spec: Manifest, opts: pulumi.ResourceOptions
    ) -> k8s.batch.v1.Job:
        """A Job that stays as it was made until promise or taint are others, or it has failed."""
        longer = minutes(spec["activeDeadlineSeconds"])
        meta.annotations = {"pulumi.com/replaceUnready": "true"}
        # A new image or taint would replace the Job, and its pods would wait for shares that the models hold.
        once = pulumi.ResourceOptions(
            ignore_changes=["spec"],
            # The next one may have the same name: of a switch that is taken back, or of a proof that failed.
            delete_before_replace=True,
            custom_timeouts=pulumi.CustomTimeouts(create=longer, update=longer),
        )
        return k8s.batch.v1.Job(
            name, metadata=meta, spec=cast(Any, spec), opts=pulumi.ResourceOptions.merge(opts, once)
        )


def shares_job(
    promise: Promise,
    args: ShareProofArgs,
    name: str,
    share: str,
    service: pulumi.Input[str],
    scripts: pulumi.Input[str],
    account: pulumi.Input[str],
) -> Manifest:
    """Spec of the Job that holds every promised share of one node at the same time, one pod each."""
    together = {
        "labelSelector": {"matchLabels": {PROOF_LABEL: share}},
        "topologyKey": "kubernetes.io/hostname",
    }
    environment = {
        "PROMISE": json.dumps(promise.to_pods()),
        "JUDGE": f"{name}-0.{share}",
        "SERVICE": share,
        "PORT": str(PROOF_PORT),
        "LIMIT_SECONDS": str(PODS_SECONDS),
        "BACK_SECONDS": str(waits(args.sharing).back),
        "STEP_SECONDS": str(STEP_SECONDS),
        # Under MPS the mode is what it should be, and who gets no context does not reach the MPS daemon.
        "EXCLUSIVE_SECONDS": str(0 if promise.strategy == "mps" else EXCLUSIVE_SECONDS),
        # What of the driver NVIDIA's runtime mounts; the plugin says which device.
        "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
    }
    container = _container("share_prober", environment, SHARE_MEMORY)
    container["resources"]["limits"][promise.resource] = "1"
    pod = {
        **_pod(args, scripts, account, container),
        "securityContext": run_as(_user(args.sharing)),
        "subdomain": service,
        "automountServiceAccountToken": False,
    }
    pod["affinity"]["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [together]}
    return {
        "completionMode": "Indexed",
        "completions": promise.pods,
        "parallelism": promise.pods,
        **_once({PROOF_LABEL: share}, pod, waits(args.sharing).pods_job),
    }


def node_job(
    promised: Sequence[Promise], args: ShareProofArgs, scripts: pulumi.Input[str], account: pulumi.Input[str]
) -> Manifest:
    """Spec of the Job that reads what the node says it offers."""
    environment = {
        "PROMISE": json.dumps(to_node(promised)),
        "LIMIT_SECONDS": str(NODE_SECONDS),
        "PAUSE_SECONDS": "5",
        "API_SERVER": "https://kubernetes.default.svc",
        "CREDENTIALS": CREDENTIALS,
        "PLUGIN_NAMESPACE": args.plugin.namespace,
        "PLUGIN_SELECTOR": args.plugin.selector,
    }
    container = _container("node_prober", environment, NODE_MEMORY)
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
    # As the package that they are here: `python -m components.share_prober`.
    items = [{"key": f"{script}.py", "path": f"components/{script}.py"} for script in SCRIPTS]
    return {
        "restartPolicy": "Never",
        "serviceAccountName": account,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        # Not on a node of the mode before, that is about to go, nor on one that has still to be cut.
        "nodeSelector": {POOL_LABEL: args.pool, **args.sharing.node_labels(args.gpu), **args.sharing.ready_labels},
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
        "command": ["python", "-u", "-B", "-m", f"components.{script}"],
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


def _level(sharing: Sharing) -> str:
    """Pod Security level of the namespace: the strictest that takes that user."""
    return "baseline" if _user(sharing) == ROOT else "restricted"


@cache
def script_texts() -> dict[str, str]:
    """The scripts as they are shipped, by file name."""
    return {f"{name}.py": files("components").joinpath(f"{name}.py").read_text(encoding="utf-8") for name in SCRIPTS}
