"""The state of a stack, look after look."""

import datetime
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from sharing.names import OLLAMA_NAMESPACE
from tandem.deployed import objects
from tandem.deployed.connection import Connected, Reach, forwards
from tandem.deployed.endpoints import NotConnectedError
from tandem.deployed.objects import Object, nodes_of, pod_of
from tandem.deployed.ollama import Memory, Ollama, OllamaError, servers_of
from tandem.deployed.planned import mps_daemons
from tandem.watch import gpus
from tandem.watch.gpus import Gpu

if TYPE_CHECKING:
    from sharing.verdict.quick import Fit
    from stacks.stack_file.judge import Plan

ANSWER_SECONDS = 5.0
"""A healthy server answers quickly, however busy its model is."""
UNKNOWN = "unknown"
CLUSTER = "cluster: "


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLook:
    """One model."""

    id: str
    tag: str
    pod: str
    """Empty if there is none."""
    node: str
    state: str
    ready: bool
    restarts: int
    trouble: str
    """Why its server does not answer; empty if it does, or was not asked."""
    outside_mps: str
    """Why its process is not limited by its node's MPS daemon; empty if it is, or needs none."""
    memory: Memory | None
    """None while nothing is loaded."""
    tokens_per_s: float | None
    """Of a short prompt; None if not measured: Ollama keeps no counters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The state at one time."""

    at: datetime.datetime
    stack: str
    models: tuple[ModelLook, ...]
    gpus: tuple[Gpu, ...]
    trouble: tuple[str, ...]
    """Parts that could not be read."""
    events: tuple[str, ...] = ()
    """Changes since the previous look."""

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {**asdict(self), "at": self.at.isoformat()}


def looks(
    connected: Connected,
    *,
    probe: bool = False,
    interval: float,
    once: bool = False,
    reach: Reach = forwards,
    sleep: Callable[[float], None] = time.sleep,
) -> Generator[Look, None, None]:
    """Endless looks, or one if `once`. Raises `NotConnectedError` if the first fails; later looks contain the error."""
    with servers_of(connected, reach, ANSWER_SECONDS) as servers:
        before: Look | None = None
        while True:
            try:
                seen = _look(connected, servers, probe)
            except NotConnectedError as error:
                if before is None:
                    raise
                seen = lost(before, str(error))
            seen = with_events(before, seen)
            yield seen
            if once:
                return
            before = seen
            sleep(interval)


def _look(connected: Connected, servers: Mapping[str, Ollama], probe: bool) -> Look:
    plan, pods, nodes = connected.plan, connected.cluster.pods(), connected.cluster.nodes()
    models = tuple(_model(plan, fit, pods, nodes, servers[fit.served.id], probe) for fit in plan.verdict.fits)
    gpu_nodes = [objects.name(node) for pool in plan.config.pools for node in nodes_of(pool.name, nodes)]
    seen_gpus, notes = gpus.read(connected.cluster, gpu_nodes, pods)
    if not gpu_nodes:
        notes.append("no GPU node")
    return Look(at=now(), stack=plan.stack, models=models, gpus=tuple(seen_gpus), trouble=tuple(notes))


def _model(
    plan: "Plan", fit: "Fit", pods: Sequence[Object], nodes: Sequence[Object], server: Ollama, probe: bool
) -> ModelLook:
    id, resource = fit.served.id, fit.placement.shares.resource
    pod = pod_of(id, [each for each in pods if each["metadata"].get("namespace") == OLLAMA_NAMESPACE])
    memory, speed, trouble = None, None, ""
    if pod is not None and objects.is_ready(pod):
        try:
            memory = server.memory()
            if probe and memory is not None:
                _, speed = server.probe()
        except OllamaError as error:
            trouble = error.what
    above = objects.outranked(pod, pods, resource) if pod else ""
    daemon = objects.daemon_at(pod, mps_daemons(plan, fit), nodes)
    return ModelLook(
        id=id,
        tag=fit.served.model.name,
        pod=objects.name(pod) if pod else "",
        node=objects.node_of(pod) if pod else "",
        state=_state(pod, above) if pod else "no pod" if fit.pool.desired else "parked",
        ready=pod is not None and objects.is_ready(pod),
        restarts=objects.restarts(pod) if pod else 0,
        trouble=trouble,
        outside_mps=objects.outside_mps(pod, daemon.name, pods) if pod and daemon else "",
        memory=memory,
        tokens_per_s=speed or None,
    )


def _state(pod: Object, above: str) -> str:
    return ", ".join(filter(None, (objects.state(pod), above)))


def lost(before: Look, why: str) -> Look:
    """A look at a cluster that does not answer: everything is unknown, and old numbers are not repeated."""
    models = tuple(
        replace(model, state=UNKNOWN, ready=False, trouble="", outside_mps="", memory=None, tokens_per_s=None)
        for model in before.models
    )
    return replace(before, at=now(), models=models, gpus=(), trouble=(f"{CLUSTER}{why}",), events=())


def with_events(before: Look | None, seen: Look) -> Look:
    """The look with the changes since the previous one."""
    if before is None:
        return seen
    old = {model.id: model for model in before.models}
    events = [event for model in seen.models if model.id in old for event in _events(old[model.id], model)]
    if _cluster_is_lost(before) and not _cluster_is_lost(seen):
        events.append("the cluster answers again")
    return replace(seen, events=tuple(events))


def _events(old: ModelLook, new: ModelLook) -> Iterator[str]:
    if new.pod and old.pod and new.pod != old.pod:
        yield f"{new.id}: pod {old.pod} was replaced by {new.pod}"
    elif new.restarts > old.restarts:
        yield f"{new.id}: its container restarted ({new.state})"
    if new.trouble and not old.trouble:
        yield f"{new.id}: lost the connection: {new.trouble}"
    elif old.trouble and not new.trouble and new.ready:
        yield f"{new.id}: connected again"
    if new.outside_mps and not old.outside_mps:
        yield f"{new.id}: outside MPS ({new.outside_mps})"
    if old.ready and not new.ready and new.state != UNKNOWN:
        yield f"{new.id}: no longer ready ({new.state})"
    elif new.ready and not old.ready and old.state != UNKNOWN:
        yield f"{new.id}: ready"


def _cluster_is_lost(look: Look) -> bool:
    return any(line.startswith(CLUSTER) for line in look.trouble)


def now() -> datetime.datetime:
    """The time, to the second."""
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)
