"""Compares what is expected of a stack with what was found: a row for each check. Makes no requests."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sharing.models.catalogue import MIB
from sharing.modes.mps_clients import MEMORY_VARIABLE, PIPE_DIRECTORY, PIPE_VARIABLE, THREADS_VARIABLE
from sharing.names import MODE_TAINT, OLLAMA_NAMESPACE, POOL_LABEL, TYPE_LABEL
from sharing.printable import counted, one_line
from sharing.sections.pools import GpuPool
from sharing.verdict.quick import Fit
from stacks.stack_file.judge import Plan
from tandem.deployed.change import compare
from tandem.deployed.endpoints import NotConnectedError
from tandem.deployed.objects import (
    Facts,
    Object,
    allocatable,
    condition,
    daemon_at,
    is_ready,
    labels,
    mounts,
    name,
    node_of,
    nodes_of,
    outside_mps,
    pod_of,
    requested,
    settings,
    state,
    taint,
)
from tandem.deployed.outputs import read_outputs
from tandem.deployed.planned import (
    BATCH,
    Daemon,
    daemons_of,
    labels_of,
    limits_of,
    mps_daemons,
    pools_of,
    settings_of,
    shares_of,
)
from tandem.verify import causes
from tandem.verify.servers import Server

NO_NODE = "no node is ready"
SETTINGS = {
    "OLLAMA_CONTEXT_LENGTH": "context",
    "OLLAMA_NUM_PARALLEL": "slots",
    "OLLAMA_KV_CACHE_TYPE": "KV type",
    "LLAMA_ARG_CACHE_RAM": "prompt cache (MiB)",
    BATCH: "batch",
}
"""The stack file's names for the settings of a server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One expectation and what was found."""

    about: str
    """Its subject: `stack`, `pool gpu`, `model llama2-7b`."""
    what: str
    held: bool | None
    """None if it could not be checked, because an earlier one failed."""
    expected: str
    found: str
    fix: str = ""
    """How to repair it."""


def stack_checks(plan: Plan, outputs: Mapping[str, Any] | None) -> Iterator[Check]:
    """Whether the deployed stack matches the file; nothing without Pulumi's outputs."""
    if outputs is None:
        return
    try:
        differing = list(_differences(plan, outputs))
    except NotConnectedError as error:
        differing = [str(error)]
    yield Check(
        about="stack",
        what="matches its file",
        held=not differing,
        expected="matches",
        found=one_line("; ".join(differing)) or "matches",
        fix=f"The file changed after the last `up`. Run `pulumi up --stack {plan.stack}`.",
    )


def _differences(plan: Plan, outputs: Mapping[str, Any]) -> Iterator[str]:
    """The changes that `tandem plan --running` shows."""
    compared = compare(plan.config, read_outputs(outputs, "the outputs", plan.stack))
    yield from (f"pool {name} is not deployed" for name in compared.new)
    for change in compared.changes:
        yield f"pool {change.pool.name} is deployed as {change.before}, not {change.after}"
    yield from (f"pool {name} is still deployed" for name in sorted(compared.gone))
    yield from (f"model {id} is not deployed" for id in compared.new_models)
    yield from (f"model {id} is still deployed" for id in sorted(compared.gone_models))


def pool_checks(plan: Plan, pool: GpuPool, due: int, facts: Facts) -> Iterator[Check]:
    """Nodes, of which `due` must be there, their DaemonSets, the labels these set, and the shares that result: cause
    before effect.
    """
    nodes = nodes_of(pool.name, facts.nodes)
    ready = [node for node in nodes if is_ready(node)]
    if due:
        yield _mode(plan, pool, nodes)
    yield _nodes_ready(plan, pool, nodes, due, facts)
    if due:
        yield from (_daemon(plan, pool, daemon, due, facts) for daemon in daemons_of(pool))
        yield from (_label(plan, pool, label, value, ready) for label, value in labels_of(pool).items())
        yield from (_offered(pool, kind.resource, ready) for kind in pool.offers)


