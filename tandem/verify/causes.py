"""The likely cause of a failed check and its fix: one sentence each."""

import re
from collections.abc import Iterator, Sequence

from sharing.modes.mps_clients import MPS_UNIT, PIPE_DIRECTORY
from sharing.names import MODE_TAINT, OLLAMA_NAMESPACE, POOL_LABEL
from sharing.sections.pools import GpuPool
from sharing.verdict.quick import Fit
from stacks.stack_file.judge import Plan
from tandem.deployed.objects import (
    FORWARD_REFUSED,
    Object,
    condition,
    is_cordoned,
    is_ready,
    name,
    node_of,
    outranked,
    state,
    taint,
    tolerated,
)
from tandem.deployed.planned import Daemon, mps_daemons, what_would_fit

WRITTEN = re.compile(r"(.+)-[0-9a-f]{8}")
"""The value of the taint: a mode with its settings, and what changes with each way to partition a GPU."""
ALONE = "This cluster has nothing of stack {stack}. Pass another --context, or run `pulumi up --stack {stack}`."
SWITCH = (
    "The nodes have another mode than the file: a switch did not finish, or the file changed after the last `up`. "
    "Run `pulumi up --stack {stack}`, or verify the deployed stack."
)
CHANGED = (
    "The file changed after the last `up`, or somebody edited the Deployment. Run `pulumi up --stack {stack}`. If that "
    "changes nothing, run `kubectl -n {namespace} rollout undo deployment/{id}`."
)
OUTSIDE_MPS = (
    "Nothing limits its memory, and it can keep the other models from the GPU. It restarts when its daemon answers. "
    "If it does not, run `kubectl -n {namespace} rollout restart deployment/{id}`."
)
SHARES = (
    "With 0 shares, the device plugin found no GPU or cannot read its config. With another number, it has not read a "
    "new config yet. Check `kubectl -n {namespace} logs daemonset/{name}`."
)


def of_nodes(plan: Plan, pool: GpuPool, nodes: Sequence[Object], strays: Sequence[Object]) -> str:
    """Why a pool has too few ready nodes."""
    away = [node for node in nodes if not is_ready(node)]
    if strays:
        node = name(strays[0])
        return (
            f"{node} has this pool's mode but lost its label {POOL_LABEL}. "
            f"Run `kubectl label --overwrite node {node} {POOL_LABEL}={pool.name}`."
        )
    if leaving := [name(node) for node in away if "deletionTimestamp" in node["metadata"]]:
        return f"{leaving[0]} is being deleted, and a new node will replace it. Run the command again with --wait."
    if away:
        why = condition(away[0], "Ready", "False") or condition(away[0], "Ready", "Unknown")
        said = f" ({why.rstrip('.')})" if why else ""
        return (
            f"{name(away[0])} is not ready{said}. Run `kubectl describe node {name(away[0])}`. If the node does not "
            "recover, terminate its instance."
        )
    if plan.config.park:
        return (
            f"The schedule of `park` may have parked the stack. Run `tandem wake {plan.stack}`. If no node starts, run "
            f"`tandem doctor {plan.stack}`."
        )
    if pool.provisioner == "karpenter":
        return (
            "Karpenter has started no node: no spot capacity, no quota, or no pending pod. "
            f"Check `kubectl describe nodepool {pool.name}` and `kubectl get nodeclaims`."
        )
    return (
        "There is no spot capacity or no quota, or nodes cannot join: check the node group's activity in the EKS "
        "console. If capacity is missing, choose another instance type or `capacity: on-demand`."
    )


def of_daemon(plan: Plan, daemon: Daemon, desired: int | None) -> str:
    """Why a DaemonSet is not ready; `desired` is None where there is none."""
    if desired is None:
        return f"{daemon.namespace} has no DaemonSet {daemon.name}. Run `pulumi up --stack {plan.stack}`."
    if not desired:
        return f"{daemon.needs} Run `kubectl get nodes --show-labels`."
    return f"Its pods are not ready. Run `kubectl -n {daemon.namespace} describe pods`."


