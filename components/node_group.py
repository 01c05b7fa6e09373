"""An EKS managed node group with its own launch template and role, for system nodes and GPU nodes."""

from base64 import b64encode
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
"""Policies for kubelet, vpc-cni (which does not use Pod Identity here), image pulls, and shell access through SSM."""
FAILED = "#initerror"
"""In `replace_on_changes`: replaces a resource whose creation or update failed, instead of accepting it.

EKS keeps a resource that it could not create, with status CREATE_FAILED, and never repairs it. Pulumi stores it with
initialization errors. By default, it then runs an update without changes, which the AWS provider reports as successful
(pulumi pkg/resource/deploy/step_generator.go, initErrorSpecialKey).
"""
TAGGED_WITH_INSTANCE = ("instance", "volume", "network-interface")


@dataclass(frozen=True, kw_only=True)
class NodeShape:
    """Properties of the nodes in a group."""

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
    user_data: str | None = None
    """MIME archive that cloud-init reads at the first start. EKS adds the node's own configuration."""
    security_group_ids: Sequence[pulumi.Input[str]] = ()
    """All security groups of the nodes. If empty, EKS adds the cluster's own, which it otherwise does not.
    Source: EKS user guide, launch-templates, "Using custom security groups".
    """


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
    """Registers role, launch template and node group. Every resource gets the options `child`.

    The group is replaced whenever `replaced_with` changes. With `delete_first`, the old group is deleted before the new
    one is created. Without an `update_config`, EKS adds up to two nodes per zone during an update. `group_tags` are
    only on the group.
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
        # The group refers to the role but not to its policies. Without them, nodes start but never join.
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
    """Raises `pulumi.RunError` for a group that EKS failed to create, because it never gets nodes.

    `FAILED` replaces such a group, except after `pulumi refresh`, which clears the error and stores the status.
    """
    if status == "CREATE_FAILED":
        problem = (
            f"node group {urn.rpartition('::')[2]} is in status CREATE_FAILED, which EKS does not repair. "
            f"Replace it with `pulumi up --replace '{urn}'`."
        )
        # Logged immediately: the SDK handles the exception only after all other calls, and a proof can take long.
        pulumi.log.error(problem)
        raise pulumi.RunError(problem)


def _launch_template(
    name: str, shape: NodeShape, tags: dict[str, str], child: pulumi.ResourceOptions
) -> aws.ec2.LaunchTemplate:
    """Encrypts the disk, protects the instance metadata, and tags instances. EKS's default template does none of it."""
    return aws.ec2.LaunchTemplate(
        f"{name}-template",
        update_default_version=True,
        vpc_security_group_ids=[*shape.security_group_ids] or None,
        user_data=None if shape.user_data is None else b64encode(shape.user_data.encode()).decode(),
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
