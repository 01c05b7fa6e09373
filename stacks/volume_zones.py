"""The zone of each EBS volume of a stack. It is kept in the state: a volume cannot move (docs/decisions/0013)."""

from collections.abc import Sequence

import pulumi
import pulumi_random as random

from components import ExistingCluster, GpuCluster
from sharing.names import PROJECT
from sharing.sections.pools import GpuPool
from sharing.sections.zones import pool_demand

Cluster = GpuCluster | ExistingCluster


def choose_volume_zone(cluster: Cluster, pool: GpuPool) -> pulumi.Output[str]:
    """The zone of the models' volumes, which offers the pool's types."""
    return _keep(f"{PROJECT}-{pool.name}-zone", cluster.zones_of_pool(pool.name, pool_demand(pool)))


def choose_page_zone(cluster: Cluster, untainted_zones: Sequence[str]) -> pulumi.Output[str]:
    """The zone of the page's volume, in which a node without taints runs.

    `untainted_zones` are those of an existing cluster's nodes. Without any, something must add a node in the first
    zone of the subnets. Raises `pulumi.RunError` during the deployment if the volume's zone has no system node any
    more.
    """
    if isinstance(cluster, ExistingCluster):
        found = cluster.zone_names.apply(lambda names: [*untainted_zones] or names)
        return _keep(f"{PROJECT}-ui-storage-zone", found)
    system = cluster.system_zones()

    def check(known: Sequence[str | list[str]]) -> str:
        zone, zones = str(known[0]), known[1]
        if zone not in zones:
            raise pulumi.RunError(
                f"ui.storage-gib: the page's volume is in {zone}, in which no system node runs any more. Keep that "
                "zone, or set `storage-gib: 0` and run `pulumi up` first, which deletes accounts and documents."
            )
        return zone

    return pulumi.Output.all(_keep(f"{PROJECT}-ui-storage-zone", system), system).apply(check)


def _keep(name: str, zones: pulumi.Output[list[str]]) -> pulumi.Output[str]:
    """The first of the zones at the first deployment."""
    once = random.RandomId(
        name,
        byte_length=1,
        keepers={"zone": zones.apply(lambda found: found[0])},
        opts=pulumi.ResourceOptions(ignore_changes=["keepers"]),
    )
    return once.keepers.apply(lambda kept: str((kept or {})["zone"]))
