"""Rules of EKS: requirements of control planes, node groups, add-ons and identities, and their order of deletion."""

from typing import Any

from sandbox.cloud.aws.offers import zones_selling
from sandbox.cloud.aws.places import Place
from sandbox.world import tokens
from sandbox.world.controllers import quotas
from sandbox.world.controllers.nodes import desired, is_recycled, launched, surge
from sandbox.world.controllers.storage import has_policy, untainted
from sandbox.world.controllers.user_data import decoded, is_multipart, template_of
from sandbox.world.entities import Entities, value_at, values_at
from sandbox.world.rules.iam import role_named
from sandbox.world.rules.rule import CHANGE, CREATE, DELETE, UPDATE, Case, Moments, Refusal, Rule, absent, taken, used

API = "https://docs.aws.amazon.com/eks/latest/APIReference/"
GUIDE = "https://docs.aws.amazon.com/eks/latest/userguide/"
IN_CLUSTER = (tokens.NODE_GROUP, tokens.ADDON, tokens.ACCESS_ENTRY, tokens.ACCESS_POLICY, tokens.POD_IDENTITY)
CLUSTER_POLICY = "AmazonEKSClusterPolicy"
NODE_POLICY = "AmazonEKSWorkerNodePolicy"
PULL_POLICY = "AmazonEC2ContainerRegistry"
"""…PullOnly or …ReadOnly."""
NETWORK_POLICY = "AmazonEKS_CNI_Policy"
NETWORK = "vpc-cni"
# Add-ons with a Deployment, which wait for a node. The others are DaemonSets and become active without nodes. EKS waits
# 20 minutes for a node. Here such add-ons are rejected immediately, because no program should rely on that wait.
WITH_DEPLOYMENT = ("coredns", "aws-ebs-csi-driver")
UNJOINED = "Instances failed to join the kubernetes cluster"
STUCK_UPDATE = "Couldn't proceed with upgrade process as new nodes are not joining node group"


def _lacks(entities: Entities, arn: Any, *policies: str) -> str:
    role = entities.role(arn)
    lacking = [one for one in policies if role is not None and not has_policy(entities, role, one)]
    return ", ".join(lacking)


# Control plane.


def _no_cluster_role(case: Case) -> str | None:
    arn = case.inputs.get("roleArn")
    return f"Role with arn: {arn}, could not be assumed because it does not exist" if not _known(case, arn) else None


def _known(case: Case, arn: Any) -> bool:
    return not arn or role_named(case.entities, arn)


def _unprivileged_cluster(case: Case) -> str | None:
    lacking = _lacks(case.entities, case.inputs.get("roleArn"), CLUSTER_POLICY)
    return f"the cluster role {case.inputs.get('roleArn')} lacks {lacking}" if lacking else None


def _zones_of(case: Case, subnets: list[Any]) -> set[str]:
    found = [case.entities.get(tokens.SUBNET, one) for one in subnets]
    return {str(one.outputs.get("availabilityZone")) for one in found if one is not None}


def _one_zone(case: Case) -> str | None:
    subnets = values_at(case.inputs, "vpcConfig.subnetIds")
    few = subnets and len(_zones_of(case, subnets)) < 2
    return "Subnets specified must be in at least two different AZs" if few else None


def _other_zones(case: Case) -> str | None:
    before = _zones_of(case, values_at(case.existing.inputs, "vpcConfig.subnetIds"))
    after = _zones_of(case, values_at(case.inputs, "vpcConfig.subnetIds"))
    if before == after:
        return None
    return (
        f"Provided subnets belong to the AZs '{','.join(sorted(after))}'. But they should belong to the exact set of "
        f"AZs '{','.join(sorted(before))}' in which subnets were provided during cluster creation."
    )


def _other_vpc(case: Case) -> str | None:
    """The words are not those of EKS, which no source quotes."""
    before = _vpcs_of(case, values_at(case.existing.inputs, "vpcConfig.subnetIds"))
    after = _vpcs_of(case, values_at(case.inputs, "vpcConfig.subnetIds"))
    if after <= before:
        return None
    return (
        f"Provided subnets belong to {', '.join(sorted(after))}. But they should belong to the VPC of the cluster, "
        f"{', '.join(sorted(before))}."
    )


def _vpcs_of(case: Case, subnets: list[Any]) -> set[str]:
    found = [case.entities.get(tokens.SUBNET, one) for one in subnets]
    return {str(one.inputs["vpcId"]) for one in found if one is not None}


