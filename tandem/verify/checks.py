"""Compares what is expected of a stack with what was found: a row for each check. Makes no requests."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sharing.models.catalogue import MIB
from sharing.names import MODE_TAINT, POOL_LABEL, TYPE_LABEL
from sharing.printable import one_line
from tandem.deployed.change import compare
from tandem.deployed.endpoints import NotConnectedError
from tandem.deployed.expected import BATCH, Daemon, ExpectedModel, ExpectedPool, ExpectedStack
from tandem.deployed.objects import (
    Facts,
    Object,
    allocatable,
    condition,
    is_ready,
    labels,
    mps_daemon_of,
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


def stack_checks(expected: ExpectedStack, outputs: Mapping[str, Any] | None) -> Iterator[Check]:
    """Whether the deployed stack matches the file; nothing without Pulumi's outputs."""
    if outputs is None:
        return
    try:
        differing = list(_differences(expected, outputs))
    except NotConnectedError as error:
        differing = [str(error)]
    yield Check(
        about="stack",
        what="matches its file",
        held=not differing,
        expected="matches",
        found=one_line("; ".join(differing)) or "matches",
        fix=f"The file changed after the last `up`. Run `pulumi up --stack {expected.stack}`.",
    )


def _differences(expected: ExpectedStack, outputs: Mapping[str, Any]) -> Iterator[str]:
    """The changes that `tandem plan --running` shows."""
    compared = compare(expected.config, read_outputs(outputs, "the outputs", expected.stack))
    yield from (f"pool {name} is not deployed" for name in compared.new)
    for change in compared.changes:
        yield f"pool {change.pool.name} is deployed as {change.before}, not {change.after}"
    yield from (f"pool {name} is still deployed" for name in sorted(compared.gone))
    yield from (f"model {id} is not deployed" for id in compared.new_models)
    yield from (f"model {id} is still deployed" for id in sorted(compared.gone_models))


def pool_checks(pool: ExpectedPool, facts: Facts) -> Iterator[Check]:
    """Nodes, their DaemonSets, the labels these set, and the shares that result: cause before effect."""
    about, nodes = f"pool {pool.name}", nodes_of(pool.name, facts)
    ready = [node for node in nodes if is_ready(node)]
    if pool.nodes:
        yield _mode(about, pool, nodes)
    yield _nodes_ready(about, pool, nodes, facts)
    if pool.nodes:
        yield from (_daemon(about, daemon, pool, facts) for daemon in pool.daemons)
        yield from (_label(about, label, value, pool, ready) for label, value in pool.labels.items())
        yield from (_offered(about, resource, pool, ready) for resource in pool.shares)


def _mode(about: str, pool: ExpectedPool, nodes: Sequence[Object]) -> Check:
    """The mode that the nodes were created for: a wrong one explains all later failures."""
    tainted = [node for node in nodes if taint(node, MODE_TAINT)]
    wrong = [f"{causes.mode_of(node)} on {name(node)}" for node in tainted if causes.mode_of(node) != pool.config]
    return Check(
        about=about,
        what="mode",
        held=not wrong if tainted else None,
        expected=pool.config,
        found=", ".join(wrong) or (pool.config if tainted else f"no node with the taint {MODE_TAINT}"),
        fix=causes.SWITCH.format(stack=pool.stack),
    )


def _nodes_ready(about: str, pool: ExpectedPool, nodes: Sequence[Object], facts: Facts) -> Check:
    ready = sum(map(is_ready, nodes))
    others = ", ".join(name(node) for node in nodes if not is_ready(node))
    strays = [] if nodes else [node for node in facts.nodes if _strayed(node, pool)]
    alone = not (nodes or strays or facts.pods or facts.deployments or any(facts.daemon_sets.values()))
    return Check(
        about=about,
        what="nodes ready",
        held=ready >= pool.nodes,
        expected=f"{pool.nodes}",
        found=f"{ready}{f' (not ready: {others})' if others else ''}",
        fix=causes.ALONE.format(stack=pool.stack) if alone else causes.of_nodes(pool, nodes, strays),
    )


