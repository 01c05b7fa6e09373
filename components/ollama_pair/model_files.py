"""The storage of a model's files: a directory on the node's disk, or an EBS volume of its own.

Pods mount both through a PersistentVolumeClaim. A direct mount of a host directory would violate Pod Security level
`baseline`.
"""

from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from components.disks import claim_volume, ebs_volume
from components.ollama_pair.model import OllamaModel
from sharing.names import NODE_MODELS_DIRECTORY

NOMINAL_SIZE = "1Gi"
"""Nominal size of a directory. Kubernetes requires one but does not enforce it."""


def claim_disk(
    name: str,
    model: OllamaModel,
    namespace: pulumi.Input[str],
    tags: Mapping[str, str],
    child: pulumi.ResourceOptions,
) -> pulumi.Output[str]:
    """Registers the disk of a model and a claim on it, and returns the claim's name.

    Files in a node's directory are deleted with the node.
    """
    # Each kind of disk has its own claim name. On a switch, the new claim exists before the release drops the old one.
    is_volume = model.cache == "volume"
    claim_name = f"{model.served.id}-{'models' if is_volume else 'node'}"
    size_gib = model.volume_gib or model.served.model.volume_gib
    size = f"{size_gib}Gi" if is_volume else NOMINAL_SIZE
    source = ebs_volume(name, model.zone, size_gib, tags, child) if is_volume else _directory(model.served.id)
    return claim_volume(name, claim_name, namespace, size, source, child)


def _directory(id: str) -> dict[str, Any]:
    """A directory on the pod's current node. Kubelet creates it for root, with mode 0755."""
    path = f"{NODE_MODELS_DIRECTORY}/{id}"
    return {"host_path": k8s.core.v1.HostPathVolumeSourceArgs(path=path, type="DirectoryOrCreate")}