def of_missing_pod(plan: Plan, fit: Fit, deployment: Object | None) -> str:
    """Why a model has no pod."""
    if deployment is None:
        return f"Namespace {OLLAMA_NAMESPACE} has no release of this model. Run `pulumi up --stack {plan.stack}`."
    if deployment.get("spec", {}).get("replicas") == 0:
        if plan.config.park:
            return f"The schedule of `park` has scaled its Deployment to 0. Run `tandem wake {plan.stack}`."
        return f"Its Deployment is scaled to 0. {_kubectl(fit, 'scale --replicas=1')}"
    return f"Its Deployment has created no pod: a quota or a policy may refuse it. {_kubectl(fit, 'describe')}"


def of_waiting_pod(plan: Plan, fit: Fit, pod: Object, nodes: Sequence[Object], pods: Sequence[Object]) -> str:
    """Why a model's pod is not ready; `nodes` are those of its pool, and `pods` those of all models."""
    if above := outranked(pod, pods, fit.placement.shares.resource):
        return (
            f"{above[0].upper()}{above[1:]}. It starts when one is free: when all nodes are ready, and models that "
            "have spilled have restarted on their own pool."
        )
    return next(_waits(plan, fit, pod, nodes), f"Run `kubectl -n {OLLAMA_NAMESPACE} describe pod {name(pod)}`.")


def _waits(plan: Plan, fit: Fit, pod: Object, nodes: Sequence[Object]) -> Iterator[str]:
    """Causes, the most specific first. The scheduler counts the nodes by reason, one for each."""
    said, mode = state(pod), tolerated(pod, MODE_TAINT)
    # Kubernetes 1.36 does not name the taint (plugins/tainttoleration/taint_toleration.go).
    if "untolerated taint" in said and mode and any(taint(node, MODE_TAINT) not in ("", mode) for node in nodes):
        yield f"Its node has another mode: a switch did not finish. Run `pulumi up --stack {plan.stack}`."
    if "were unschedulable" in said:
        cordoned = next((name(node) for node in nodes if is_cordoned(node)), "NODE")
        yield f"Its node is cordoned. Run `kubectl uncordon {cordoned}`."
    if f"Insufficient {fit.placement.shares.resource}" in said:
        yield "Other pods hold the shares. Check Non-terminated Pods in `kubectl describe node`."
    if "Insufficient memory" in said or "Insufficient cpu" in said:
        yield "Other pods hold the node's memory or CPU. Check `kubectl describe node`."
    if "volume node affinity conflict" in said:
        yield f"Its volume and its node are in different zones. Run `pulumi up --stack {plan.stack}`."
    if "untolerated taint" in said and nodes:
        yield f"A taint of its node repels it. Run `kubectl describe node {name(nodes[0])}`."
    if "ImagePull" in said or "InvalidImageName" in said:
        yield _image(said, plan)
    if "no MPS daemon" in said:
        yield f"Its node shares the GPU in another mode. Run `pulumi up --stack {plan.stack}`."
    if "MPS daemon" in said and (daemons := mps_daemons(plan, fit)):
        yield _without_daemon(next(iter(daemons.values())))
    if fit.placement.shares.own_limits and "MPS" in said:
        yield f"It starts again once {MPS_UNIT} runs on its node. If that takes minutes, {_read_unit(pod)}."
    if fit.placement.shares.own_limits and "ContainerCreating" in said:
        events = f"`kubectl -n {OLLAMA_NAMESPACE} describe pod {name(pod)}`"
        yield f"Images take minutes. If {events} says that {PIPE_DIRECTORY} does not exist, {_read_unit(pod)}."
    if "spilled" in said or "did not load" in said:
        yield f"The GPU had less memory for it than planned.{_would_fit(what_would_fit(plan, fit, 0))}"
    if "cannot pull" in said:
        yield (
            f"Its container cannot pull {fit.served.model.name} from Ollama's registry. Check the tag, and the node's "
            "internet access."
        )
    if "CrashLoopBackOff" in said or "restart" in said:
        yield f"Its container keeps restarting. {_kubectl(fit, 'logs')}"
    if "ContainerCreating" in said or "PodInitializing" in said or "not ready" in said:
        logs = _kubectl(fit, "logs --all-containers")[4:]
        yield f"Pulling a model takes minutes. Run this again with --wait, or check {logs}"


