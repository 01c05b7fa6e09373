"""Compares a pool of a deployed stack with its plan: the changes, and the nodes that they affect."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from sharing.hardware.gpus import instance_types
from sharing.models.served import ServedModel
from sharing.modes.base import PER_MODEL
from sharing.modes.modes import MODES
from sharing.sections.config import StackConfig
from sharing.sections.pools import GpuPool
from stacks.outputs import PoolOutputs, StackOutputs, describe_pool

Nodes = Literal["same", "new", "new pool", "drift"]
"""The pool's nodes after the change: the same ones; those of another group; those of a new Karpenter pool,
created after the old pool and its nodes are deleted; or Karpenter's replacements for nodes that no longer match,
one at a time."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """A pool before and after."""

    pool: GpuPool
    was: PoolOutputs
    config: StackConfig
    running: StackOutputs

    @property
    def is_any(self) -> bool:
        """Whether anything changes."""
        return self.sharing_differs or self.provisioner_differs or self.types_differ or self.capacity_differs

    @property
    def sharing_differs(self) -> bool:
        """Whether the nodes will offer other shares."""
        return self.mode_differs or self.cut_differs or self.gpu_differs or self.size_differs

    @cached_property
    def mode_differs(self) -> bool:
        """Whether mode or settings change."""
        return self.was.config != self.pool.sharing.config_name

    @cached_property
    def cut_differs(self) -> bool:
        """Whether the partitioning changes."""
        return self.was.cut != self.pool.sharing.cut(self.pool.smallest.gpu)

    @property
    def ends_mps(self) -> bool:
        """Whether the device plugin's MPS daemons end, also on the old nodes: no model of theirs runs without."""
        had_daemon = self.was.mode == "mps" and not self.was.config.endswith(PER_MODEL)
        return had_daemon and not self.pool.sharing.needs_mps_daemon

    @property
    def gpu_differs(self) -> bool:
        """Whether the nodes get another GPU."""
        return self.was.gpu != self.pool.smallest.gpu.name

    @property
    def size_differs(self) -> bool:
        """Whether the number of GPUs per node changes."""
        gpus = [instance_types()[name].gpus for name in self.was.instance_types if name in instance_types()]
        return bool(gpus) and min(gpus) != self.pool.smallest.gpus

    @property
    def types_differ(self) -> bool:
        """Whether nodes need other instance types. Karpenter keeps a node whose type is still allowed."""
        if self.pool.provisioner == "karpenter":
            return not set(self.was.instance_types) <= set(self.pool.instance_types)
        return list(self.was.instance_types) != self.pool.instance_types

    @property
    def capacity_differs(self) -> bool:
        """Whether nodes need the other capacity. A pool that may fall back to on-demand keeps its nodes."""
        return self.was.capacity != self.pool.capacity and not self.pool.on_demand_fallback

    @property
    def provisioner_differs(self) -> bool:
        """Whether Karpenter replaces a node group, or the reverse."""
        return self.was.provisioner != self.pool.provisioner

    @cached_property
    def nodes(self) -> Nodes:
        """The nodes with the new sharing."""
        if not self.is_any:
            return "same"
        if self.provisioner_differs:
            return "new"
        if self.pool.provisioner == "karpenter":
            return "new pool" if self.sharing_differs else "drift"
        others = self.cut_differs or self.gpu_differs or self.types_differ or self.capacity_differs
        return "new" if others else "same"

    @property
    def proves(self) -> bool:
        """Whether new shares need a proof."""
        return not self.config.unproved(self.pool) and self.sharing_differs

    @property
    def lives(self) -> bool:
        """Whether the pool has nodes afterwards."""
        return self.config.nodes_of(self.pool) > 0

    @property
    def more_nodes(self) -> int:
        """Nodes that a group gets in addition."""
        return max(self.pool.desired - self.was.nodes, 0)

    @property
    def models(self) -> list[ServedModel]:
        """The planned models."""
        return self.config.models_of(self.pool)

    @property
    def stops(self) -> tuple[str, ...]:
        """Ids of those that are running."""
        ids = [served.id for served in self.models] if self.was.nodes else []
        return tuple(id for id in ids if id in self.running.endpoints)

    @property
    def strange_nodes(self) -> bool:
        """Whether a pod may start on a node that never had a pod of this pool."""
        return self.nodes != "same" or self.more_nodes > 0

    def has_files(self, served: ServedModel) -> bool:
        """Whether a model's files are certainly on its pod's node."""
        if served.id not in self.running.endpoints:
            return False
        return served.cache == "volume" or (not self.strange_nodes and self.was.nodes == 1)

    def may_have_files(self, served: ServedModel) -> bool:
        """Whether that depends on which of several nodes it starts."""
        return served.id in self.running.endpoints and self.nodes == "same" and self.was.nodes > 0

    @property
    def before(self) -> str:
        """The current mode and settings, and other values that change."""
        return self._said(self.was)

    @property
    def after(self) -> str:
        """The same after the change."""
        return self._said(describe_pool(self.pool))

    def _said(self, pool: PoolOutputs) -> str:
        said = [pool.config]
        if self.cut_differs and not self.mode_differs and self.pool.sharing.needs_mig_manager:
            said.append(f"partitioned as {pool.cut}")
        if self.gpu_differs:
            said.append(f"on {pool.gpu}")
        elif self.types_differ:
            said.append(f"on {', '.join(pool.instance_types)}")
        if self.capacity_differs:
            said.append(f"({pool.capacity})")
        if self.provisioner_differs:
            said.append(f"by {pool.provisioner}")
        return " ".join(said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A stack file and the deployed stack, compared."""

    pools: tuple[Change, ...]
    """Those in both."""
    new: tuple[str, ...]
    gone: tuple[str, ...]
    new_models: tuple[str, ...]
    gone_models: tuple[str, ...]
    """Running models that the file no longer has."""

    @property
    def changes(self) -> list[Change]:
        """The pools with changes."""
        return [change for change in self.pools if change.is_any]


def compare(config: StackConfig, running: StackOutputs) -> Comparison:
    """The changes from the deployed stack to `config`."""
    planned, served = {pool.name: pool for pool in config.pools}, [served.id for served in config.models]
    return Comparison(
        pools=tuple(
            Change(pool=pool, was=running.pools[name], config=config, running=running)
            for name, pool in planned.items()
            if name in running.pools
        ),
        new=tuple(name for name in planned if name not in running.pools),
        gone=tuple(name for name in running.pools if name not in planned),
        new_models=tuple(id for id in served if id not in running.endpoints),
        gone_models=tuple(id for id in running.endpoints if id not in served),
    )


def cuts(mode: str) -> bool:
    """Whether a mode, by its name, partitions GPUs."""
    return any(kind.needs_mig_manager for kind in MODES if kind.model_fields["mode"].default == mode)