def _strayed(node: Object, pool: ExpectedPool) -> bool:
    """Whether a node was created for the pool and no longer has its label."""
    return causes.mode_of(node) == pool.config and labels(node).get(POOL_LABEL) not in pool.others


def _daemon(about: str, daemon: Daemon, pool: ExpectedPool, facts: Facts) -> Check:
    daemon_sets = facts.daemon_sets.get(daemon.namespace, ())
    daemon_set = next((each for each in daemon_sets if name(each) == daemon.name), None)
    status = daemon_set.get("status", {}) if daemon_set else {}
    desired, ready = status.get("desiredNumberScheduled", 0), status.get("numberReady", 0)
    return Check(
        about=about,
        what=f"{daemon.what} ready",
        held=bool(daemon_set) and ready >= max(desired, pool.nodes),
        expected=f"on {pool.nodes} {'node' if pool.nodes == 1 else 'nodes'}",
        found=f"{ready} of {desired} ready" if daemon_set else f"no DaemonSet {daemon.namespace}/{daemon.name}",
        fix=causes.of_daemon(daemon, pool, desired if daemon_set else None),
    )


def _label(about: str, label: str, value: str, pool: ExpectedPool, nodes: Sequence[Object]) -> Check:
    wrong = [
        f"{labels(node).get(label, 'no label')} on {name(node)}" for node in nodes if labels(node).get(label) != value
    ]
    return Check(
        about=about,
        what=label.removeprefix("nvidia.com/"),
        held=not wrong if nodes else None,
        expected=value,
        found=", ".join(wrong) or value if nodes else NO_NODE,
        fix=f"The node's label {label} is set by feature discovery, or by the node group. No label for minutes: "
        "feature discovery does not run there. Another value: the node serves another mode. Run "
        f"`pulumi up --stack {pool.stack}`.",
    )


def _offered(about: str, resource: str, pool: ExpectedPool, nodes: Sequence[Object]) -> Check:
    due = {name(node): pool.allocatable(labels(node).get(TYPE_LABEL, ""))[resource] for node in nodes}
    wrong = [
        f"{allocatable(node, resource)} on {name(node)}"
        for node in nodes
        if allocatable(node, resource) != due[name(node)]
    ]
    expected = " or ".join(map(str, sorted(set(due.values())))) or str(pool.allocatable("")[resource])
    return Check(
        about=about,
        what=f"{resource} per node",
        held=not wrong if nodes else None,
        expected=expected,
        found=", ".join(wrong) or expected if nodes else NO_NODE,
        fix=causes.SHARES.format(namespace=pool.daemons[0].namespace, name=pool.daemons[0].name),
    )


def model_checks(model: ExpectedModel, facts: Facts) -> Iterator[Check]:
    """A model's settings, its pod's node and its share."""
    about = f"model {model.id}"
    pod, nodes = pod_of(model.id, facts.pods), nodes_of(model.pool, facts)
    deployment = next((each for each in facts.deployments if name(each) == model.id), None)
    if not model.running:
        fix = f"The file parks it, but the deployed stack does not. Run `pulumi up --stack {model.stack}`."
        found = name(pod) if pod else "no pod"
        yield Check(about=about, what="parked", held=pod is None, expected="no pod", found=found, fix=fix)
        if deployment:
            yield _settings(about, model, deployment)
        return
    yield _settings(about, model, pod)
    refused = condition(deployment, "ReplicaFailure", "True") if deployment and not pod else ""
    yield Check(
        about=about,
        what="pod ready",
        held=pod is not None and is_ready(pod),
        expected="ready",
        found=state(pod) if pod else f"no pod{f': {refused}' if refused else ''}",
        fix=causes.of_waiting_pod(model, pod, nodes, facts.pods) if pod else causes.of_missing_pod(model, deployment),
    )
    node, pools = node_of(pod) if pod else "", [model.pool, *model.spill]
    yield Check(
        about=about,
        what="on a node of its pool",
        held=any(node in map(name, nodes_of(pool, facts)) for pool in pools) if node else None,
        expected=f"pool {' or '.join(pools)}",
        found=node or "on no node",
        fix=f"The node lost its label {POOL_LABEL}, or somebody edited the pod's nodeSelector. Run "
        f"`kubectl get node {node} --show-labels`.",
    )
    yield Check(
        about=about,
        what="holds one share",
        held=requested(pod, model.resource) == 1 if pod else None,
        expected=f"1 {model.resource}",
        found=f"{requested(pod, model.resource)} {model.resource}" if pod else "no pod",
        fix=f"A pod that requests no share may see every GPU. Run `pulumi up --stack {model.stack}`.",
    )
    yield from _in_mps(about, model, pod, facts)


