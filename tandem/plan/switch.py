"""The steps of `pulumi up` when the sharing of a running stack changes, and the downtime of its models."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sharing.artifacts import images_mib
from sharing.cost.quotas import Quota, quotas, vcpu_quota
from sharing.hardware.gpus import instance_types
from sharing.models.served import ServedModel
from sharing.printable import counted
from sharing.sections.config import StackConfig
from sharing.sections.pools import Capacity
from sharing.sections.startup import (
    COMPILE_MINUTES,
    COMPILE_UNCERTAINTY,
    DAEMON_SET,
    NODE_CLAIM,
    download_minutes,
    known_times,
    load_minutes,
    weights_mib,
)
from stacks.outputs import StackOutputs
from tandem.deployed.change import Change, compare, cuts
from tandem.dry_run.startup import RELEASE

NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
NODE_POOL = "kubernetes:karpenter.sh/v1:NodePool"
JOB = "kubernetes:batch/v1:Job"
EVICTION = "kubernetes:core/v1:Pod evict"

Kind = Literal["stop", "nodes", "plugin", "proof", "start"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Something that `up` does or waits for."""

    kind: Kind
    what: str
    minutes: float
    plus_minus: float
    away: bool
    """Whether the models are unavailable during the step."""
    model: str = ""
    """The model that the step is about; empty for all models of the pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Downtime:
    """How long a model is unavailable."""

    model: str
    minutes: float
    plus_minus: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Vcpus:
    """vCPUs of GPU nodes that count towards one quota."""

    quota: Quota
    most: int
    """The most at any time during the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """A pool whose sharing changes."""

    pool: str
    before: str
    """Mode and settings, with whatever else changes, e.g. `timeslice-2 on t4`."""
    after: str
    stops: tuple[str, ...]
    """Ids of the running models that are stopped."""
    parks: bool
    """Whether no node is left, so that the models stay unavailable."""
    steps: tuple[Step, ...]
    """In order of execution."""
    replaced: tuple[str, ...]
    """Types of the resources that are deleted and created again."""
    vcpus: tuple[Vcpus, ...]
    """The vCPUs that the pool needs during the switch, by quota; empty if the outputs do not say enough."""

    @property
    def downtimes(self) -> tuple[Downtime, ...]:
        """Of each model that is stopped and started again."""
        return () if self.parks else tuple(self._downtime(model) for model in self.stops)

    def _downtime(self, model: str) -> Downtime:
        steps = [step for step in self.steps if step.away and step.model in ("", model)]
        minutes = sum(step.minutes for step in steps)
        return Downtime(model=model, minutes=minutes, plus_minus=math.hypot(*(step.plus_minus for step in steps)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """A running model whose limit changes, in a pool that keeps its mode."""

    before_mib: int
    after_mib: int
    downtime: Downtime


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """The changes to the pools of a running stack."""

    pools: tuple[Switch, ...]
    """Those whose sharing changes."""
    restarts: tuple[Restart, ...]
    """In the other pools. The outputs do not tell every change that restarts a model."""
    new: tuple[str, ...]
    gone: tuple[str, ...]
    gone_models: tuple[str, ...]
    """Running models that are no longer in the stack file."""


def switches(config: StackConfig, running: StackOutputs, *, proof: bool, limits: Mapping[str, int]) -> Switches:
    """The changes when `config` is deployed over the running stack.

    `proof`: whether share proofs run, too. `limits` are the planned ones in MiB, by the ids of models with their own.
    """
    compared = compare(config, running)
    return Switches(
        pools=tuple(_switch(change, proof=proof) for change in compared.changes),
        restarts=tuple(restart for change in compared.pools for restart in _restarts(change, limits)),
        new=compared.new,
        gone=compared.gone,
        gone_models=compared.gone_models,
    )


def _switch(change: Change, *, proof: bool) -> Switch:
    return Switch(
        pool=change.pool.name,
        before=change.before,
        after=change.after,
        stops=change.stops,
        parks=not change.lives,
        steps=tuple(_steps(change, proof=proof and change.proves)),
        replaced=_replaced(change),
        vcpus=_vcpus_meanwhile(change),
    )


def _restarts(change: Change, limits: Mapping[str, int]) -> Iterator[Restart]:
    """Of a pool that stays as it is: its models whose limits are others. A limit is in the pod's environment."""
    if change.is_any or not change.lives:
        return
    stop_minutes, stop_spread = known_times()[EVICTION]
    for start in _starts(change):
        was, after = change.running.fit.get(start.model), limits.get(start.model)
        before = was.share_mib if was and start.model in change.stops else None
        if before is not None and after is not None and before != after:
            away = Downtime(
                model=start.model,
                minutes=stop_minutes + start.minutes,
                plus_minus=math.hypot(stop_spread, start.plus_minus),
            )
            yield Restart(before_mib=before, after_mib=after, downtime=away)


def _replaced(change: Change) -> tuple[str, ...]:
    if change.nodes in ("same", "drift"):
        return ()
    was_karpenters = change.nodes == "new pool" or (
        change.provisioner_differs and change.was.provisioner == "karpenter"
    )
    return (NODE_POOL if was_karpenters else NODE_GROUP,)


def _vcpus_meanwhile(change: Change) -> tuple[Vcpus, ...]:
    """The most vCPUs of the pool that run at once, by quota; empty if a type of its old nodes is unknown."""
    pool, was = change.pool, change.was
    if any(name not in instance_types() for name in was.instance_types):
        return ()
    capacities: tuple[Capacity, ...] = ("spot", "on-demand") if pool.on_demand_fallback else (pool.capacity,)
    planned = change.config.nodes_of(pool)
    # Karpenter runs as many nodes as the models need; the outputs do not have their number.
    running = planned if was.nodes and was.provisioner == "karpenter" else was.nodes
    before = _vcpu_count(was.instance_types, (was.capacity,), running)
    after = _vcpu_count(pool.instance_types, capacities, planned)
    if change.nodes == "drift":
        most = (before + _vcpu_count(pool.instance_types, capacities, min(running, 1))) | after
    elif change.nodes == "new" and (pool.replacement == "create-first" or change.provisioner_differs):
        most = before + after
    else:
        most = before | after
    return tuple(Vcpus(quota=quota, most=most[name]) for name, quota in quotas().items() if most[name])


def _vcpu_count(types: Sequence[str], capacities: Sequence[Capacity], nodes: int) -> Counter[str]:
    """vCPUs of this many nodes of the largest type, by our name of the quota."""
    vcpu = max(instance_types()[name].vcpu for name in types)
    return Counter({quota: nodes * vcpu for each in capacities if (quota := vcpu_quota(types[0], each))})


def _steps(change: Change, *, proof: bool) -> Iterator[Step]:
    if change.nodes == "same":
        yield _same_nodes(change)
        yield from _eviction(change)
        yield from _sharing(change, proof=proof, away=True)
    elif change.nodes == "new pool":
        yield from _eviction(change)
        yield _step("nodes", "Karpenter's pool is deleted, with its nodes", f"{NODE_POOL} delete", away=True)
        if change.lives:
            yield _step("nodes", "a new pool creates a node", NODE_CLAIM, away=True)
        yield from _sharing(change, proof=proof, away=True)
    elif change.nodes == "drift":
        if change.was.nodes and change.lives:
            yield _step("nodes", "Karpenter creates a new node, then drains the old one", NODE_CLAIM, away=False)
        yield from _sharing(change, proof=False, away=False)
        yield from _eviction(change)
    elif change.pool.replacement == "delete-first" and not change.provisioner_differs:
        yield from _eviction(change)
        yield _step("nodes", "the old node group is deleted (delete-first)", f"{NODE_GROUP} delete", away=True)
        yield _step("nodes", "a new node group is created", NODE_GROUP, away=True)
        yield from _sharing(change, proof=proof, away=True)
    else:
        # The old nodes are deleted after the new ones have joined and proved their shares.
        yield from _new_nodes(change, proof=proof)
        yield from _sharing(change, proof=proof, away=change.ends_mps)
        yield from _eviction(change)
    if change.lives:
        yield from _starts(change)


def _same_nodes(change: Change) -> Step:
    """The update that evicts the pods of the old mode."""
    marked = f"the node group's taint says {change.after}"
    if not change.more_nodes:
        return _step("nodes", marked, f"{NODE_GROUP} update", away=True)
    joining = counted(change.more_nodes, "more node" if change.was.nodes else "node")
    return _step("nodes", f"{marked}; {joining} to join", NODE_GROUP, away=True)


def _new_nodes(change: Change, *, proof: bool) -> Iterator[Step]:
    if change.pool.provisioner == "node-group":
        yield _step("nodes", "a new node group is created; it needs quota beside the old one", NODE_GROUP, away=False)
    elif change.lives:
        # Karpenter creates a node when a pod waits for one.
        yield _step(
            "nodes", f"Karpenter creates a node for the {'proof' if proof else 'models'}", NODE_CLAIM, away=not proof
        )


def _eviction(change: Change) -> Iterator[Step]:
    if change.stops:
        yield _step("stop", "the models shut down", EVICTION, away=True)


def _sharing(change: Change, *, proof: bool, away: bool) -> Iterator[Step]:
    """The nodes start to offer the new shares, and the proof checks them."""
    if not change.lives:
        return
    if cuts(change.was.mode) != change.pool.sharing.needs_mig_manager:
        # The operator installs the device plugin with MIG, the chart without.
        names = ("the GPU Operator", "the device plugin's chart")
        comes, goes = names[::-1] if cuts(change.was.mode) else names
        yield _step("plugin", f"{comes} replaces {goes}", RELEASE, away=away)
    elif change.pool.sharing.needs_mps_daemon:
        yield _step("plugin", "device plugin and MPS daemon start in the new mode", DAEMON_SET, away=away)
    else:
        done = DAEMON_SET if change.strange_nodes else f"{DAEMON_SET} update"
        counts = "the device plugin counts shares; each node has its own MPS daemon"
        starts = counts if change.pool.sharing.needs_node_daemon else "the device plugin starts in the new mode"
        yield _step("plugin", starts, done, away=away)
    if proof:
        yield _step("proof", "a Job reads the shares of the node", JOB, away=away)
        yield _step("proof", "Jobs prove the shares, a pod on each", JOB, away=away)


def _starts(change: Change) -> Iterator[Step]:
    """The start of each model. All start at once, so their downloads share the bandwidth."""
    images = images_mib() if change.strange_nodes else 0.0
    fetched = [served for served in change.models if not change.has_files(served)]
    download, download_spread = download_minutes(images + sum(weights_mib(served) for served in fetched))
    start, start_spread = known_times()[f"{RELEASE} update"]
    for served in change.models:
        waits = bool(images) or served in fetched
        # The compiled kernels are on the same disk as the files.
        compiles, compiles_spread = (COMPILE_MINUTES, COMPILE_UNCERTAINTY) if served in fetched else (0.0, 0.0)
        yield Step(
            kind="start",
            what=f"{served.id} {_started(change, served)}",
            minutes=start + (download if waits else 0.0) + compiles + load_minutes(weights_mib(served)),
            plus_minus=math.hypot(start_spread, download_spread if waits else 0.0, compiles_spread),
            away=True,
            model=served.id,
        )


def _started(change: Change, served: ServedModel) -> str:
    gib = f"{weights_mib(served) / 1024:.1f} GiB"
    if change.has_files(served):
        return f"loads {gib} from {'its volume' if served.cache == 'volume' else 'local disk'}"
    only = " unless its node has them," if change.may_have_files(served) else ""
    return f"downloads {gib}{only} and loads them"


def _step(kind: Kind, what: str, done: str, *, away: bool) -> Step:
    minutes, plus_minus = known_times()[done]
    return Step(kind=kind, what=what, minutes=minutes, plus_minus=plus_minus, away=away)
