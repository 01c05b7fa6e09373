"""Storage: which volume a claim is bound to, what the EBS CSI driver makes, attaches and deletes."""

from __future__ import annotations

from typing import Any

from sandbox.cloud.identity import digest
from sandbox.world import tokens
from sandbox.world.nodes import ZONE_LABEL, cluster_at, labels, made, nodes, taints
from sandbox.world.store import State
from sandbox.world.things import Thing, Things, value_at, values_at

DRIVER = "aws-ebs-csi-driver"
IDENTITY_AGENT = "eks-pod-identity-agent"
PROVISIONER = "ebs.csi.aws.com"
DRIVER_POLICY = "AmazonEBSCSIDriverPolicy"
"""Beginning of the names of AWS's two managed policies for it."""
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def untainted(node: Thing) -> bool:
    """Whether pods of the cluster's own run there: they tolerate `CriticalAddonsOnly` and nothing else."""
    return all(
        one.get("key") == "CriticalAddonsOnly" or one.get("effect") == "PREFER_NO_SCHEDULE" for one in taints(node)
    )


def driver_missing(things: Things, server: str) -> str | None:
    """Why the driver does not work in that cluster; None when it does.

    It needs its add-on, a node for its controller, the policy on its role (EC2 looks at it at each call), and for a
    role by Pod Identity the agent. Credentials that it holds already last for hours; nobody should count on that.
    https://docs.aws.amazon.com/eks/latest/userguide/ebs-csi.html and pod-identities.html
    """
    cluster = cluster_at(things, server)
    addon = things.get(tokens.ADDON, f"{cluster.id}:{DRIVER}") if cluster else None
    if addon is None:
        return f"the add-on {DRIVER} is not there"
    if not any(untainted(node) for node in nodes(things, server)):
        return f"the controller of {DRIVER} has no node"
    by_agent = value_at(addon.inputs, "podIdentityAssociations.roleArn")
    if by_agent and cluster and things.get(tokens.ADDON, f"{cluster.id}:{IDENTITY_AGENT}") is None:
        return f"the add-on {IDENTITY_AGENT} is not there to give {DRIVER} its role"
    arn = by_agent or addon.inputs.get("serviceAccountRoleArn")
    role = next((one for one in things.of(tokens.ROLE) if one.outputs.get("arn") == arn), None)
    if arn and (role is None or not has_policy(things, role, DRIVER_POLICY)):
        return f"UnauthorizedOperation: the role {arn} has no {DRIVER_POLICY} attached"
    return None


def has_policy(things: Things, role: Thing, beginning: str) -> bool:
    """Whether a policy of such a name is attached to the role."""
    attached = [
        one.inputs for one in things.of(tokens.ATTACHED_POLICY) if one.inputs.get("role") in (role.id, role.name)
    ]
    names = [str(one.get("policyArn")) for one in attached] + [
        str(one) for one in role.inputs.get("managedPolicyArns") or ()
    ]
    return any(arn.rpartition("/")[2].startswith(beginning) for arn in names)


def claims(things: Things, server: str, namespace: str, name: str) -> Thing | None:
    """The claim of that name."""
    return next(
        (
            one
            for one in things.of(tokens.CLAIM)
            if one.cluster == server and (one.namespace, value_at(one.outputs, "metadata.name")) == (namespace, name)
        ),
        None,
    )


def bound(things: Things, claim: Thing) -> Thing | None:
    """The PersistentVolume that the claim is bound to."""
    name, who = value_at(claim.inputs, "spec.volumeName"), (claim.namespace, value_at(claim.outputs, "metadata.name"))
    for volume in things.of(tokens.PERSISTENT_VOLUME):
        if volume.cluster != claim.cluster:
            continue
        meant = value_at(volume.inputs, "spec.claimRef") or {}
        if (meant.get("namespace"), meant.get("name")) == who or (name and volume.id == name):
            return volume
    return None


