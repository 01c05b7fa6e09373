"""The quotas that a stack needs: vCPUs by family and capacity, addresses, VPCs, clusters."""

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache

from sharing import tables
from sharing.hardware.system_instances import system_types
from sharing.sections.config import StackConfig
from sharing.sections.pools import Capacity, GpuPool

FAMILIES = {
    "g": ("g", "gr", "vt"),
    "p": ("p",),
    # AWS counts spot instances of these generations apart from older ones.
    "p5": ("p5",),
    "p6": ("p6",),
    "standard": ("a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"),
}
"""First letters of instance types, by the quota that counts them; for P also the generation, if it matters."""
SURGE_PER_ZONE = 2
"""Nodes for each zone by which EKS raises a node group while it updates it with the default strategy, as it does system
nodes; GPU groups have the strategy MINIMAL, which adds none.
Source: https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html, scale-up phase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """A quota of AWS for one region."""

    name: str
    """Ours, e.g. `g-spot`."""
    service: str
    """Service code of the Service Quotas API, e.g. `ec2`."""
    code: str
    """Empty if AWS does not document which quota counts such instances, so that its limit is unknown."""
    title: str
    """AWS's own name for it, if there is one."""
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """A stack's use of one quota, in the quota's unit."""

    quota: Quota
    now: int
    """With the desired nodes."""
    most: int
    """With the maximum number of nodes."""
    replacing: int
    """With the extra nodes during an update or a replacement."""


@cache
def quotas() -> dict[str, Quota]:
    """Every quota that can limit a stack, by our name for it."""
    return {row["quota"]: Quota(name=row["quota"], **tables.cells_of(row, Quota)) for row in tables.read("quotas").rows}


def vcpu_quota(instance_type: str, capacity: Capacity) -> str | None:
    """Our name for the quota that counts the vCPUs of such an instance; None if no stack can have one."""
    letters, generation = re.findall(r"^([a-z]*)(\d*)", instance_type)[0]
    for family in (letters + generation, letters):
        for kind, families in FAMILIES.items():
            if family in families and (quota := f"{kind}-{capacity}") in quotas():
                return quota
    return None


def added_nodes(pool: GpuPool, nodes: int) -> int:
    """Extra GPU nodes of a pool during a replacement of its `nodes`.

    Karpenter keeps a drifted node until its replacement is ready, one at a time (the budget of the NodePool). Nodes
    that started at the same time expire at the same time, each with a replacement; with quota for one more they take
    turns.
    Source: kubernetes-sigs/karpenter v1.14.1, pkg/controllers/disruption/helpers.go and nodeclaim/expiration.
    """
    if pool.provisioner == "karpenter":
        return min(nodes, 1)
    return nodes if pool.replacement == "create-first" else 0


def added_system_nodes(config: StackConfig) -> int:
    """Extra system nodes: the surge of an update, or an entire new group, the larger of the two."""
    own = config.cluster.own_system_nodes
    return max(SURGE_PER_ZONE * config.system_zones, own) if own else 0


def needs(config: StackConfig) -> tuple[Need, ...]:
    """The use of each quota by `config`, all of whose types must be known. Unused quotas are left out."""
    now: Counter[str] = Counter()
    most: Counter[str] = Counter()
    replacing: Counter[str] = Counter()
    for pool in config.pools:
        # All types of a pool have the same GPU, so one quota counts them all; plan for the largest.
        quota = vcpu_quota(pool.instance_types[0], pool.capacity)
        assert quota is not None, "every GPU type is of a family that is counted"
        vcpu = max(kind.vcpu for kind in pool.known_types)
        most_vcpu = max(pool.most_nodes(kind) * kind.vcpu for kind in pool.known_types)
        now[quota] += pool.desired * vcpu
        for each in (quota, _fallback_quota(pool)):
            if each:
                most[each] += most_vcpu
                replacing[each] += most_vcpu + added_nodes(pool, pool.max) * vcpu
    nodes = config.cluster.own_system_nodes
    system = max(system_types()[name].vcpu for name in config.cluster.system_nodes.instance_types)
    now["standard-on-demand"] = most["standard-on-demand"] = nodes * system
    replacing["standard-on-demand"] = (nodes + added_system_nodes(config)) * system
    fixed = {"addresses": config.cluster.nat_gateways, "vpcs": config.cluster.owns_network}
    fixed["clusters"] = config.cluster.existing is None
    for name, count in fixed.items():
        now[name] = most[name] = replacing[name] = count
    return tuple(
        Need(quota=quota, now=now[name], most=most[name], replacing=replacing[name])
        for name, quota in quotas().items()
        if most[name] > 0
    )


def _fallback_quota(pool: GpuPool) -> str | None:
    """The quota of on-demand nodes that Karpenter launches without spot capacity. The first `up` may not need them, so
    they count only for the maximum.
    """
    return vcpu_quota(pool.instance_types[0], "on-demand") if pool.on_demand_fallback else None
