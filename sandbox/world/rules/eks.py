"""Rules of EKS: what control planes, node groups, add-ons and identities need, and in which order they go."""

from dataclasses import replace
from typing import Any

from sandbox.cloud.aws.offers import zones_selling
from sandbox.cloud.aws.places import Place
from sandbox.world import quotas, tokens
from sandbox.world.nodes import cluster_at, cluster_named, groups_of, instances, is_recycled, launched, nodes, surge
from sandbox.world.rules.iam import role_named
from sandbox.world.rules.rule import Case, Refusal, Rule
from sandbox.world.storage import has_policy, untainted
from sandbox.world.things import Thing, Things, value_at, values_at

API = "https://docs.aws.amazon.com/eks/latest/APIReference/"
GUIDE = "https://docs.aws.amazon.com/eks/latest/userguide/"
IN_CLUSTER = (tokens.NODE_GROUP, tokens.ADDON, tokens.ACCESS_ENTRY, tokens.ACCESS_POLICY, tokens.POD_IDENTITY)
CLUSTER_POLICY = "AmazonEKSClusterPolicy"
NODE_POLICY = "AmazonEKSWorkerNodePolicy"
PULL_POLICY = "AmazonEC2ContainerRegistry"
"""…PullOnly or …ReadOnly."""
NETWORK_POLICY = "AmazonEKS_CNI_Policy"
NETWORK = "vpc-cni"
# Add-ons with a Deployment, which wait for a node. The others are DaemonSets: without nodes they are active at once.
# Those here are refused at once, although EKS waits 20 minutes: who relies on that wait relies on luck.
WITH_DEPLOYMENT = ("coredns", "aws-ebs-csi-driver", "metrics-server")
UNJOINED = "Instances failed to join the kubernetes cluster"
STUCK_UPDATE = "Couldn't proceed with upgrade process as new nodes are not joining node group"


def _role(things: Things, arn: Any) -> Thing | None:
    return next((one for one in things.of(tokens.ROLE) if one.outputs.get("arn") == arn), None)


def _lacks(things: Things, arn: Any, *policies: str) -> str:
    role = _role(things, arn)
    lacking = [one for one in policies if role is not None and not has_policy(things, role, one)]
    return ", ".join(lacking)


# Control plane.


def _no_cluster_role(case: Case) -> str | None:
    arn = case.inputs.get("roleArn")
    return f"Role with arn: {arn}, could not be assumed because it does not exist" if not _known(case, arn) else None


def _known(case: Case, arn: Any) -> bool:
    return not arn or role_named(case.things, arn)


def _unprivileged_cluster(case: Case) -> str | None:
    lacking = _lacks(case.things, case.inputs.get("roleArn"), CLUSTER_POLICY)
    return f"the cluster role {case.inputs.get('roleArn')} lacks {lacking}" if lacking else None


def _cluster_network(case: Case) -> str | None:
    subnets = values_at(case.inputs, "vpcConfig.subnetIds")
    for subnet in subnets:
        if case.things.get(tokens.SUBNET, subnet) is None:
            return f"The subnet ID '{subnet}' does not exist"
    zones = {value_at(case.things.get(tokens.SUBNET, one).outputs, "availabilityZone") for one in subnets}  # type: ignore[union-attr]
    return "Subnets specified must be in at least two different AZs" if subnets and len(zones) < 2 else None


def _zones_of(case: Case, inputs: Any) -> set[str]:
    found = [case.things.get(tokens.SUBNET, one) for one in values_at(inputs, "vpcConfig.subnetIds")]
    return {str(one.outputs.get("availabilityZone")) for one in found if one is not None}


def _other_zones(case: Case) -> str | None:
    before = _zones_of(case, case.thing.inputs) if case.thing else set()
    after = _zones_of(case, case.inputs)
    if before == after:
        return None
    return (
        f"Provided subnets belong to the AZs '{','.join(sorted(after))}'. But they should belong to the exact set of "
        f"AZs '{','.join(sorted(before))}' in which subnets were provided during cluster creation."
    )