def _without_daemon(daemon: Daemon) -> str:
    """The plugin does not restart an MPS daemon that has crashed, and its pod stays ready."""
    return (
        "It starts again once the MPS daemon on its node answers. If that takes minutes, run "
        f"`kubectl -n {daemon.namespace} rollout restart daemonset/{daemon.name}`."
    )


def _read_unit(pod: Object) -> str:
    """How to read the log of the node's MPS daemon, which is a unit there. A debug pod has the node's files in /host.

    Source: kubernetes.io, "Debugging Kubernetes Nodes With Kubectl".
    """
    debug = f"kubectl debug node/{node_of(pod)} -it --profile=sysadmin --image=busybox"
    return f"run `{debug} -- chroot /host journalctl -u {MPS_UNIT}`"


def _image(said: str, plan: Plan) -> str:
    if registry := plan.config.registry:
        copies = f"`tandem images {plan.stack} --format copy`"
        return (
            f"The image cannot be pulled. Check that {copies} has copied it, and that nodes may pull from {registry}."
        )
    # As containerd writes it (core/remotes/docker/resolver.go). The number alone may be a part of a digest.
    if "429 Too Many Requests" in said:
        return (
            "Docker Hub allows 100 pulls per address in six hours (429). Wait until kubelet's retry succeeds, and do "
            "not restart the pod."
        )
    return "The image cannot be pulled. Check its name, and the node's internet access (NAT, routes)."


def of_server(fit: Fit, step: str, said: str) -> str:
    """Why a server fails a `step` of its test."""
    if said.startswith(FORWARD_REFUSED):
        if "(403)" in said:
            return (
                # A WebSocket is a GET; from Kubernetes 1.35 it also needs `create` (kubernetes#134577).
                f"Your user may not forward ports. Request `get` and `create` on pods/portforward in namespace "
                f"{OLLAMA_NAMESPACE}, or the policy AmazonEKSClusterAdminPolicy."
            )
        return "The control plane cannot reach kubelet. Open TCP port 10250 from it to the nodes."
    if step == "held":
        return f"Its container pulls it at each start. {_kubectl(fit, 'rollout restart')}"
    if step == "loaded" and "memory" in said:
        return f"Another process uses the GPU. {_kubectl(fit, 'logs')}"
    return _kubectl(fit, "logs")


def of_context(fit: Fit) -> str:
    """Why a server has loaded its model with another context than its settings."""
    return (
        "A client requests another num_ctx, or the tag sets one: check `kubectl -n "
        f"{OLLAMA_NAMESPACE} exec deployment/{fit.served.id} -- ollama show {fit.served.model.name} --parameters`. "
        f"Set that context in the file, or reload the model with {_kubectl(fit, 'rollout restart')[4:]}"
    )


def of_spill(plan: Plan, fit: Fit, spilled: int) -> str:
    """What helps a model with this many bytes on the CPU."""
    return f"The GPU had less memory for it than planned.{_would_fit(what_would_fit(plan, fit, spilled))}"


def _would_fit(offers: Sequence[str]) -> str:
    return f" It would fit with {'; or '.join(offers)}." if offers else " Choose a smaller model."


def _kubectl(fit: Fit, verb: str) -> str:
    command, _, option = verb.partition(" --")
    return (
        f"Run `kubectl -n {OLLAMA_NAMESPACE} {command} deployment/{fit.served.id}{f' --{option}' if option else ''}`."
    )


def mode_of(node: Object) -> str:
    """The mode in a node's taint: `timeslice-2` of `timeslice-2-1a2b3c4d`; empty if it has no such taint."""
    value = taint(node, MODE_TAINT)
    written = WRITTEN.fullmatch(value)
    return written[1] if written else value
