"""GpuClusterArgs: the inputs of GpuCluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi

from components.arguments import check_arguments, check_form, check_least, check_tags
from sharing import versions
from sharing.aws.tags import NODE
from sharing.problems import did_you_mean
from sharing.sections.cluster import CONTROL_PLANE_ZONES, FEWEST_ZONES, Nat, Support
from sharing.sections.existing import VpcId
from sharing.sections.network import vpc_network
from sharing.sections.zones import Demand


@check_arguments
@dataclass(frozen=True, kw_only=True)
class ExistingVpc:
    """A VPC that exists. GpuCluster creates, changes, tags and deletes nothing of it.

    Raises `ValueError` for a value of the wrong type, an id that EC2 does not issue, or fewer than two subnets.
    """

    id: pulumi.Input[str]
    """ID of the VPC. DNS hostnames and DNS support must be on."""
    subnet_ids: Sequence[pulumi.Input[str]]
    """IDs of the control plane's subnets, in at least two availability zones."""
    node_subnet_ids: Sequence[pulumi.Input[str]] = ()
    """IDs of the nodes' subnets, which need a route to the internet. Defaults to `subnet_ids`."""
    security_group_ids: Sequence[pulumi.Input[str]] = ()
    """IDs of security groups of the system nodes, besides the one that EKS creates."""

    def __post_init__(self) -> None:
        check_form("ExistingVpc.id", self.id, VpcId)
        if len(self.subnet_ids) < FEWEST_ZONES:
            raise ValueError("ExistingVpc.subnet_ids must have at least two subnets, in two zones. Pass another one.")


@check_arguments
@dataclass(frozen=True, kw_only=True)
class GpuClusterArgs:
    """Inputs of GpuCluster.

    Raises `ValueError` for a value of the wrong type, a Kubernetes version without pinned add-ons, fewer than two zones
    or one system node, a wrong number of `zone_names`, a `cidr` that a VPC cannot use, settings of a new VPC beside
    `vpc`, or tags that AWS refuses.
    """

    cluster_name: str
    """Name of the EKS cluster, unique in account and region. A change replaces the cluster."""
    kubernetes: str = versions.KUBERNETES
    """Kubernetes version, e.g. `"1.36"`. It must be one for which tandem pins add-ons."""
    support: Support = "standard"
    """EKS support tier, `standard` or `extended`. With `extended`, a version past standard support costs six
    times as much."""
    vpc: ExistingVpc | None = None
    """A VPC to use, instead of one that the component creates with `zones`, `zone_names`, `cidr` and `nat`."""
    zones: int = 2
    """Number of availability zones, at least 2."""
    zone_names: Sequence[str] = ()
    """Names of the zones, e.g. `["us-east-1a", "us-east-1b"]`: exactly `zones` of them. If empty, the zones that offer
    most of the nodes' instance types.
    """
    demands: Sequence[Demand] = ()
    """Instance types of the GPU nodes. They decide which zones are chosen."""
    cidr: str = "10.0.0.0/16"
    """IPv4 range of the VPC, from /16 to /22."""
    nat: Nat = "single"
    """NAT gateways: `single`, `per-zone` or `none`. With `none`, nodes run in public subnets and have public
    addresses, but accept no connections from outside.
    """
    public_access_cidrs: Sequence[str] = ("0.0.0.0/0",)
    """CIDR ranges that can reach the Kubernetes API from outside the VPC. An empty list disables public access."""
    admins: Sequence[str] = ()
    """ARNs of all IAM roles and users that administer the cluster, including the one that creates it. If empty, EKS
    admits its creator; a list that you add later must then not include the creator.
    """
    profile: str | None = None
    """AWS CLI profile that the kubeconfig uses. Pass the AWS provider's profile."""
    role_arn: str | None = None
    """ARN of the IAM role that the kubeconfig assumes. Pass the AWS provider's role."""
    logs: bool = False
    """Whether to keep control-plane logs, for 7 days. The log group belongs to the stack and is deleted with it."""
    system_types: Sequence[str] = ("t3.medium",)
    """EC2 instance types of the system nodes."""
    system_arch: str = "amd64"
    """Architecture of `system_types`: `amd64` or `arm64`."""
    system_nodes: int = 2
    """Number of system nodes. Two survive the loss of a zone."""
    system_zones: int = CONTROL_PLANE_ZONES
    """Zones of the system nodes, at most 2. With 1, a new system node can always mount the volumes of the old one. A
    change replaces the system nodes.
    """
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags on every resource that supports tags, including those that controllers create."""

    def __post_init__(self) -> None:
        check_tags(self, NODE)
        check_least(self, zones=2, system_nodes=1, system_zones=1)
        if self.kubernetes not in versions.AMI_KUBERNETES:
            fix = did_you_mean(self.kubernetes, versions.AMI_KUBERNETES)
            raise ValueError(f"GpuClusterArgs.kubernetes is {self.kubernetes!r}, which has no pinned add-ons. {fix}")
        new = ("zones", "zone_names", "cidr", "nat")
        if self.vpc and (set_ := [name for name in new if getattr(self, name) not in ([], getattr(type(self), name))]):
            raise ValueError(f"GpuClusterArgs.{set_[0]} has no effect beside `vpc`, which exists. Leave it out.")
        if self.zone_names and len(self.zone_names) != self.zones:
            found = f"{len(self.zone_names)} names, but `zones` is {self.zones}"
            raise ValueError(f"GpuClusterArgs.zone_names has {found}. Name every zone once.")
        try:
            vpc_network(self.cidr)
        except ValueError:
            bounds = "an IPv4 network from /16 to /22 without host bits"
            fix = "Pass, for example, '10.0.0.0/16'."
            raise ValueError(f"GpuClusterArgs.cidr must be {bounds}, not {self.cidr!r}. {fix}") from None