def _cluster_taken(case: Case) -> str | None:
    name = case.inputs.get("name")
    return f"Cluster already exists with name: {name}" if case.things.get(tokens.CLUSTER, name) else None


def _minor(version: Any) -> int:
    text = str(version or "").partition(".")[2].partition(".")[0]
    return int(text) if text.isdigit() else 0


def _jump(case: Case) -> str | None:
    before = _minor(case.thing.outputs.get("version")) if case.thing else 0
    after = _minor(case.inputs.get("version"))
    if not before or not after or after - before in (0, 1):
        return None
    return f"Unsupported Kubernetes minor version update requested from 1.{before} to 1.{after}"


def _has_groups(case: Case) -> str | None:
    groups = groups_of(case.things, case.id)
    return f"Cluster has nodegroups attached ({groups[0].id})" if groups else None


# Node groups.


def _no_cluster(case: Case) -> str | None:
    name = case.inputs.get("clusterName")
    return None if cluster_named(case.things, name) else f"No cluster found for name: {name}."


def _group_taken(case: Case) -> str | None:
    name, cluster = case.inputs.get("nodeGroupName"), case.inputs.get("clusterName")
    if case.things.get(tokens.NODE_GROUP, f"{cluster}:{name}") is None:
        return None
    return f"NodeGroup already exists with name {name} and cluster name {cluster}"


def _no_node_role(case: Case) -> str | None:
    arn = case.inputs.get("nodeRoleArn")
    return None if _known(case, arn) else f"The role with arn {arn} cannot be found."


def _no_subnet(case: Case) -> str | None:
    absent = [one for one in values_at(case.inputs, "subnetIds") if case.things.get(tokens.SUBNET, one) is None]
    return f"The subnet ID '{absent[0]}' does not exist" if absent else None


def _not_sold(case: Case) -> str | None:
    """One type that one of the zones does not sell is enough, whether or not a node would come up there."""
    place = Place.of(case.provider)
    found = [case.things.get(tokens.SUBNET, one) for one in values_at(case.inputs, "subnetIds")]
    for zone in sorted({str(one.outputs.get("availabilityZone")) for one in found if one is not None}):
        for name in values_at(case.inputs, "instanceTypes"):
            selling = zones_selling(place, str(name), case.things.offers)
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
    template = case.things.get(tokens.TEMPLATE, wanted)
    if template is None:
        return f"The launch template {wanted} of the node group cannot be found."
    version = str(value_at(case.inputs, "launchTemplate.version") or "")
    latest = int(template.outputs.get("latestVersion") or 1)
    if version.isdigit() and not 1 <= int(version) <= latest:
        return f"The launch template {wanted} has no version {version}, its latest is {latest}."
    return None


def _newer_than_cluster(case: Case) -> str | None:
    cluster = cluster_named(case.things, case.inputs.get("clusterName"))
    wanted, have = _minor(case.inputs.get("version")), _minor(cluster.outputs.get("version")) if cluster else 0
    if wanted and have and wanted > have:
        return f"Requested Nodegroup version 1.{wanted} is newer than the cluster's, 1.{have}"
    return None


def _wants_nodes(case: Case) -> bool:
    return int(value_at(case.inputs, "scalingConfig.desiredSize") or 0) > 0


def _unprivileged_nodes(case: Case) -> str | None:
    lacking = _lacks(case.things, case.inputs.get("nodeRoleArn"), NODE_POLICY, PULL_POLICY, NETWORK_POLICY)
    return f"{UNJOINED}: the node role lacks {lacking}" if lacking and _wants_nodes(case) else None


def _no_network_plugin(case: Case) -> str | None:
    cluster = cluster_named(case.things, case.inputs.get("clusterName"))
    if cluster is None or not _wants_nodes(case) or case.things.get(tokens.ADDON, f"{cluster.id}:{NETWORK}"):
        return None
    return "Unhealthy nodes in the kubernetes cluster: NetworkPluginNotReady, cni plugin not initialized"