def _minor(version: Any) -> int:
    """The minor version; 0 if none is given."""
    return int(version.partition(".")[2]) if version else 0


def _jump(case: Case) -> str | None:
    """Also refuses the previous version, to which EKS can roll back within 7 days. That rollback is not emulated."""
    before = _minor(case.existing.outputs.get("version"))
    after = _minor(case.inputs.get("version"))
    if not before or not after or after - before in (0, 1):
        return None
    return f"Unsupported Kubernetes minor version update requested from 1.{before} to 1.{after}"


# Node groups.


def _no_node_role(case: Case) -> str | None:
    arn = case.inputs.get("nodeRoleArn")
    return None if _known(case, arn) else f"The role with arn {arn} cannot be found."


def _not_sold(case: Case) -> str | None:
    """Rejects a group if a zone does not offer one of its types, even if no node would start there."""
    place = Place.of(case.provider)
    for zone in sorted(_zones_of(case, values_at(case.inputs, "subnetIds"))):
        for name in values_at(case.inputs, "instanceTypes"):
            selling = zones_selling(place, str(name), case.entities.offers)
            if zone not in selling:
                return (
                    f"Your requested instance type ({name}) is not supported in your requested Availability Zone "
                    f"({zone}). Please retry your request by not specifying an Availability Zone or choosing "
                    f"{', '.join(selling)}."
                )
    return None


def _no_template(case: Case) -> str | None:
    wanted = value_at(case.inputs, "launchTemplate.id")
    if wanted is None:
        return None
    template = case.entities.get(tokens.TEMPLATE, wanted)
    if template is None:
        return f"The launch template {wanted} of the node group cannot be found."
    version = str(value_at(case.inputs, "launchTemplate.version") or "")
    latest = int(template.outputs["latestVersion"])
    if version.isdigit() and not 1 <= int(version) <= latest:
        return f"The launch template {wanted} has no version {version}, its latest is {latest}."
    return None


def _not_mime(case: Case) -> str | None:
    """EKS adds a part of its own to user data, unless the template names an AMI."""
    template = template_of(case.entities, case.inputs)
    text = decoded(template.get("userData"))
    if not text or template.get("imageId") or is_multipart(text):
        return None
    return "User data was not in the MIME multipart format."


def _unlike_cluster(case: Case) -> str | None:
    """New groups have the control plane's version (API_CreateNodegroup.html, `version`); others may stay older."""
    cluster = case.entities.get(tokens.CLUSTER, case.inputs.get("clusterName"))
    wanted, have = _minor(case.inputs.get("version")), _minor(value_at(cluster.outputs if cluster else {}, "version"))
    if wanted and have and (wanted > have or (case.entity is None and wanted != have)):
        return f"Requested Nodegroup version 1.{wanted} is not the cluster's, 1.{have}"
    return None


def _unprivileged_nodes(case: Case) -> str | None:
    lacking = _lacks(case.entities, case.inputs.get("nodeRoleArn"), NODE_POLICY, PULL_POLICY, NETWORK_POLICY)
    return f"{UNJOINED}: the node role lacks {lacking}" if lacking and desired(case.inputs) else None


def _no_network_plugin(case: Case) -> str | None:
    cluster = case.entities.get(tokens.CLUSTER, case.inputs.get("clusterName"))
    if cluster is None or not desired(case.inputs) or case.entities.get(tokens.ADDON, f"{cluster.id}:{NETWORK}"):
        return None
    return "Unhealthy nodes in the kubernetes cluster: NetworkPluginNotReady, cni plugin not initialized"


def _no_internet(case: Case) -> str | None:
    if not desired(case.inputs):
        return None
    for subnet in values_at(case.inputs, "subnetIds"):
        if (problem := cut_off(case.entities, str(subnet))) is not None:
            return f"{UNJOINED}: {problem}"
    return None


def cut_off(entities: Entities, subnet_id: str) -> str | None:
    """Why nodes in the subnet have no internet access. None if they have access.

    A subnet without an association uses the VPC's main route table, which has no internet route here.
    """
    subnet = entities.get(tokens.SUBNET, subnet_id)
    tables = [entity.inputs.get("routeTableId") for entity in entities.having(tokens.ASSOCIATION, subnetId=subnet_id)]
    routes = [entity.inputs for entity in entities.of(tokens.ROUTE) if entity.inputs.get("routeTableId") in tables]
    for route in routes:
        if entities.get(tokens.NAT, route.get("natGatewayId")) is not None:
            return None
        if entities.get(tokens.GATEWAY, route.get("gatewayId")) is not None:
            if subnet is not None and subnet.inputs.get("mapPublicIpOnLaunch"):
                return None
            return f"subnet {subnet_id} is public and gives no public addresses (Ec2SubnetInvalidConfiguration)"
    return f"subnet {subnet_id} has no route to the internet"