def _in_mps(about: str, model: ExpectedModel, pod: Object | None, facts: Facts) -> Iterator[Check]:
    """Whether its process is a client of the node's MPS daemon. Nothing on a node of another mode."""
    daemon = mps_daemon_of(pod, model, facts)
    if not model.mps_daemons or (daemon is None and pod and node_of(pod)):
        return
    runs = pod is not None and is_ready(pod)
    outside = outside_mps(pod, daemon.name, facts.mps_pods) if pod and daemon else ""
    yield Check(
        about=about,
        what="in MPS",
        held=not outside if outside or runs else None,
        expected="a client of the MPS daemon",
        found=f"outside MPS: {outside}" if outside else "a client of the MPS daemon" if runs else "not running",
        fix=causes.OUTSIDE_MPS.format(namespace=model.namespace, id=model.id),
    )


def _settings(about: str, model: ExpectedModel, started: Object | None) -> Check:
    """The settings of its server: context, slots, KV type, batch and others in the file.

    `started` is its pod; of a parked model, which has none, its Deployment.
    """
    own = settings(started) if started else {}
    wrong = [
        f"{SETTINGS.get(key, key)} {own.get(key) or 'not set'}, not {value}"
        for key, value in model.settings.items()
        if own.get(key) != value
    ]
    expected = ", ".join(f"{SETTINGS[key]} {value}" for key, value in model.settings.items() if key in SETTINGS)
    return Check(
        about=about,
        what="settings",
        held=not wrong if started else None,
        expected=expected,
        found="; ".join(wrong) or expected if started else "no pod",
        fix=causes.CHANGED.format(stack=model.stack, namespace=model.namespace, id=model.id),
    )


def server_checks(model: ExpectedModel, server: Server | None) -> Iterator[Check]:
    """Whether a model's server has it, loads it, answers, and has all of it on the GPU; None = not asked."""
    if not model.running:
        return
    about = f"model {model.id}"
    for step, what, expected in (
        ("version", "server answers", "an answer"),
        ("held", "has its model", model.tag),
        ("loaded", "loads its model", "loaded"),
        ("answered", "answers a prompt", "an answer"),
    ):
        outcome = server.outcomes.get(step) if server else None
        held, found = (outcome.fine, outcome.text) if outcome else (None, "not asked")
        fix = causes.of_server(model, step, found)
        yield Check(about=about, what=what, held=held, expected=expected, found=found, fix=fix)
    memory = server.memory if server else None
    yield Check(
        about=about,
        what="context",
        held=memory.context == model.context if memory else None,
        expected=f"{model.context:,} tokens",
        found=f"{memory.context:,} tokens" if memory else "not asked",
        fix=causes.of_context(model),
    )
    yield _whole(about, model, server)


def _whole(about: str, model: ExpectedModel, server: Server | None) -> Check:
    """All layers on the GPU: since Ollama 0.30, only then are both sizes equal."""
    what, expected = "all layers on the GPU", "100 %"
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
            f"`kubectl -n {model.namespace} logs deployment/{model.id}`."
        )
    else:
        part = 100 * memory.size_vram / memory.size
        found = f"{part:.0f} %: {_mib(spilled)} of {_mib(memory.size)} spilled to the CPU"
        fix = causes.of_spill(model, spilled)
    return Check(about=about, what=what, held=False, expected=expected, found=found, fix=fix)


def _mib(size: int) -> str:
    return f"{size / MIB:,.0f} MiB"
