"""The vCPU quota that a running pool needs while `up` changes it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sharing.cost.quotas import Quota, quotas, vcpu_quota
from sharing.hardware.gpus import instance_types
from sharing.stack.pools import Capacity
from tandem.deployed.change import Change


@dataclass(frozen=True, slots=True, kw_only=True)
class Vcpus:
    """vCPUs of GPU nodes that count towards one quota."""

    quota: Quota
    most: int
    """The most at any time during the change."""


def vcpus_meanwhile(change: Change) -> tuple[Vcpus, ...]:
    """The most vCPUs of the pool that run at once, by quota; empty if the types of its old nodes are unknown."""
    pool, was = change.pool, change.was
    types_before = was.instance_types or (() if change.gpu_differs else pool.instance_types)
    if not types_before or any(name not in instance_types() for name in types_before):
        return ()
    capacities: tuple[Capacity, ...] = ("spot", "on-demand") if pool.on_demand_fallback else (pool.capacity,)
    planned = change.config.nodes_of(pool)
    # Karpenter runs as many nodes as the models need; the outputs do not have their number.
    running = planned if was.nodes and was.provisioner == "karpenter" else was.nodes
    before = _count(types_before, (was.capacity or pool.capacity,), running)
    after = _count(pool.instance_types, capacities, planned)
    if change.nodes == "drift":
        most = (before + _count(pool.instance_types, capacities, min(running, 1))) | after
    elif change.nodes == "new" and (pool.replacement == "create-first" or change.provisioner_differs):
        most = before + after
    else:
        most = before | after
    return tuple(Vcpus(quota=quota, most=most[name]) for name, quota in quotas().items() if most[name])


def _count(types: Sequence[str], capacities: Sequence[Capacity], nodes: int) -> Counter[str]:
    """vCPUs of this many nodes of the largest type, by our name of the quota."""
    vcpu = max(instance_types()[name].vcpu for name in types)
    return Counter({quota: nodes * vcpu for each in capacities if (quota := vcpu_quota(types[0], each))})
