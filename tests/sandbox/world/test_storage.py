"""Storage in the emulated cluster: claims, volumes, and the driver that attaches and deletes."""

from typing import Any

import pytest

from sandbox.world import tokens
from tests.sandbox.world_pieces import Account, meta, refused


def test_a_claim_needs_a_volume(account: Account) -> None:
    with refused("Timeout", "Pending"):
        account.make(tokens.CLAIM, metadata=meta("d", namespace="default"), spec={"volumeName": "v"})
    account.volume()


def with_claim(name: str) -> dict[str, Any]:
    return {"persistentVolume": {"enabled": True, "existingClaim": name}}


@pytest.mark.real_world(
    behaviour="A volume claim stays while a pod uses it, and a volume while a claim is bound to it",
    source="kubernetes.io/docs/concepts/storage/persistent-volumes/#storage-object-in-use-protection",
)
def test_a_claim_stays_while_a_pod_uses_it_and_a_volume_while_a_claim_is_bound_to_it(ready: Account) -> None:
    disk, volume, claim = ready.volume()
    release = ready.model(**with_claim("d"))
    with refused("Timeout", "pvc-protection"):
        ready.drop(tokens.CLAIM, claim)
    with refused("Timeout", "pv-protection"):
        ready.drop(tokens.PERSISTENT_VOLUME, volume)
    with refused("VolumeInUse"):
        ready.drop(tokens.VOLUME, disk)
    ready.drop(tokens.RELEASE, release)
    ready.drop(tokens.CLAIM, claim)
    ready.drop(tokens.PERSISTENT_VOLUME, volume)
    assert ready.world.read(tokens.VOLUME, disk), "a volume with Retain outlives its claim"
    ready.drop(tokens.VOLUME, disk)


@pytest.mark.parametrize("missing", ["add-on", "agent", "policy"])
def test_pods_with_volumes_wait_for_the_driver(account: Account, missing: str) -> None:
    account.gpu_nodes()
    account.device_plugin()
    account.volume()
    with refused("Timeout", "FailedAttachVolume"):
        account.model(**with_claim("d"))
    account.driver()
    attached = next(one for one in account.of(tokens.ATTACHED_POLICY) if "CSI" in one.id)
    if missing == "policy":
        account.drop(tokens.ATTACHED_POLICY, attached.id)
        with refused("Timeout", "UnauthorizedOperation"):
            account.model(**with_claim("d"))
        account.make(tokens.ATTACHED_POLICY, **attached.inputs)
    if missing == "agent":
        account.drop(tokens.ADDON, "c:eks-pod-identity-agent")
        with refused("Timeout", "eks-pod-identity-agent"):
            account.model(**with_claim("d"))
        account.make(tokens.ADDON, "agent", clusterName="c", addonName="eks-pod-identity-agent")
    account.model(**with_claim("d"))


@pytest.mark.real_world(
    behaviour="A claim on a directory of the node needs no storage driver; like every "
    "claim it stays while a pod uses it",
    source="kubernetes.io/docs/concepts/storage/volumes/#hostpath and "
    "docs/concepts/storage/persistent-volumes/#storage-object-in-use-protection",
)
def test_a_claim_on_a_directory_of_the_node_needs_no_driver_and_stays_while_a_pod_uses_it(account: Account) -> None:
    account.gpu_nodes()
    account.device_plugin()
    _, volume, claim = account.volume(hostPath={"path": "/models", "type": "DirectoryOrCreate"})
    with refused("Timeout", 'persistentvolumeclaim "e" not found'):
        account.model(volumes=[{"name": "models", "persistentVolumeClaim": {"claimName": "e"}}])
    release = account.model(volumes=[{"name": "models", "persistentVolumeClaim": {"claimName": "d"}}])
    with refused("Timeout", "pvc-protection"):
        account.drop(tokens.CLAIM, claim)
    account.drop(tokens.RELEASE, release)
    account.drop(tokens.CLAIM, claim)
    account.drop(tokens.PERSISTENT_VOLUME, volume)


@pytest.mark.parametrize("missing", ["add-on", "agent", "policy", "node"])
def test_a_volume_stays_attached_if_the_driver_is_deleted_first(ready: Account, missing: str) -> None:
    disk, _, _ = ready.volume()
    release = ready.model(**with_claim("d"))
    if missing == "add-on":
        ready.drop(tokens.ADDON, "c:aws-ebs-csi-driver")
    elif missing == "agent":
        ready.drop(tokens.ADDON, "c:eks-pod-identity-agent")
    elif missing == "policy":
        ready.drop(tokens.ATTACHED_POLICY, next(one.id for one in ready.of(tokens.ATTACHED_POLICY) if "CSI" in one.id))
    else:
        ready.drop(tokens.NODE_GROUP, "c:system")
    ready.drop(tokens.RELEASE, release)
    with refused("VolumeInUse"):
        ready.drop(tokens.VOLUME, disk)
    ready.drop(tokens.NODE_GROUP, "c:gpu")
    ready.drop(tokens.VOLUME, disk)
