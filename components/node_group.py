"""An EKS managed node group with a launch template and a role of its own: what system and GPU nodes have in common."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_aws as aws

from components.iam import EC2, managed_policy, trust
from sharing.names import with_name
from sharing.versions import ami_release

ROOT_DEVICE = "/dev/xvda"
"""Root device of the Amazon Linux 2023 AMIs."""
NODE_POLICIES = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",
)
"""What kubelet, vpc-cni (which takes no Pod Identity here), image pulls and a shell by SSM need."""
FAILED = "#initerror"
"""In `replace_on_changes`: replaces a resource whose creation or update failed, instead of accepting it as it is.

EKS keeps what it could not create, as CREATE_FAILED, and it never recovers. The engine takes it into the state with
initialization errors and by default tries an update without changes, which the AWS provider calls a success
(pulumi pkg/resource/deploy/step_generator.go, initErrorSpecialKey).
"""
TAGGED_WITH_INSTANCE = ("instance", "volume", "network-interface")


@dataclass(frozen=True, kw_only=True)
class NodeShape:
    """What the nodes of a group are."""

    ami_type: str
    kubernetes: str
    instance_types: Sequence[str]
    capacity_type: str
    """`SPOT` or `ON_DEMAND`."""
    volume_gib: int
    min: int
    desired: int
    max: int
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[aws.eks.NodeGroupTaintArgs] = ()


def managed_node_group(
    name: str,
    *,
    cluster_name: pulumi.Input[str],
    subnet_ids: pulumi.Input[Sequence[pulumi.Input[str]]],
    shape: NodeShape,
    tags: dict[str, str],
    group_tags: Mapping[str, pulumi.Input[str]] | None = None,
    autoscaled: bool = False,
    replaced_with: str | None = None,
    update_config: aws.eks.NodeGroupUpdateConfigArgs | None = None,
    delete_first: bool = False,
    child: pulumi.ResourceOptions,
) -> aws.eks.NodeGroup:
    """Registers role, launch template and node group; every resource gets the options `child`.

    The group is replaced by a new one whenever `replaced_with` changes; with `delete_first` the old one goes before the
    new one comes. Without an `update_config`, EKS adds up to two nodes for each zone while it updates the group.
    `group_tags` are on the group alone.
    """
    role = aws.iam.Role(f"{name}-role", assume_role_policy=trust(EC2, child), tags=tags, opts=child)
    policies = [
        aws.iam.RolePolicyAttachment(
            f"{name}-role-{policy}", role=role.name, policy_arn=managed_policy(policy, child), opts=child
        )
        for policy in NODE_POLICIES
    ]
    template = _launch_template(name, shape, tags, child)
    own = pulumi.ResourceOptions(
        replace_on_changes=[FAILED],
        # The node group's data shows the role but not its policies: without them nodes start and never join.
        depends_on=policies,
        ignore_changes=["scalingConfig.desiredSize"] if autoscaled else None,
        replacement_trigger=replaced_with,
        delete_before_replace=delete_first or None,
    )
    group = aws.eks.NodeGroup(
        name,
        cluster_name=cluster_name,
        node_role_arn=role.arn,
        subnet_ids=subnet_ids,
        ami_type=shape.ami_type,
        version=shape.kubernetes,
        release_version=ami_release(shape.kubernetes),
        capacity_type=shape.capacity_type,
        instance_types=list(shape.instance_types),
        launch_template=aws.eks.NodeGroupLaunchTemplateArgs(id=template.id, version=template.latest_version.apply(str)),
        scaling_config=aws.eks.NodeGroupScalingConfigArgs(
            min_size=shape.min, desired_size=shape.desired, max_size=shape.max
        ),
        update_config=update_config,
        labels=dict(shape.labels),
        taints=list(shape.taints),
        tags={**with_name(tags, name), **(group_tags or {})},
        opts=pulumi.ResourceOptions.merge(child, own),
    )
    pulumi.Output.all(group.urn, group.status).apply(lambda found: refuse_failed(*found))
    return group


def refuse_failed(urn: str, status: str | None) -> None:
    """Refuses to go on with a group that never gets nodes.

    `FAILED` replaces such a group, but not after `pulumi refresh`: that clears the mark and records the status.
    """
    if status == "CREATE_FAILED":
        problem = (
            f"node group {urn.rpartition('::')[2]} failed to create (CREATE_FAILED) and EKS does not repair it. "
            f"Run `pulumi up --replace '{urn}'`."
        )
        # At once: the SDK notices the exception when all other calls have ended, and a proof waits for long.
        pulumi.log.error(problem)
        raise pulumi.RunError(problem)


def _launch_template(
    name: str, shape: NodeShape, tags: dict[str, str], child: pulumi.ResourceOptions
) -> aws.ec2.LaunchTemplate:
    """Encrypted disk and guarded metadata, which EKS's own template has not; tags on what the group makes."""
    return aws.ec2.LaunchTemplate(
        f"{name}-template",
        update_default_version=True,
        block_device_mappings=[
            aws.ec2.LaunchTemplateBlockDeviceMappingArgs(
                device_name=ROOT_DEVICE,
                ebs=aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
                    volume_size=shape.volume_gib,
                    volume_type="gp3",
                    encrypted="true",
                    delete_on_termination="true",
                ),
            )
        ],
        metadata_options=aws.ec2.LaunchTemplateMetadataOptionsArgs(
            http_endpoint="enabled",
            http_tokens="required",
            # One hop: pods have Pod Identity and do not reach the node's role.
            http_put_response_hop_limit=1,
        ),
        tag_specifications=[
            aws.ec2.LaunchTemplateTagSpecificationArgs(resource_type=kind, tags=with_name(tags, name))
            for kind in TAGGED_WITH_INSTANCE
        ],
        tags=with_name(tags, name),
        opts=child,
    )