def _no_quota_for_nodes(case: Case) -> str | None:
    launch = launched(case.inputs)
    return quotas.exceeded(launch[1]) if quotas.room(case.entities, *launch) < desired(case.inputs) else None


def _no_quota_for_surge(case: Case) -> str | None:
    """Requires quota for extra nodes. The update continues when each zone with a node has a new one."""
    group = case.existing
    if not is_recycled(group.inputs, case.inputs) or not surge(case.entities, group, case.inputs):
        return None
    zones = {entity.inputs["availabilityZone"] for entity in case.entities.owned_by(group, tokens.INSTANCE)}
    launch = launched(group.inputs)
    if quotas.room(case.entities, *launch) >= len(zones):
        return None
    return f"{STUCK_UPDATE}: {quotas.exceeded(launch[1])}"


# Add-ons and Pod Identity associations.


def _no_node_for_addon(case: Case) -> str | None:
    addon, cluster = case.inputs.get("addonName"), case.entities.get(tokens.CLUSTER, case.inputs.get("clusterName"))
    if addon not in WITH_DEPLOYMENT or cluster is None:
        return None
    if any(untainted(node) for node in case.entities.within(str(cluster.outputs.get("endpoint")), tokens.NODE)):
        return None
    return f"the add-on {addon} is DEGRADED after 20 minutes: its pods find no node without a taint"


def _no_identity_role(path: str) -> Refusal:
    def refuse(case: Case) -> str | None:
        absent = [arn for arn in values_at(case.inputs, path) if not _known(case, arn)]
        return f"Role provided in the request does not exist: {absent[0]}" if absent else None

    return refuse


def _inactive(case: Case) -> str | None:
    """Rejects updates of an inactive group, except updates of tags, which have their own call, TagResource.

    Pessimistic for DEGRADED: sources disagree whether EKS rejects updates if only capacity or quota is missing. Its
    message for other issues (repost.aws/knowledge-center/eks-managed-node-group-update) implies that
    UpdateNodegroupVersion continues. In aws/containers-roadmap#2326, a user scaled such a group to zero. Live question:
    `degraded-spot-group`.
    """
    group = case.existing
    if not group.status:
        return None
    if {**group.inputs, "tags": None} == {**case.inputs, "tags": None}:
        return None
    return "Nodegroup cannot be updated as it is currently not in Active State"


# Many public programs quote the error. This is the request to remove the limitation.
_ZONES = "https://github.com/aws/containers-roadmap/issues/2258"
# The API's reply, status 400: awslabs/ec2-spot-workshops#154. For one of several types: eksctl-io/eksctl#3531.
_SOLD = "https://github.com/eksctl-io/eksctl/issues/6461"
_SURGE = GUIDE + "managed-node-update-behavior.html#managed-node-update-scale-up"
_JOINING = GUIDE + "troubleshooting.html#worker-node-fail"
# The error of a group's creation, and of its update: the page, and hashicorp/terraform-provider-aws#15007.
_USER_DATA = "https://github.com/terraform-aws-modules/terraform-aws-eks/issues/1875"
_HEALTH = API + "API_Issue.html"
INVALID, IN_USE = "InvalidParameterException", "ResourceInUseException"

CLUSTER_TAKEN = taken("name", words="Cluster already exists with name: {name}")
HAS_GROUPS = used(tokens.NODE_GROUP, "clusterName", "Cluster has nodegroups attached ({by})")
NO_CLUSTER = absent("clusterName", tokens.CLUSTER, "No cluster found for name: {id}.")
NO_SUBNET = "The subnet ID '{id}' does not exist"
GROUP_TAKEN = taken(
    "clusterName",
    "nodeGroupName",
    words="NodeGroup already exists with name {nodeGroupName} and cluster name {clusterName}",
)
ADDON_TAKEN = taken("clusterName", "addonName", words="Addon already exists. ({clusterName}:{addonName})")
IDENTITY_TAKEN = taken(
    "clusterName",
    "namespace",
    "serviceAccount",
    words="Association already exists: ['{clusterName}', '{namespace}', '{serviceAccount}']",
)


