"""Zones of a deployed stack's subnets and node groups: they stay, whatever other zones offer."""

from dataclasses import dataclass
from typing import Any

from sharing.names import POOL_LABEL, TAG_ZONES
from sharing.stack.zones import Group
from tandem.aws import clusters
from tandem.aws.session import Account


@dataclass(frozen=True, slots=True)
class Placed:
    """The zones of a deployed stack."""

    zones: tuple[str, ...]
    groups: dict[str, Group]
    """The node group of each pool that has one."""


NOWHERE = Placed((), {})
"""The zones of a stack that is not deployed."""


def placed(account: Account, cluster: Any) -> Placed:
    """Asks EC2 and EKS, from EKS's description of the cluster; raises boto3's exceptions."""
    ec2 = account.client("ec2")
    # The cluster names only the subnets of the control plane.
    [first, *_] = ec2.describe_subnets(SubnetIds=cluster["resourcesVpcConfig"]["subnetIds"])["Subnets"]
    own = ec2.describe_subnets(Filters=[{"Name": "vpc-id", "Values": [first["VpcId"]]}])["Subnets"]
    groups = {}
    for name in clusters.node_groups(account, cluster["name"]):
        raw = account.client("eks").describe_nodegroup(clusterName=cluster["name"], nodegroupName=name)["nodegroup"]
        zones = (raw.get("tags") or {}).get(TAG_ZONES, "").split()
        if pool := (raw.get("labels") or {}).get(POOL_LABEL):
            groups[pool] = Group(zones=tuple(zones), types=frozenset(raw.get("instanceTypes") or ()))
    return Placed(tuple(sorted({subnet["AvailabilityZone"] for subnet in own})), groups)