def _mode(plan: Plan, pool: GpuPool, nodes: Sequence[Object]) -> Check:
    """The mode that the nodes were created for: a wrong one explains all later failures."""
    tainted, planned = [node for node in nodes if taint(node, MODE_TAINT)], pool.sharing.config_name
    wrong = [f"{causes.mode_of(node)} on {name(node)}" for node in tainted if causes.mode_of(node) != planned]
    return Check(
        about=f"pool {pool.name}",
        what="mode",
        held=not wrong if tainted else None,
        expected=planned,
        found=", ".join(wrong) or (planned if tainted else f"no node with the taint {MODE_TAINT}"),
        fix=causes.SWITCH.format(stack=plan.stack),
    )


def _nodes_ready(plan: Plan, pool: GpuPool, nodes: Sequence[Object], due: int, facts: Facts) -> Check:
    ready = sum(map(is_ready, nodes))
    others = ", ".join(name(node) for node in nodes if not is_ready(node))
    strays = [] if nodes else [node for node in facts.nodes if _strayed(node, plan, pool)]
    alone = not (nodes or strays or facts.pods or facts.deployments or any(facts.daemon_sets.values()))
    return Check(
        about=f"pool {pool.name}",
        what="nodes ready",
        held=ready >= due,
        expected=f"{due}",
        found=f"{ready}{f' (not ready: {others})' if others else ''}",
        fix=causes.ALONE.format(stack=plan.stack) if alone else causes.of_nodes(plan, pool, nodes, strays),
    )


def _strayed(node: Object, plan: Plan, pool: GpuPool) -> bool:
    """Whether a node was created for the pool and no longer has its label."""
    pools = {each.name for each in plan.config.pools}
    return causes.mode_of(node) == pool.sharing.config_name and labels(node).get(POOL_LABEL) not in pools


def _daemon(plan: Plan, pool: GpuPool, daemon: Daemon, due: int, facts: Facts) -> Check:
    daemon_sets = facts.daemon_sets.get(daemon.namespace, ())
    daemon_set = next((each for each in daemon_sets if name(each) == daemon.name), None)
    status = daemon_set.get("status", {}) if daemon_set else {}
    desired, ready = status.get("desiredNumberScheduled", 0), status.get("numberReady", 0)
    return Check(
        about=f"pool {pool.name}",
        what=f"{daemon.what} ready",
        held=bool(daemon_set) and ready >= max(desired, due),
        expected=f"on {counted(due, 'node')}",
        found=f"{ready} of {desired} ready" if daemon_set else f"no DaemonSet {daemon.namespace}/{daemon.name}",
        fix=causes.of_daemon(plan, daemon, desired if daemon_set else None),
    )


def _label(plan: Plan, pool: GpuPool, label: str, value: str, nodes: Sequence[Object]) -> Check:
    wrong = [
        f"{labels(node).get(label, 'no label')} on {name(node)}" for node in nodes if labels(node).get(label) != value
    ]
    return Check(
        about=f"pool {pool.name}",
        what=label.removeprefix("nvidia.com/"),
        held=not wrong if nodes else None,
        expected=value,
        found=", ".join(wrong) or value if nodes else NO_NODE,
        fix=f"The node's label {label} is set by feature discovery, or by the node group. No label for minutes: "
        "feature discovery does not run there. Another value: the node serves another mode. Run "
        f"`pulumi up --stack {plan.stack}`.",
    )


def _offered(pool: GpuPool, resource: str, nodes: Sequence[Object]) -> Check:
    due = {name(node): shares_of(pool, labels(node).get(TYPE_LABEL, ""))[resource] for node in nodes}
    wrong = [
        f"{allocatable(node, resource)} on {name(node)}"
        for node in nodes
        if allocatable(node, resource) != due[name(node)]
    ]
    expected = " or ".join(map(str, sorted(set(due.values())))) or str(shares_of(pool, "")[resource])
    plugin = daemons_of(pool)[0]
    return Check(
        about=f"pool {pool.name}",
        what=f"{resource} per node",
        held=not wrong if nodes else None,
        expected=expected,
        found=", ".join(wrong) or expected if nodes else NO_NODE,
        fix=causes.SHARES.format(namespace=plugin.namespace, name=plugin.name),
    )


