"""Storage: bindings of claims to volumes, and attachments by the EBS CSI driver. No stack provisions volumes.

Zones of volumes are not emulated: the cluster tier has the real scheduler.
"""

from typing import Any

from sandbox.cloud.identity import digest
from sandbox.world import tokens
from sandbox.world.controllers.nodes import cluster_at, made, taints
from sandbox.world.controllers.user_data import mps_directory
from sandbox.world.entities import Entities, Entity, value_at

DRIVER = "aws-ebs-csi-driver"
IDENTITY_AGENT = "eks-pod-identity-agent"
PROVISIONER = "ebs.csi.aws.com"
DRIVER_POLICY = "AmazonEBSCSIDriverPolicy"
"""Common prefix of AWS's two managed policies for the driver."""


def untainted(node: Entity) -> bool:
    """Whether system pods can run on the node. They only tolerate `CriticalAddonsOnly`."""
    return all(
        one["key"] == "CriticalAddonsOnly" or one["effect"] == "PREFER_NO_SCHEDULE" for one in taints(node.outputs)
    )


def has_policy(entities: Entities, role: Entity, beginning: str) -> bool:
    """Whether the role has a policy whose name starts so."""
    attached = entities.having(tokens.ATTACHED_POLICY, role=role.id)
    return any(str(one.inputs.get("policyArn")).rpartition("/")[2].startswith(beginning) for one in attached)


def bound(entities: Entities, claim: dict[str, Any]) -> Entity | None:
    """The PersistentVolume that a claim with these inputs names."""
    return entities.get(tokens.PERSISTENT_VOLUME, value_at(claim, "spec.volumeName"))


def why_unmountable(entities: Entities, server: str, namespace: str, name: str) -> str | None:
    """Why a pod cannot mount the claim with this name. None if it can."""
    claim = entities.get(tokens.CLAIM, f"{namespace}/{name}")
    if claim is None:
        return f'persistentvolumeclaim "{name}" not found'
    if not _ebs_volume(entities, claim):
        return None  # a directory on the node, which needs no driver
    missing = _driver_missing(entities, server)
    return f"FailedAttachVolume for claim {name}: {missing}" if missing else None


def why_not_mounted(entities: Entities, namespace: str, name: str, node: Entity) -> str | None:
    """Why the kubelet of a node does not mount the claim. None if it does.

    It refuses a host's directory of the type `Directory` that is not there, and the pod's containers are never created
    (kubernetes/kubernetes#90263). The only such directory that a node can have is that of its MPS daemon.
    """
    claim = entities.get(tokens.CLAIM, f"{namespace}/{name}")
    volume = bound(entities, claim.inputs) if claim else None
    directory = value_at(volume.inputs, "spec.hostPath") if volume else None
    if not volume or not directory or directory.get("type") != "Directory" or directory["path"] == mps_directory(node):
        return None
    failed = f'MountVolume.SetUp failed for volume "{volume.id}" : hostPath type check failed'
    return f"ContainerCreating on {node.id}: FailedMount: {failed}: {directory['path']} is not a directory"


def mount(entities: Entities, namespace: str, name: str, node: Entity) -> None:
    """Attaches the claim's volume to the node."""
    claim = entities.get(tokens.CLAIM, f"{namespace}/{name}")
    if claim is not None and (volume := _ebs_volume(entities, claim)):
        identity = f"csi-{digest(volume, node.id)}"
        values = {"volumeHandle": volume, "node": node.id, "claim": claim.id}
        made(entities, tokens.ATTACHMENT, identity, identity, PROVISIONER, node.key, values, node.cluster)


def detach(entities: Entities) -> None:
    """Detaches volumes that no pod uses, if the driver works."""
    running = [pod for pod in entities.of(tokens.POD) if pod.outputs["node"]]
    used = {(claim, pod.outputs["node"]) for pod in running for claim in pod.outputs["claims"]}
    for entity in entities.of(tokens.ATTACHMENT):
        if (entity.inputs["claim"], entity.inputs["node"]) not in used and _driver_missing(
            entities, entity.cluster
        ) is None:
            entities.remove(entity)


def _driver_missing(entities: Entities, server: str) -> str | None:
    """Why the driver does not work in this cluster. None if it does.

    It needs its add-on, a node for its controller, the policy on its role (checked at each call), and with Pod Identity
    the agent. Credentials that it already has stay valid for hours, but nothing should rely on that.
    https://docs.aws.amazon.com/eks/latest/userguide/ebs-csi.html and pod-identities.html
    """
    cluster = cluster_at(entities, server)
    addon = entities.get(tokens.ADDON, f"{cluster.id}:{DRIVER}") if cluster else None
    if addon is None:
        return f"the add-on {DRIVER} is not installed"
    if not any(untainted(node) for node in entities.within(server, tokens.NODE)):
        return f"the controller of {DRIVER} has no node"
    by_agent = value_at(addon.inputs, "podIdentityAssociations.roleArn")
    if by_agent and cluster and entities.get(tokens.ADDON, f"{cluster.id}:{IDENTITY_AGENT}") is None:
        return f"the add-on {IDENTITY_AGENT}, which gives {DRIVER} its role, is not installed"
    role = entities.role(by_agent)
    if by_agent and (role is None or not has_policy(entities, role, DRIVER_POLICY)):
        return f"UnauthorizedOperation: the role {by_agent} has no {DRIVER_POLICY} attached"
    return None


def _ebs_volume(entities: Entities, claim: Entity) -> str:
    """Id of the EBS volume behind a claim; "" for other volumes."""
    volume = bound(entities, claim.inputs)
    return str(value_at(volume.inputs, "spec.csi.volumeHandle") or "") if volume else ""
