"""What a user of GpuCluster says about it."""

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from components.arguments import check_arguments, check_least
from sharing import versions
from sharing.problems import did_you_mean
from sharing.setup import Nat, Support
from sharing.zones import Demand


@dataclass(frozen=True, kw_only=True)
class GpuClusterArgs:
    """Inputs of GpuCluster.

    Raises `ValueError` for a value that no field takes, an unknown Kubernetes version, fewer than two zones, or a
    network that EKS cannot use.
    """

    cluster_name: str
    """Name of the EKS cluster in the account; a change replaces it."""
    kubernetes: str = versions.KUBERNETES
    """Kubernetes version; one for which `sharing.versions` pins add-ons."""
    support: Support = "standard"
    """EKS support that may be paid for."""
    zones: int = 2
    """Availability zones, at least two."""
    zone_names: Sequence[str] = ()
    """These zones, as many as `zones` says; else those that sell most of what the nodes need."""
    demands: Sequence[Demand] = ()
    """Instance types of the GPU nodes, by which zones are chosen."""
    cidr: str = "10.0.0.0/16"
    """Network of the VPC, between /16 and /22."""
    nat: Nat = "single"
    """NAT gateways; `none` puts nodes into public subnets with public addresses and no ingress."""
    public_access_cidrs: Sequence[str] = ("0.0.0.0/0",)
    """Who may reach the Kubernetes API from outside the VPC; empty: nobody."""
    admins: Sequence[str] = ()
    """IAM roles and users that administer the cluster: all of them, whoever creates it among them. Empty: EKS admits
    the one that creates it, and later additions may not name that one."""
    profile: str | None = None
    """Profile of the AWS configuration that the kubeconfig uses; that of the AWS provider."""
    role_arn: str | None = None
    """Role that the kubeconfig assumes; that of the AWS provider."""
    logs: bool = False
    """Control-plane logs, in a log group of ours that goes with the stack."""
    system_types: Sequence[str] = ("t3.medium",)
    """EC2 types of the system nodes."""
    system_arch: str = "amd64"
    """Their architecture: `amd64` or `arm64`."""
    system_nodes: int = 2
    """How many system nodes."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags on everything that can carry tags, also on what controllers make."""

    def __post_init__(self) -> None:
        check_arguments(self)
        check_least(self, zones=2, system_nodes=1)
        if self.kubernetes not in versions.AMI_KUBERNETES:
            fix = did_you_mean(self.kubernetes, versions.AMI_KUBERNETES)
            raise ValueError(f"GpuClusterArgs.kubernetes {self.kubernetes!r} has no pinned add-ons. {fix}")
        if self.zone_names and len(self.zone_names) != self.zones:
            found = f"{len(self.zone_names)} names for {self.zones} zones"
            raise ValueError(f"GpuClusterArgs.zone_names must be as many as `zones` ({found}). Name every zone once.")
        if not _is_vpc_cidr(self.cidr):
            bounds = "an IPv4 network from /16 to /22 without host bits"
            raise ValueError(f"GpuClusterArgs.cidr must be {bounds} (got {self.cidr!r}). Pass '10.0.0.0/16'.")


def _is_vpc_cidr(text: str) -> bool:
    """Whether it is a network that a VPC takes, with room for six subnets."""
    try:
        found = ipaddress.IPv4Network(text)
    except ValueError:
        return False
    return 16 <= found.prefixlen <= 22