def model_checks(plan: Plan, fit: Fit, facts: Facts) -> Iterator[Check]:
    """A model's settings, its pod's node and its share."""
    id, resource = fit.served.id, fit.placement.shares.resource
    about = f"model {id}"
    pod, nodes = pod_of(id, facts.pods), nodes_of(fit.pool.name, facts.nodes)
    deployment = next((each for each in facts.deployments if name(each) == id), None)
    if not fit.pool.desired:
        fix = f"The file parks it, but the deployed stack does not. Run `pulumi up --stack {plan.stack}`."
        found = name(pod) if pod else "no pod"
        yield Check(about=about, what="parked", held=pod is None, expected="no pod", found=found, fix=fix)
        if deployment:
            yield _settings(plan, fit, deployment)
        return
    yield _settings(plan, fit, pod)
    refused = condition(deployment, "ReplicaFailure", "True") if deployment and not pod else ""
    yield Check(
        about=about,
        what="pod ready",
        held=pod is not None and is_ready(pod),
        expected="ready",
        found=state(pod) if pod else f"no pod{f': {refused}' if refused else ''}",
        fix=causes.of_waiting_pod(plan, fit, pod, nodes, facts.pods)
        if pod
        else causes.of_missing_pod(plan, fit, deployment),
    )
    node, pools = node_of(pod) if pod else "", [pool.name for pool in pools_of(plan, fit)]
    yield Check(
        about=about,
        what="on a node of its pool",
        held=any(node in map(name, nodes_of(pool, facts.nodes)) for pool in pools) if node else None,
        expected=f"pool {' or '.join(pools)}",
        found=node or "on no node",
        fix=f"The node lost its label {POOL_LABEL}, or somebody edited the pod's nodeSelector. Run "
        f"`kubectl get node {node} --show-labels`.",
    )
    yield Check(
        about=about,
        what="holds one share",
        held=requested(pod, resource) == 1 if pod else None,
        expected=f"1 {resource}",
        found=f"{requested(pod, resource)} {resource}" if pod else "no pod",
        fix=f"A pod that requests no share may see every GPU. Run `pulumi up --stack {plan.stack}`.",
    )
    yield from _in_mps(plan, fit, pod, facts)
    yield from _limits(plan, fit, pod)


def _in_mps(plan: Plan, fit: Fit, pod: Object | None, facts: Facts) -> Iterator[Check]:
    """Whether its process is a client of the node's MPS daemon. Nothing on a node of another mode."""
    daemons = mps_daemons(plan, fit)
    daemon = daemon_at(pod, daemons, facts.nodes)
    if not daemons or (daemon is None and pod and node_of(pod)):
        return
    runs = pod is not None and is_ready(pod)
    outside = outside_mps(pod, daemon.name, facts.mps_pods) if pod and daemon else ""
    yield Check(
        about=f"model {fit.served.id}",
        what="in MPS",
        held=not outside if outside or runs else None,
        expected="a client of the MPS daemon",
        found=f"outside MPS: {outside}" if outside else "a client of the MPS daemon" if runs else "not running",
        fix=causes.OUTSIDE_MPS.format(namespace=OLLAMA_NAMESPACE, id=fit.served.id),
    )


def _limits(plan: Plan, fit: Fit, pod: Object | None) -> Iterator[Check]:
    """Whether its process has the limits of the plan, and the directory of the node's MPS daemon, which enforces them.

    Nobody reports whether a process is a client of that daemon: a model outside MPS is not ready.
    """
    planned, shares = limits_of(fit), fit.placement.shares
    if not planned:
        return
    own = settings(pod) if pod else {}
    wrong = [
        f"{key} {own.get(key) or 'not set'}, not {planned.get(key) or 'set'}"
        for key in (PIPE_VARIABLE, MEMORY_VARIABLE, THREADS_VARIABLE)
        if own.get(key) != planned.get(key)
    ]
    if pod and PIPE_DIRECTORY not in mounts(pod):
        wrong.append(f"{PIPE_DIRECTORY} not mounted")
    expected = (
        f"{shares.memory_mib:,} MiB, {'all' if shares.threads == 1 else f'{shares.threads_percent} % of the'} threads"
    )
    yield Check(
        about=f"model {fit.served.id}",
        what="limits",
        held=not wrong if pod else None,
        expected=expected,
        found=("; ".join(wrong) or expected) if pod else "no pod",
        fix=causes.CHANGED.format(stack=plan.stack, namespace=OLLAMA_NAMESPACE, id=fit.served.id),
    )


