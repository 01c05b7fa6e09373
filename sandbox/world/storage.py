"""Storage: which volume a claim is bound to, and what the EBS CSI driver attaches. No stack has it make volumes."""

from sandbox.cloud.identity import digest
from sandbox.world import tokens
from sandbox.world.nodes import ZONE_LABEL, cluster_at, made, taints
from sandbox.world.things import Thing, Things, value_at, values_at

DRIVER = "aws-ebs-csi-driver"
IDENTITY_AGENT = "eks-pod-identity-agent"
PROVISIONER = "ebs.csi.aws.com"
DRIVER_POLICY = "AmazonEBSCSIDriverPolicy"
"""Beginning of the names of AWS's two managed policies for it."""


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
    if not any(untainted(node) for node in things.within(server, tokens.NODE)):
        return f"the controller of {DRIVER} has no node"
    by_agent = value_at(addon.inputs, "podIdentityAssociations.roleArn")
    if by_agent and cluster and things.get(tokens.ADDON, f"{cluster.id}:{IDENTITY_AGENT}") is None:
        return f"the add-on {IDENTITY_AGENT} is not there to give {DRIVER} its role"
    role = things.role(by_agent)
    if by_agent and (role is None or not has_policy(things, role, DRIVER_POLICY)):
        return f"UnauthorizedOperation: the role {by_agent} has no {DRIVER_POLICY} attached"
    return None


def has_policy(things: Things, role: Thing, beginning: str) -> bool:
    """Whether a policy of such a name is attached to the role."""
    attached = [one for name in {role.id, role.name} for one in things.having(tokens.ATTACHED_POLICY, role=name)]
    return any(str(one.inputs.get("policyArn")).rpartition("/")[2].startswith(beginning) for one in attached)


def claims(things: Things, server: str, namespace: str, name: str) -> Thing | None:
    """The claim of that name."""
    return next((one for one in things.within(server, tokens.CLAIM) if one.id == f"{namespace}/{name}"), None)


def bound(things: Things, claim: Thing) -> Thing | None:
    """The PersistentVolume that the claim is bound to."""
    name, who = value_at(claim.inputs, "spec.volumeName"), (claim.namespace, value_at(claim.outputs, "metadata.name"))
    for volume in things.within(claim.cluster, tokens.PERSISTENT_VOLUME):
        meant = value_at(volume.inputs, "spec.claimRef") or {}
        if (meant.get("namespace"), meant.get("name")) == who or (name and volume.id == name):
            return volume
    return None


def handle(volume: Thing | None) -> str:
    """EBS volume of a PersistentVolume; "" for other kinds."""
    return str(value_at(volume.inputs, "spec.csi.volumeHandle") or "") if volume else ""


def zones(volume: Thing | None) -> list[str]:
    """Zones that a PersistentVolume binds its pods to; empty for any."""
    path = "spec.nodeAffinity.required.nodeSelectorTerms.matchExpressions"
    found = values_at(volume.inputs, path) if volume else []
    return [zone for one in found if one.get("key") == ZONE_LABEL for zone in one.get("values") or ()]


def mount(things: Things, claim: Thing, node: Thing) -> None:
    """Attaches the claim's volume to the node."""
    volume = bound(things, claim)
    if not handle(volume):
        return
    identity = f"csi-{digest(handle(volume), node.id, length=12)}"
    values = {"volumeHandle": handle(volume), "node": node.id, "claim": claim.id}
    made(things, tokens.ATTACHMENT, identity, identity, PROVISIONER, node.key, values, claim.cluster)


def detach(things: Things, used: set[tuple[str, str]]) -> None:
    """Detaches what no pod uses any more, where the driver works. `used` are claims and nodes of running pods."""
    for one in things.of(tokens.ATTACHMENT):
        if (one.inputs["claim"], one.inputs["node"]) not in used and driver_missing(things, one.cluster) is None:
            things.remove(one)
