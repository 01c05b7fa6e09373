"""The section `cluster` of a stack file: network, control plane and system nodes."""

import datetime
from typing import Annotated, Literal

from pydantic import Field

from sharing import tables, versions
from sharing.section import Fix, Section
from sharing.sections.existing import ExistingCluster, ExistingVpc
from sharing.sections.network import Cidr, VpcCidr

Nat = Literal["none", "single", "per-zone"]
Support = Literal["standard", "extended"]

FEWEST_ZONES = 2
"""EKS needs at least two zones for its control plane."""
SYSTEM_VOLUME_GIB = 20
"""Root volume of a system node: the default of EKS, enough for the add-ons."""
CONTROL_PLANE_ZONES = 2
"""Zones of the control plane and the system nodes: the minimum for EKS."""
ZONES_WITHOUT_EKS = ("use1-az3", "usw1-az2", "cac1-az3")
"""Ids of zones in which EKS has no control plane (EKS user guide, network requirements)."""


class SystemNodes(Section):
    """Nodes without a GPU, for DNS, storage driver and node feature discovery."""

    instance_types: Annotated[list[str], Field(min_length=1, max_length=20)] = Field(
        default=["t3.medium"], description="EC2 types of one architecture."
    )
    count: int = Field(
        default=2, ge=1, le=20, description="Number of system nodes. Use two to survive the loss of a zone."
    )


class ClusterSettings(Section):
    """Network and control plane."""

    kubernetes: Annotated[str, Fix(f'Write it in quotes: `kubernetes: "{versions.KUBERNETES}"`.')] = Field(
        default=versions.KUBERNETES, description="Kubernetes version."
    )
    support: Support = Field(
        default="standard",
        description="EKS support tier. With `extended`, a version past standard support costs six times as much.",
    )
    vpc: ExistingVpc | None = Field(
        default=None,
        examples=[{"id": "vpc-0a1b2c3d", "subnets": ["subnet-0a1b2c3d", "subnet-0d3c2b1a"]}],
        description="Your own VPC, e.g. `{id: vpc-0a1b2c3d, subnets: [subnet-0a1b2c3d, subnet-0d3c2b1a], node-subnets: "
        "[subnet-0e5f6a7b], security-groups: [sg-0a1b2c3d]}`. Default: the stack creates one.",
    )
    existing: ExistingCluster | None = Field(
        default=None,
        examples=[{"name": "platform"}],
        description="Your own cluster, which gets GPU nodes and models, e.g. `{name: platform}`. Default: the stack "
        "creates one.",
    )
    zones: int = Field(
        default=FEWEST_ZONES,
        ge=FEWEST_ZONES,
        le=6,
        description="Number of Availability Zones, chosen among those that offer the stack's instance types.",
    )
    zone_names: Annotated[list[str], Field(max_length=6)] = Field(
        default=[], description="Names of at least two zones to use instead, e.g. `[us-east-1a, us-east-1d]`."
    )
    cidr: Annotated[VpcCidr, Fix("Write 10.0.0.0/16.")] = Field(
        default="10.0.0.0/16", description="CIDR block of the VPC."
    )
    nat: Nat = Field(
        default="single",
        description="NAT gateways: `single`, `per-zone`, or `none` (cheapest: nodes in public subnets, no ingress).",
    )
    public_access_cidrs: Annotated[
        list[Cidr], Field(max_length=40), Fix("Write your public address, for example 203.0.113.7/32.")
    ] = Field(
        default=["0.0.0.0/0"],
        description="CIDR blocks that may reach the public Kubernetes API. `[]` disables public access.",
    )
    admins: Annotated[list[str], Field(max_length=50)] = Field(
        default=[],
        examples=[["arn:aws:iam::111122223333:role/ci"]],
        description="ARNs of IAM roles and users that may run `up` and `destroy`, besides the one that ran `up` last.",
    )
    logs: bool = Field(default=False, description="Control-plane logs in CloudWatch, kept for 7 days.")
    system_nodes: SystemNodes = Field(
        default=SystemNodes(), examples=[{"instance-types": ["t3.medium"]}], description="Nodes without a GPU."
    )

    @property
    def zone_count(self) -> int:
        """Number of zones."""
        return len(self.zone_names) or self.zones

    @property
    def own_system_nodes(self) -> int:
        """Number of system nodes of the stack. A cluster that exists has nodes of its own."""
        return 0 if self.existing else self.system_nodes.count

    @property
    def nat_gateways(self) -> int:
        """Number of NAT gateways of the stack, each with a public address."""
        return {"none": 0, "single": 1, "per-zone": self.zone_count}[self.nat] if self.owns_network else 0

    @property
    def owns_network(self) -> bool:
        """Whether the stack creates its network."""
        return self.vpc is None and self.existing is None

    @property
    def has_public_nodes(self) -> bool:
        """Whether the stack gives its nodes public addresses."""
        return self.owns_network and self.nat == "none"


def support_ends(kubernetes: str) -> tuple[datetime.date, datetime.date] | None:
    """The days on which EKS ends standard and extended support of a version; None for an unknown one."""
    rows = {row["version"]: row for row in tables.read("kubernetes_versions").rows}
    if kubernetes not in rows:
        return None
    standard, extended = (rows[kubernetes][f"{kind}_until"] for kind in ("standard", "extended"))
    return datetime.date.fromisoformat(standard), datetime.date.fromisoformat(extended)
