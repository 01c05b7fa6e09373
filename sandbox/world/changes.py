"""Diff: which properties can be updated. What is not listed here means replacement."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sandbox.world.names import DEFAULTS, given_name, is_autonamed

_KUBERNETES = "kubernetes:"


@dataclass(frozen=True, slots=True)
class Difference:
    """What a change of inputs comes to."""

    changed: tuple[str, ...]
    """Dotted paths, as deep as the table looks."""
    replaces: tuple[str, ...]
    """Those among them that cannot be updated."""
    delete_before_replace: bool
    """The new one would have the old one's name."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What each type updates in place, of what stacks give: the properties without ForceNew in the Terraform AWS provider's
# schemas (internal/service/<service>/*.go), on which pulumi-aws 7 is built; those of eks.Cluster seen in a run with the
# real provider (seen by running it). `region` is nowhere: a resource does not move.
UPDATABLE: dict[str, frozenset[str]] = {
    "aws:ec2/vpc:Vpc": _words("tags enableDnsSupport enableDnsHostnames"),
    "aws:ec2/subnet:Subnet": _words("tags mapPublicIpOnLaunch"),
    # A gateway moves to another VPC by detaching and attaching.
    "aws:ec2/internetGateway:InternetGateway": _words("tags vpcId"),
    "aws:ec2/natGateway:NatGateway": _words("tags"),
    "aws:ec2/eip:Eip": _words("tags"),
    "aws:ec2/routeTable:RouteTable": _words("tags"),
    "aws:ec2/route:Route": _words("gatewayId natGatewayId"),
    "aws:ec2/routeTableAssociation:RouteTableAssociation": _words("routeTableId"),
    "aws:ec2/vpcEndpoint:VpcEndpoint": _words("tags policy routeTableIds"),
    "aws:ec2/launchTemplate:LaunchTemplate": _words(
        "tags blockDeviceMappings metadataOptions tagSpecifications updateDefaultVersion userData"
    ),
    "aws:ebs/volume:Volume": _words("tags size type iops throughput"),
    "aws:iam/role:Role": _words("tags assumeRolePolicy description"),
    "aws:iam/policy:Policy": _words("tags policy"),
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": frozenset(),
    "aws:eks/cluster:Cluster": _words(
        "tags version enabledClusterLogTypes upgradePolicy accessConfig.authenticationMode vpcConfig.subnetIds "
        "vpcConfig.endpointPrivateAccess vpcConfig.endpointPublicAccess vpcConfig.publicAccessCidrs"
    ),
    "aws:eks/nodeGroup:NodeGroup": _words(
        "tags labels taints scalingConfig updateConfig version releaseVersion launchTemplate.version"
    ),
    "aws:eks/addon:Addon": _words(
        "tags addonVersion configurationValues podIdentityAssociations preserve resolveConflictsOnCreate "
        "resolveConflictsOnUpdate"
    ),
    "aws:eks/accessEntry:AccessEntry": _words("tags kubernetesGroups userName"),
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": frozenset(),
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": _words("tags roleArn"),
    "aws:cloudwatch/logGroup:LogGroup": _words("tags retentionInDays"),
    "aws:cloudwatch/eventRule:EventRule": _words("tags eventPattern state"),
    "aws:cloudwatch/eventTarget:EventTarget": _words("arn"),
    "aws:sqs/queue:Queue": _words("tags messageRetentionSeconds sqsManagedSseEnabled"),
    "aws:sqs/queuePolicy:QueuePolicy": _words("policy"),
    # A release moves to another chart, version or values by an upgrade; its name and namespace are its identity
    # (pulumi-kubernetes provider/pkg/provider/helm_release.go, Diff).
    "kubernetes:helm.sh/v3:Release": _words(
        "chart version values repositoryOpts atomic timeout description skipCrds resourceNames"
    ),
}

# Kubernetes is the other way round: an object is patched, but for its name and the fields below
# (pulumi-kubernetes provider/pkg/provider/diff.go, forceNewProperties; the last two columns of PersistentVolume and
# StorageClass are refused by the API server itself: pkg/apis/core/validation, pkg/apis/storage/validation).
IMMUTABLE: dict[str, frozenset[str]] = {
    "ConfigMap": _words("data binaryData"),
    "Secret": _words("type data stringData"),
    "PersistentVolume": _words("spec.csi spec.hostPath spec.local spec.nfs spec.nodeAffinity"),
    "PersistentVolumeClaim": _words("spec"),
    "StorageClass": _words("parameters provisioner reclaimPolicy volumeBindingMode"),
    "Service": _words("spec.clusterIP"),
    "Job": _words("spec.completions spec.parallelism spec.selector spec.template"),
    "RoleBinding": _words("roleRef"),
    "ClusterRoleBinding": _words("roleRef"),
}
IDENTITY = _words("apiVersion kind metadata.name metadata.namespace")

# Lists whose order means nothing (TypeSet in the Terraform schemas).
SETS = _words("subnetIds publicAccessCidrs enabledClusterLogTypes routeTableIds taints podIdentityAssociations")


UNREADY = 'metadata.annotations["pulumi.com/replaceUnready"]'
"""What the provider names as the reason when it replaces a Job that has not completed."""


def difference(token: str, old: dict[str, Any], new: dict[str, Any], *, unready: bool = False) -> Difference:
    """What changes between two sets of checked inputs; `unready` is a thing to be replaced for its state."""
    updatable = UPDATABLE.get(token)
    if updatable is None and token.startswith(_KUBERNETES):
        fixed = IDENTITY | IMMUTABLE.get(token.rpartition(":")[2], frozenset())
        changed = tuple(sorted(_changed(old, new, fixed)))
        replaces = tuple(path for path in changed if path in fixed) + ((UNREADY,) if unready else ())
    else:
        changed = tuple(sorted(_changed(old, new, updatable or frozenset())))
        replaces = tuple(path for path in changed if path not in (updatable or ()))
    name = given_name(token, new)
    same = name is not None and name == given_name(token, old) and not is_autonamed(token, new)
    return Difference(changed, replaces, bool(replaces) and same)


def _changed(old: Any, new: Any, paths: frozenset[str], above: str = "") -> Iterator[str]:
    """Paths of what differs; into maps only as far as `paths` tells their insides apart."""
    for key in sorted({*(old or {}), *(new or {})} - {DEFAULTS}):
        before, after = (old or {}).get(key), (new or {}).get(key)
        if _comparable(key, before) == _comparable(key, after):
            continue
        path = above + key
        inside = any(one.startswith(path + ".") for one in paths)
        if inside and all(value is None or isinstance(value, dict) for value in (before, after)):
            yield from _changed(before, after, paths, path + ".")
        else:
            yield path


def _comparable(key: str, value: Any) -> Any:
    """A value such that equal means the same to the cloud: no nulls, no empty lists or maps, sets in order."""
    if isinstance(value, dict):
        return {name: found for name, item in value.items() if (found := _comparable(name, item)) is not None} or None
    if isinstance(value, list | tuple):
        items = [_comparable("", item) for item in value]
        return (sorted(items, key=repr) if key in SETS else items) or None
    return value
