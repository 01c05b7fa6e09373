"""EBS volumes for pods, and claims on volumes.

Pulumi owns the PersistentVolume and the EBS volume, so nothing is provisioned dynamically and nothing is left behind.
The order of deletion is claim, PersistentVolume, EBS volume.
"""

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_aws as aws
import pulumi_kubernetes as k8s

from sharing.names import EBS_CSI_TAG, ZONE_LABEL, with_name


def claim_volume(
    name: str,
    claim_name: str,
    namespace: pulumi.Input[str],
    size: str,
    source: Mapping[str, Any],
    child: pulumi.ResourceOptions,
) -> pulumi.Output[str]:
    """Registers a PersistentVolume and a claim on it, and returns the claim's name.

    `source` has the arguments of the PersistentVolume that describe its storage. It has no namespace itself, so
    its name begins with the claim's.
    """
    meta = k8s.meta.v1.ObjectMetaArgs
    persistent = k8s.core.v1.PersistentVolume(
        f"{name}-persistent-volume",
        metadata=meta(name=pulumi.Output.concat(namespace, "-", claim_name)),
        spec=k8s.core.v1.PersistentVolumeSpecArgs(
            access_modes=["ReadWriteOnce"],
            capacity={"storage": size},
            persistent_volume_reclaim_policy="Retain",
            storage_class_name="",
            claim_ref=k8s.core.v1.ObjectReferenceArgs(name=claim_name, namespace=namespace),
            **source,
        ),
        opts=child,
    )
    claimed = k8s.core.v1.PersistentVolumeClaim(
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
    named: pulumi.Output[str] = claimed.metadata.name
    return named


def ebs_volume(
    name: str, zone: pulumi.Input[str] | None, size_gib: int, tags: Mapping[str, str], child: pulumi.ResourceOptions
) -> dict[str, Any]:
    """Registers an EBS volume, and returns the arguments of its PersistentVolume. Its pods run only in its zone."""
    volume = aws.ebs.Volume(
        f"{name}-volume",
        availability_zone=zone,
        size=size_gib,
        type="gp3",
        encrypted=True,
        tags={**with_name(tags, name), EBS_CSI_TAG: "true"},
        opts=child,
    )
    driver = k8s.core.v1.CSIPersistentVolumeSourceArgs(
        driver="ebs.csi.aws.com", volume_handle=volume.id, fs_type="ext4"
    )
    return {"csi": driver, "node_affinity": _in_zone(zone)}


def _in_zone(zone: pulumi.Input[str] | None) -> k8s.core.v1.VolumeNodeAffinityArgs:
    in_zone = k8s.core.v1.NodeSelectorRequirementArgs(
        key=ZONE_LABEL, operator="In", values=[pulumi.Output.from_input(zone).apply(str)]
    )
    terms = [k8s.core.v1.NodeSelectorTermArgs(match_expressions=[in_zone])]
    return k8s.core.v1.VolumeNodeAffinityArgs(required=k8s.core.v1.NodeSelectorArgs(node_selector_terms=terms))