def _settings(plan: Plan, fit: Fit, started: Object | None) -> Check:
    """The settings of its server: context, slots, KV type, batch and others in the file.

    `started` is its pod; of a parked model, which has none, its Deployment.
    """
    own, planned = settings(started) if started else {}, settings_of(fit.served)
    wrong = [
        f"{SETTINGS.get(key, key)} {own.get(key) or 'not set'}, not {value}"
        for key, value in planned.items()
        if own.get(key) != value
    ]
    expected = ", ".join(f"{SETTINGS[key]} {value}" for key, value in planned.items() if key in SETTINGS)
    return Check(
        about=f"model {fit.served.id}",
        what="settings",
        held=not wrong if started else None,
        expected=expected,
        found="; ".join(wrong) or expected if started else "no pod",
        fix=causes.CHANGED.format(stack=plan.stack, namespace=OLLAMA_NAMESPACE, id=fit.served.id),
    )


def server_checks(plan: Plan, fit: Fit, server: Server | None) -> Iterator[Check]:
    """Whether a model's server has it, loads it, answers, and has all of it on the GPU; None = not asked."""
    if not fit.pool.desired:
        return
    about, context = f"model {fit.served.id}", fit.served.effective_context
    for step, what, expected in (
        ("version", "server answers", "an answer"),
        ("held", "has its model", fit.served.model.name),
        ("loaded", "loads its model", "loaded"),
        ("answered", "answers a prompt", "an answer"),
    ):
        outcome = server.outcomes.get(step) if server else None
        held, found = (outcome.fine, outcome.text) if outcome else (None, "not asked")
        fix = causes.of_server(fit, step, found)
        yield Check(about=about, what=what, held=held, expected=expected, found=found, fix=fix)
    memory = server.memory if server else None
    yield Check(
        about=about,
        what="context",
        held=memory.context == context if memory else None,
        expected=f"{context:,} tokens",
        found=f"{memory.context:,} tokens" if memory else "not asked",
        fix=causes.of_context(fit),
    )
    yield _whole(plan, fit, server)


def _whole(plan: Plan, fit: Fit, server: Server | None) -> Check:
    """All layers on the GPU: since Ollama 0.30, only then are both sizes equal."""
    about, what, expected = f"model {fit.served.id}", "all layers on the GPU", "100 %"
    memory = server.memory if server else None
    if memory is None:
        # A server that loaded its model and no longer lists it: a client unloaded it, or it crashed.
        gone = server is not None and "answered" in server.outcomes
        found = "no longer loaded" if gone else "not asked"
        fix = "The server restarted, or a client unloaded the model. Run the command again."
        return Check(about=about, what=what, held=False if gone else None, expected=expected, found=found, fix=fix)
    spilled = memory.size - memory.size_vram
    if memory.size and spilled <= 0:
        found = f"100 % of {_mib(memory.size)}"
        return Check(about=about, what=what, held=True, expected=expected, found=found)
    if memory.size_vram <= 0:
        found = "0 %: it runs on the CPU"
        fix = (
            "The server uses no GPU. Check 'inference compute' in its log: run "
            f"`kubectl -n {OLLAMA_NAMESPACE} logs deployment/{fit.served.id}`."
        )
    else:
        part = 100 * memory.size_vram / memory.size
        found = f"{part:.0f} %: {_mib(spilled)} of {_mib(memory.size)} spilled to the CPU"
        fix = causes.of_spill(plan, fit, spilled)
    return Check(about=about, what=what, held=False, expected=expected, found=found, fix=fix)


def _mib(size: int) -> str:
    return f"{size / MIB:,.0f} MiB"
