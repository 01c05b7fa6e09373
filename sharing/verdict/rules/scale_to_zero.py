"""Rules about models that scale to zero: only Karpenter removes the node of an idle model and brings it back."""

import math
from collections.abc import Iterator

from sharing.problems import Problem
from sharing.stack.setup import Setup, Tenant
from sharing.stack.startup import cold_start
from sharing.verdict.rules.karpenter import pools as karpenter_pools

SHORTEST_WAIT_MINUTES = 15
"""How long a request may wait at least: spot capacity can take minutes."""


def sleepers(setup: Setup) -> list[Tenant]:
    """The models that scale to zero: all that are not parked."""
    if setup.scale_to_zero is None:
        return []
    return [tenant for pool in setup.awake for tenant in setup.tenants_of(pool)]


def slow_start_minutes(tenant: Tenant) -> int:
    """Minutes of a slow start without a node: the typical time and its uncertainty. Without spot capacity, it takes
    longer.
    """
    return math.ceil(sum(cold_start(tenant)))


def longest_wait_minutes(tenant: Tenant) -> int:
    """After how many minutes a cold request fails: twice the typical time."""
    minutes, _ = cold_start(tenant)
    return max(SHORTEST_WAIT_MINUTES, math.ceil(2 * minutes))


def on_node_groups(setup: Setup) -> Iterator[Problem]:
    """Rejects node groups: nothing changes the number of their nodes when models stop or requests come."""
    groups = [pool for pool in setup.pools if pool not in [*karpenter_pools(setup)]]
    if setup.scale_to_zero is None or not groups:
        return
    names = f" {' and '.join(pool.name for pool in groups)}" if groups[0].listed else ""
    keep = f"the node groups{names} keep their" if len(groups) > 1 else f"the node group{names} keeps its"
    rule = f"needs Karpenter: {keep} nodes without models, so idle models would save nothing"
    fix = " and ".join(f"`{pool.path}.provisioner: karpenter`" for pool in groups)
    yield Problem("scale-to-zero.enabled", "", rule, f"Write {fix}.")


def shorter_than_start(setup: Setup) -> Iterator[Problem]:
    """Rejects an idle time in which a model may not even start: a caller that gave up would never find it running."""
    if setup.scale_to_zero is None or not (tenants := sleepers(setup)):
        return
    slowest = max(tenants, key=slow_start_minutes)
    least, given = slow_start_minutes(slowest), setup.scale_to_zero.idle_minutes
    if given < least:
        rule = f"is less than the {least} minutes that {slowest.served.model.name} may take to start without a node"
        yield Problem("scale-to-zero.idle-minutes", str(given), rule, f"Write `idle-minutes: {least}` or more.")