def class_of(things: Things, claim: Thing) -> Thing | None:
    """The StorageClass that provisions for the claim; None for a claim that wants none, or one that is not there."""
    return class_named(things, claim.cluster, (claim.inputs.get("spec") or {}).get("storageClassName"))


def class_named(things: Things, server: str, wanted: str | None) -> Thing | None:
    """The StorageClass of that name, the default one for None; "" is nobody's."""
    for found in things.of(tokens.STORAGE_CLASS):
        annotations = value_at(found.inputs, "metadata.annotations") or {}
        is_default = wanted is None and annotations.get(DEFAULT_CLASS) == "true"
        if found.cluster == server and (is_default or (wanted and found.id == wanted)):
            return found
    return None


def handle(volume: Thing | None) -> str:
    """EBS volume of a PersistentVolume; "" for other kinds."""
    return str(value_at(volume.inputs, "spec.csi.volumeHandle") or "") if volume else ""


def zones(volume: Thing | None) -> list[str]:
    """Zones that a PersistentVolume binds its pods to; empty for any."""
    path = "spec.nodeAffinity.required.nodeSelectorTerms.matchExpressions"
    found = values_at(volume.inputs, path) if volume else []
    return [zone for one in found if one.get("key") == ZONE_LABEL for zone in one.get("values") or ()]


def mount(things: Things, claim: Thing, node: Thing, state: State) -> None:
    """Provisions the claim's volume if it has none yet, and attaches it to the node."""
    volume = bound(things, claim) or _provision(things, claim, labels(node).get(ZONE_LABEL, ""), state)
    if volume is None or not handle(volume):
        return
    identity = f"csi-{digest(handle(volume), node.id, length=12)}"
    values = {"volumeHandle": handle(volume), "node": node.id, "claim": claim.id}
    made(things, state, tokens.ATTACHMENT, identity, identity, PROVISIONER, node.key, values, claim.cluster)


def _provision(things: Things, claim: Thing, zone: str, state: State) -> Thing | None:
    kind = class_of(things, claim)
    if kind is None or driver_missing(things, claim.cluster):
        return None
    size = value_at(claim.inputs, "spec.resources.requests.storage")
    values = {
        "availabilityZone": zone,
        "type": "gp3",
        "size": size,
        "tags": {"kubernetes.io/created-for/pvc/name": claim.id},
    }
    disk = made(things, state, tokens.VOLUME, "", claim.id, PROVISIONER, claim.key, values)
    name = f"pvc-{digest(claim.id, str(disk.serial), length=12)}"
    spec: dict[str, Any] = {
        "csi": {"driver": PROVISIONER, "volumeHandle": disk.id},
        "claimRef": {"namespace": claim.namespace, "name": value_at(claim.outputs, "metadata.name")},
        "persistentVolumeReclaimPolicy": kind.inputs.get("reclaimPolicy") or "Delete",
    }
    owner, values = claim.key, {"spec": spec}
    return made(things, state, tokens.PERSISTENT_VOLUME, name, name, PROVISIONER, owner, values, claim.cluster)


def detach(things: Things, used: set[tuple[str, str]]) -> None:
    """Detaches what no pod uses any more, where the driver works. `used` are claims and nodes of running pods."""
    for one in things.of(tokens.ATTACHMENT):
        if (one.inputs["claim"], one.inputs["node"]) not in used and driver_missing(things, one.cluster) is None:
            things.remove(one)


def release_claim(things: Things, claim: Thing) -> None:
    """What a deleted claim leaves: a provisioned volume goes only with a working driver and by its reclaim policy."""
    deletes = driver_missing(things, claim.cluster) is None
    for owned in things.owned_by(claim):
        volume = owned if owned.type == tokens.PERSISTENT_VOLUME else None
        policy = value_at(volume.inputs, "spec.persistentVolumeReclaimPolicy") if volume else None
        if volume is not None and (policy == "Retain" or not deletes):
            volume.owner = None
            disk = things.get(tokens.VOLUME, handle(volume))
            if disk is not None:
                disk.owner = None