def _row(token: str, code: str, page: str, refuses: Refusal, on: Moments = CREATE, *, done: bool = False) -> Rule:
    """A row of the table. With `done`, EKS accepts the call and fails later: the resource stays as CREATE_FAILED."""
    return Rule((token,), on, code, page if page.startswith("https:") else API + page, refuses, done=done)


RULES: tuple[Rule, ...] = (
    # aws/containers-roadmap issue 2204 has the message, for a group without capacity; its title says CREATE_FAILED.
    _row(tokens.NODE_GROUP, IN_USE, "API_UpdateNodegroupConfig.html", _inactive, UPDATE),
    _row(tokens.CLUSTER, IN_USE, "API_CreateCluster.html", CLUSTER_TAKEN),
    _row(tokens.CLUSTER, INVALID, "API_CreateCluster.html", _no_cluster_role),
    _row(tokens.CLUSTER, INVALID, "API_VpcConfigRequest.html", absent("vpcConfig.subnetIds", tokens.SUBNET, NO_SUBNET)),
    _row(tokens.CLUSTER, INVALID, "API_VpcConfigRequest.html", _one_zone),
    _row(tokens.CLUSTER, "AccessDenied", "API_ErrorDetail.html", _unprivileged_cluster),
    _row(tokens.CLUSTER, INVALID, "API_UpdateClusterVersion.html", _jump, UPDATE),
    _row(tokens.CLUSTER, IN_USE, "API_DeleteCluster.html", HAS_GROUPS, DELETE),
    # "You can't change which VPC you want to use after cluster creation."
    _row(tokens.CLUSTER, INVALID, GUIDE + "create-cluster.html", _other_vpc, UPDATE),
    _row(tokens.CLUSTER, INVALID, _ZONES, _other_zones, UPDATE),
    *(_row(token, "ResourceNotFoundException", "API_DescribeCluster.html", NO_CLUSTER) for token in IN_CLUSTER),
    _row(tokens.NODE_GROUP, IN_USE, "API_CreateNodegroup.html", GROUP_TAKEN),
    _row(tokens.NODE_GROUP, INVALID, "API_CreateNodegroup.html", _no_node_role),
    _row(tokens.NODE_GROUP, INVALID, "API_CreateNodegroup.html", absent("subnetIds", tokens.SUBNET, NO_SUBNET)),
    _row(tokens.NODE_GROUP, "InvalidRequestException", _SOLD, _not_sold),
    _row(tokens.NODE_GROUP, "Ec2LaunchTemplateNotFound", _HEALTH, _no_template, CHANGE),
    _row(tokens.NODE_GROUP, "Ec2LaunchTemplateInvalidConfiguration", _USER_DATA, _not_mime, done=True),
    _row(tokens.NODE_GROUP, "Ec2LaunchTemplateInvalidConfiguration", _USER_DATA, _not_mime, UPDATE),
    _row(tokens.NODE_GROUP, INVALID, "API_UpdateNodegroupVersion.html", _unlike_cluster, CHANGE),
    _row(tokens.NODE_GROUP, "NodeCreationFailure", _JOINING, _unprivileged_nodes, done=True),
    _row(tokens.NODE_GROUP, "NodeCreationFailure", _JOINING, _no_network_plugin, done=True),
    _row(tokens.NODE_GROUP, "NodeCreationFailure", _JOINING, _no_internet, done=True),
    _row(tokens.NODE_GROUP, "AsgInstanceLaunchFailures", _HEALTH, _no_quota_for_nodes, done=True),
    _row(tokens.NODE_GROUP, "NodeCreationFailure", _SURGE, _no_quota_for_surge, UPDATE),
    _row(tokens.ADDON, IN_USE, "API_CreateAddon.html", ADDON_TAKEN),
    _row(tokens.ADDON, "InsufficientNumberOfReplicas", "API_AddonIssue.html", _no_node_for_addon, done=True),
    _row(tokens.ADDON, INVALID, "API_CreateAddon.html", _no_identity_role("podIdentityAssociations.roleArn")),
    _row(tokens.POD_IDENTITY, IN_USE, "API_CreatePodIdentityAssociation.html", IDENTITY_TAKEN),
    _row(tokens.POD_IDENTITY, INVALID, "API_CreatePodIdentityAssociation.html", _no_identity_role("roleArn")),
)
