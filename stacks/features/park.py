"""The schedules of a stack, if its file has the section `park`."""

from collections.abc import Mapping
from typing import Any

import pulumi

from components import SpotGpuNodeGroup
from sharing.names import PROJECT
from stacks.asleep_pools import OUTPUT, record
from stacks.base import Serving


def park_nodes(stack: Serving) -> Mapping[str, Any]:
    """The schedules for the node groups of pools, and for the models of other pools.

    Returns the output that the next `up` reads. The schedule group in it is None without node groups.
    """
    from components import ParkedNodeGroup, ScheduledParking, ScheduledParkingArgs

    base, config = stack.base, stack.base.plan.config
    park = config.park
    assert park, "the stack has the feature"
    groups = {
        pool: provisioner.node_group_name
        for pool, provisioner in stack.nodes.items()
        if isinstance(provisioner, SpotGpuNodeGroup)
    }
    args = ScheduledParkingArgs(
        schedule=park.schedule,
        wake=park.wake,
        timezone=park.timezone,
        node_groups={
            pool.name: ParkedNodeGroup(
                cluster_name=base.cluster.cluster_name, node_group_name=groups[pool.name], nodes=pool.desired
            )
            for pool in config.pools
            if pool.name in groups
        },
        deployments=[
            served.id for pool in config.pools if pool.name not in groups for served in config.models_of(pool)
        ],
        tags=base.tags,
    )
    # A Job in the cluster parks the models of Karpenter's pools; node groups need only AWS.
    is_in_cluster = len(groups) < len(stack.nodes)
    options = base.inside(stack.models) if is_in_cluster else pulumi.ResourceOptions(providers=[base.provider])
    parking = ScheduledParking(f"{PROJECT}-parking", args, options)
    return {OUTPUT: {**record(base.plan, base.parking), "schedule_group": parking.schedule_group_name}}