def _no_way_out(case: Case) -> str | None:
    if not _wants_nodes(case):
        return None
    for subnet in values_at(case.inputs, "subnetIds"):
        if (problem := cut_off(case.things, str(subnet))) is not None:
            return f"{UNJOINED}: {problem}"
    return None


def cut_off(things: Things, subnet_id: str) -> str | None:
    """Why nodes in the subnet reach no internet; None when they do.

    The VPC's main table, which serves a subnet without an association, has no route out here.
    """
    subnet = things.get(tokens.SUBNET, subnet_id)
    tables = [
        one.inputs.get("routeTableId")
        for one in things.of(tokens.ASSOCIATION)
        if one.inputs.get("subnetId") == subnet_id
    ]
    routes = [
        one.inputs
        for one in things.of(tokens.ROUTE)
        if one.inputs.get("routeTableId") in tables and one.inputs.get("destinationCidrBlock") == "0.0.0.0/0"
    ]
    for route in routes:
        if things.get(tokens.NAT, route.get("natGatewayId")) is not None:
            return None
        if things.get(tokens.GATEWAY, route.get("gatewayId")) is not None:
            if subnet is not None and subnet.inputs.get("mapPublicIpOnLaunch"):
                return None
            return f"subnet {subnet_id} is public and gives no public addresses (Ec2SubnetInvalidConfiguration)"
    return f"subnet {subnet_id} has no route to the internet"


def _no_quota_for_nodes(case: Case) -> str | None:
    wanted = int(value_at(case.inputs, "scalingConfig.desiredSize") or 0)
    group = Thing(type=tokens.NODE_GROUP, id="", name=case.name, inputs=case.inputs, outputs={})
    return quotas.exceeded(launched(group)[1]) if quotas.room(case.things, *launched(group)) < wanted else None


def _no_quota_for_surge(case: Case) -> str | None:
    """An update goes on when each zone that has a node has got a new one."""
    group = case.thing
    if group is None or not is_recycled(group, group.inputs, case.inputs) or not surge(case.things, group, case.inputs):
        return None
    zones = {one.inputs["availabilityZone"] for one in instances(case.things, group)}
    if quotas.room(case.things, *launched(group)) >= len(zones):
        return None
    return f"{STUCK_UPDATE}: {quotas.exceeded(launched(group)[1])}"


# Add-ons and identities.


def _addon_taken(case: Case) -> str | None:
    identity = f"{case.inputs.get('clusterName')}:{case.inputs.get('addonName')}"
    return f"Addon already exists. ({identity})" if case.things.get(tokens.ADDON, identity) else None


def _no_node_for_addon(case: Case) -> str | None:
    addon, cluster = case.inputs.get("addonName"), cluster_named(case.things, case.inputs.get("clusterName"))
    if addon not in WITH_DEPLOYMENT or cluster is None:
        return None
    if any(untainted(node) for node in nodes(case.things, str(cluster.outputs.get("endpoint")))):
        return None
    return f"the add-on {addon} is DEGRADED after 20 minutes: its pods find no node without a taint"


def _no_identity_role(path: str) -> Refusal:
    def refuse(case: Case) -> str | None:
        absent = [arn for arn in values_at(case.inputs, path) if not _known(case, arn)]
        return f"Role provided in the request does not exist: {absent[0]}" if absent else None

    return refuse


def _identity_taken(case: Case) -> str | None:
    keys = ("clusterName", "namespace", "serviceAccount")
    wanted = [case.inputs.get(key) for key in keys]
    if any([one.inputs.get(key) for key in keys] == wanted for one in case.things.of(tokens.POD_IDENTITY)):
        return f"Association already exists: {wanted}"
    return None


def is_active(things: Things, server: str) -> bool:
    """Whether a control plane answers at that address."""
    cluster = cluster_at(things, server)
    return cluster is not None and cluster.outputs.get("status", "ACTIVE") == "ACTIVE"


def _row(types: tuple[str, ...], code: str, page: str, refuses: Refusal) -> Rule:
    source = page if page.startswith("https:") else API + page
    return Rule(types, ("create",), code, source, refuses)


