"""Networks and clusters that a stack uses but does not own: it creates, changes, tags and deletes nothing of them."""

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from sharing.section import Fix, Section, WrongFormError


def _aws_id(kind: str) -> AfterValidator:
    """An id as EC2 issues it: 8 or 17 hexadecimal digits (EC2 user guide, "Resource IDs")."""

    def check(text: str) -> str:
        if not re.fullmatch(rf"{kind}-([0-9a-f]{{8}}|[0-9a-f]{{17}})", text):
            raise WrongFormError(f"must be `{kind}-` and 8 or 17 hexadecimal digits")
        return text

    return AfterValidator(check)


def _cluster_name(text: str) -> str:
    # EKS API reference, CreateCluster, `name`.
    if not re.fullmatch(r"[0-9A-Za-z][A-Za-z0-9_-]{0,99}", text):
        raise WrongFormError("must be 1 to 100 letters, digits, dashes or underscores, with a letter or digit first")
    return text


ClusterName = Annotated[str, AfterValidator(_cluster_name), Fix("Write the name that `aws eks list-clusters` prints.")]
VpcId = Annotated[str, _aws_id("vpc"), Fix("Write the id that `aws ec2 describe-vpcs` prints.")]
_SubnetIds = Annotated[list[Annotated[str, _aws_id("subnet")]], Field(max_length=16)]
"""EKS names no bound; 16 is ours."""
SubnetIds = Annotated[_SubnetIds, Fix("Write ids that `aws ec2 describe-subnets` prints.")]
ControlPlaneSubnetIds = Annotated[
    _SubnetIds, Fix("Write ids that `aws ec2 describe-subnets` prints: `subnets: [subnet-…, subnet-…]`.")
]
GroupIds = Annotated[
    list[Annotated[str, _aws_id("sg")]],
    # EC2 quota "Security groups per network interface": 5, of which one is the cluster's own.
    Field(max_length=4),
    Fix("Write ids that `aws ec2 describe-security-groups` prints."),
]


class ExistingVpc(Section):
    """A VPC with subnets, in which the stack creates its cluster and nodes."""

    id: VpcId = Field(description="Id of the VPC.")
    subnets: ControlPlaneSubnetIds = Field(
        description="Ids of the control plane's subnets: at least two, in two zones."
    )
    node_subnets: SubnetIds = Field(
        default=[], description="Ids of the nodes' subnets, in the same VPC. Default: those of `subnets`."
    )
    security_groups: GroupIds = Field(
        default=[], description="Ids of security groups that nodes have besides the one that EKS creates."
    )


class ExistingCluster(Section):
    """An EKS cluster, to which the stack adds GPU nodes and models."""

    name: ClusterName = Field(description="Name of the EKS cluster.")
    node_subnets: SubnetIds = Field(
        default=[], description="Ids of the nodes' subnets, in the cluster's VPC. Default: the cluster's own subnets."
    )
    security_groups: GroupIds = Field(
        default=[], description="Ids of security groups that nodes have besides the one that EKS created."
    )
