"""The storage of a model's files: a directory on the node's disk, or an EBS volume of its own.

Pods mount both through a PersistentVolumeClaim. A direct mount of a host directory would violate Pod Security level
`baseline`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s

from sharing.names import EBS_CSI_TAG, NODE_MODELS_DIRECTORY, ZONE_LABEL, with_name
from sharing.setup import Cache

NOMINAL_SIZE = "1Gi"
"""Nominal size of a directory. Kubernetes requires one but does not enforce it."""


@dataclass(frozen=True, kw_only=True)
class ModelDisk:
    """The disk of one model."""

    model: str
    """Id of the model."""
    cache: Cache
    size_gib: int
    """Size of an EBS volume."""
    zone: pulumi.Input[str] | None
    """Zone of an EBS volume."""


def claim_disk(
    name: str,
    disk: ModelDisk,
    namespace: pulumi.Input[str],
    namespace_name: str,
    tags: Mapping[str, str],
    child: pulumi.ResourceOptions,
) -> pulumi.Output[str]:
    """Registers the disk and a claim on it, and returns the claim's name.

    Pulumi owns the PersistentVolume, so nothing is provisioned dynamically and nothing is left behind. The order of
    deletion is release, claim, PersistentVolume, EBS volume. Files in a node's directory are deleted with the node.
    """
    # Each kind of disk has its own claim name. On a switch, the new claim exists before the release drops the old one.
    claim_name = f"{disk.model}-{'models' if disk.cache == 'volume' else 'node'}"
    size = f"{disk.size_gib}Gi" if disk.cache == "volume" else NOMINAL_SIZE
    meta = k8s.meta.v1.ObjectMetaArgs
    persistent = k8s.core.v1.PersistentVolume(
        f"{name}-persistent-volume",
        metadata=meta(name=f"{namespace_name}-{claim_name}"),
        spec=k8s.core.v1.PersistentVolumeSpecArgs(
            access_modes=["ReadWriteOnce"],
            capacity={"storage": size},
            persistent_volume_reclaim_policy="Retain",
            storage_class_name="",
            claim_ref=k8s.core.v1.ObjectReferenceArgs(name=claim_name, namespace=namespace),
            **(_ebs_volume(name, disk, tags, child) if disk.cache == "volume" else _directory(disk)),
        ),
        opts=child,
    )
    claim = k8s.core.v1.PersistentVolumeClaim(
        f"{name}-claim",
        metadata=meta(name=claim_name, namespace=namespace),
        spec=k8s.core.v1.PersistentVolumeClaimSpecArgs(
            access_modes=["ReadWriteOnce"],
            storage_class_name="",
            volume_name=persistent.metadata.name,
            resources=k8s.core.v1.VolumeResourceRequirementsArgs(requests={"storage": size}),
        ),
        opts=child,
    )
    found: pulumi.Output[str] = claim.metadata.name
    return found


def _directory(disk: ModelDisk) -> dict[str, Any]:
    """A directory on the pod's current node. Kubelet creates it for root, with mode 0755."""
    path = f"{NODE_MODELS_DIRECTORY}/{disk.model}"
    return {"host_path": k8s.core.v1.HostPathVolumeSourceArgs(path=path, type="DirectoryOrCreate")}


def _ebs_volume(name: str, disk: ModelDisk, tags: Mapping[str, str], child: pulumi.ResourceOptions) -> dict[str, Any]:
    volume = aws.ebs.Volume(
        f"{name}-volume",
        availability_zone=disk.zone,
        size=disk.size_gib,
        type="gp3",
        encrypted=True,
        tags={**with_name(tags, name), EBS_CSI_TAG: "true"},
        opts=child,
    )
    driver = k8s.core.v1.CSIPersistentVolumeSourceArgs(
        driver="ebs.csi.aws.com", volume_handle=volume.id, fs_type="ext4"
    )
    return {"csi": driver, "node_affinity": _in_zone(disk.zone)}


def _in_zone(zone: pulumi.Input[str] | None) -> k8s.core.v1.VolumeNodeAffinityArgs:
    in_zone = k8s.core.v1.NodeSelectorRequirementArgs(
        key=ZONE_LABEL, operator="In", values=[pulumi.Output.from_input(zone).apply(str)]
    )
    terms = [k8s.core.v1.NodeSelectorTermArgs(match_expressions=[in_zone])]
    return k8s.core.v1.VolumeNodeAffinityArgs(required=k8s.core.v1.NodeSelectorArgs(node_selector_terms=terms))