def _health(types: tuple[str, ...], code: str, page: str, refuses: Refusal) -> Rule:
    """A reason for which EKS takes the call, tries, and gives up: what it was to make stays as CREATE_FAILED."""
    return replace(_row(types, code, page, refuses), done=True)


_JOINING = GUIDE + "troubleshooting.html#worker-node-fail"
_HEALTH = API + "API_Issue.html"
RULES: tuple[Rule, ...] = (
    _row((tokens.CLUSTER,), "ResourceInUseException", "API_CreateCluster.html", _cluster_taken),
    _row((tokens.CLUSTER,), "InvalidParameterException", "API_CreateCluster.html", _no_cluster_role),
    _row((tokens.CLUSTER,), "InvalidParameterException", "API_VpcConfigRequest.html", _cluster_network),
    _row((tokens.CLUSTER,), "AccessDenied", "API_ErrorDetail.html", _unprivileged_cluster),
    Rule((tokens.CLUSTER,), ("update",), "InvalidParameterException", API + "API_UpdateClusterVersion.html", _jump),
    Rule((tokens.CLUSTER,), ("delete",), "ResourceInUseException", API + "API_DeleteCluster.html", _has_groups),
    # The words of the error are in many public programs; the request to lift the rule is this one.
    Rule(
        (tokens.CLUSTER,),
        ("update",),
        "InvalidParameterException",
        "https://github.com/aws/containers-roadmap/issues/2258",
        _other_zones,
    ),
    _row(IN_CLUSTER, "ResourceNotFoundException", "API_DescribeCluster.html", _no_cluster),
    _row((tokens.NODE_GROUP,), "ResourceInUseException", "API_CreateNodegroup.html", _group_taken),
    _row((tokens.NODE_GROUP,), "InvalidParameterException", "API_CreateNodegroup.html", _no_node_role),
    _row((tokens.NODE_GROUP,), "InvalidParameterException", "API_CreateNodegroup.html", _no_subnet),
    # The API's own answer, status 400: awslabs/ec2-spot-workshops#154. One type of several: eksctl-io/eksctl#3531.
    _row((tokens.NODE_GROUP,), "InvalidRequestException", "https://github.com/eksctl-io/eksctl/issues/6461", _not_sold),
    Rule((tokens.NODE_GROUP,), ("create", "update"), "Ec2LaunchTemplateNotFound", _HEALTH, _no_template),
    Rule(
        (tokens.NODE_GROUP,),
        ("create", "update"),
        "InvalidParameterException",
        API + "API_UpdateNodegroupVersion.html",
        _newer_than_cluster,
    ),
    _health((tokens.NODE_GROUP,), "NodeCreationFailure", _JOINING, _unprivileged_nodes),
    _health((tokens.NODE_GROUP,), "NodeCreationFailure", _JOINING, _no_network_plugin),
    _health((tokens.NODE_GROUP,), "NodeCreationFailure", _JOINING, _no_way_out),
    _health((tokens.NODE_GROUP,), "AsgInstanceLaunchFailures", _HEALTH, _no_quota_for_nodes),
    Rule(
        (tokens.NODE_GROUP,),
        ("update",),
        "NodeCreationFailure",
        GUIDE + "managed-node-update-behavior.html#managed-node-update-scale-up",
        _no_quota_for_surge,
    ),
    _row((tokens.ADDON,), "ResourceInUseException", "API_CreateAddon.html", _addon_taken),
    _health((tokens.ADDON,), "InsufficientNumberOfReplicas", "API_AddonIssue.html", _no_node_for_addon),
    _row(
        (tokens.ADDON,),
        "InvalidParameterException",
        "API_CreateAddon.html",
        _no_identity_role("podIdentityAssociations.roleArn"),
    ),
    _row((tokens.POD_IDENTITY,), "ResourceInUseException", "API_CreatePodIdentityAssociation.html", _identity_taken),
    _row(
        (tokens.POD_IDENTITY,),
        "InvalidParameterException",
        "API_CreatePodIdentityAssociation.html",
        _no_identity_role("roleArn"),
    ),
)
