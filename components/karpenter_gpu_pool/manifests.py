"""What Karpenter is told, as plain Kubernetes objects: which nodes a pool may have, and what they offer.

Most mistakes in these objects are accepted in silence, so what was found by running Karpenter's core stands beside the
field that it explains.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from components.arguments import check_arguments, check_least
from components.node_group import ROOT_DEVICE
from sharing.gpus import Gpu, alike
from sharing.karpenter import limits, overlay_capacity, reported_gpus
from sharing.modes import MPS_LABEL, Sharing
from sharing.names import (
    CONTROLLERS_TAGS,
    GPU_PRESENT_LABEL,
    GPU_TAINT,
    GPU_TAINT_VALUE,
    MODE_TAINT,
    POOL_LABEL,
    TYPE_LABEL,
    ZONE_LABEL,
)
from sharing.setup import NODE_IMAGES_GIB, Capacity
from sharing.versions import AMI_DATE

Manifest = dict[str, Any]
NODE_POOL_LABEL = "karpenter.sh/nodepool"
GPU_COUNT_LABEL = "karpenter.k8s.aws/instance-gpu-count"
WAIT_UNTIL_READY = {"pulumi.com/waitFor": "condition=Ready"}
"""Without the feature gate an overlay never gets a condition: then the update fails, instead of nodes being bought."""
CONSOLIDATE_AFTER = "10m"
"""How long a node stays empty before it goes: a model's pod is away for seconds while its release is updated."""
EXPIRE_AFTER = "720h"
"""Karpenter's own default, written down."""
TERMINATION_GRACE_PERIOD = "10m"
"""How long a node may take to drain. Unset, one pod or volume that does not go would hold a `destroy` for ever."""


@dataclass(frozen=True, kw_only=True)
class KarpenterPool:
    """One kind of GPU node that Karpenter may bring.

    Raises `ValueError` for a value that no field takes, and instance types that are unknown or have different GPUs.
    """

    name: str
    """Name of the NodePool, and value of the node label `tandem/pool`, by which models find the nodes."""
    sharing: Sharing
    """How the cards are shared, e.g. `TimeSlicing(replicas=2)`: what Karpenter counts a node for."""
    mode_taint: pulumi.Input[str] | None = None
    """Value of the nodes' taint `tandem/mode`, the mode's name when absent."""
    instance_types: Sequence[str] = ("g4dn.xlarge",)
    """EC2 types, all with the same GPU; several make spot capacity likelier."""
    capacity: Capacity = "spot"
    """`spot` or `on-demand`."""
    on_demand_fallback: bool = False
    """Whether a pool on spot may buy on-demand. Karpenter does so without a word, also where the account lacks the
    service-linked role for spot (karpenter-provider-aws 1.14.1, pkg/providers/instance/instance.go)."""
    max_nodes: int = 1
    """Most nodes. Not GPUs: Karpenter would count shares."""
    volume_gib: int = 100
    """Root volume in GiB: AMI, model files, and unpacked images on types without local NVMe."""
    zone: pulumi.Input[str] | None = None
    """The one zone of the nodes, where a model's volume lives there; any zone of the subnets without it."""

    def __post_init__(self) -> None:
        check_arguments(self)
        check_least(self, max_nodes=1, volume_gib=NODE_IMAGES_GIB)
        alike(self.instance_types)


def node_class(
    pool: KarpenterPool,
    *,
    role: pulumi.Input[str],
    subnet_ids: pulumi.Input[Sequence[pulumi.Input[str]]],
    security_group_id: pulumi.Input[str],
    tags: Mapping[str, str],
) -> Manifest:
    """The EC2NodeClass: image, disk, network and role of the nodes. `role` is a name: an ARN is accepted and fails."""
    spec: Manifest = {
        "role": role,
        # The alias picks the NVIDIA image for types with a GPU. A date, since `latest` would replace nodes by itself.
        "amiSelectorTerms": [{"alias": f"al2023@v{AMI_DATE}"}],
        "subnetSelectorTerms": _terms(subnet_ids),
        "securityGroupSelectorTerms": [{"id": security_group_id}],
        "blockDeviceMappings": [
            {
                "deviceName": ROOT_DEVICE,
                "ebs": {
                    "volumeSize": f"{pool.volume_gib}Gi",
                    "volumeType": "gp3",
                    "encrypted": True,
                    "deleteOnTermination": True,
                },
            }
        ],
        "metadataOptions": {
            "httpEndpoint": "enabled",
            "httpTokens": "required",
            # One hop: pods have Pod Identity and do not reach the node's role.
            "httpPutResponseHopLimit": 1,
        },
        "tags": dict(tags),
    }
    if all(known.local_nvme_gb for known in alike(pool.instance_types)):
        # Images, containers and logs onto the local disks. Model files stay on the root volume, which every type has.
        spec["instanceStorePolicy"] = "RAID0"
    return _object("karpenter.k8s.aws/v1", "EC2NodeClass", pool.name, spec)


def node_overlays(pool: KarpenterPool, first_weight: int = 1) -> list[Manifest]:
    """A NodeOverlay for each number of GPUs: the shares that the device plugin will report, in place of the cards.

    Weights are all different: of two equal ones Karpenter drops one, by the alphabet.
    """
    types = alike(pool.instance_types)
    found = []
    for weight, gpus in enumerate(sorted({known.gpus for known in types}), first_weight):
        same = [known for known in types if known.gpus == gpus]
        spec = {
            "weight": weight,
            # Never empty: an overlay without requirements holds for every type there is.
            "requirements": [_in(NODE_POOL_LABEL, pool.name), _in(TYPE_LABEL, *(known.name for known in same))],
            "capacity": overlay_capacity(pool.sharing, same[0]),
        }
        found.append(_object("karpenter.sh/v1alpha1", "NodeOverlay", f"{pool.name}-{gpus}-gpu", spec))
    return found


def node_pool(pool: KarpenterPool) -> Manifest:
    """The NodePool: which types, what they are labelled and tainted with, how many, and when one goes."""
    types = alike(pool.instance_types)
    capacity = ("spot", "on-demand") if pool.capacity == "spot" and pool.on_demand_fallback else (pool.capacity,)
    requirements = [
        _in("kubernetes.io/os", "linux"),
        _in("kubernetes.io/arch", types[0].arch),
        _in("karpenter.sh/capacity-type", *capacity),
        _in(TYPE_LABEL, *pool.instance_types),
        # Only counts that have an overlay; g6f reports 0.
        _in(GPU_COUNT_LABEL, *sorted({str(reported_gpus(known)) for known in types}, key=int)),
    ]
    if pool.zone is not None:
        # Karpenter would follow the volume of one pod, and bring a second node elsewhere for a pod without one.
        requirements.append(_in(ZONE_LABEL, pool.zone))
    spec = {
        "template": {
            "metadata": {"labels": _labels(pool.sharing, alike(pool.instance_types)[0].gpu, pool.name)},
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": pool.name},
                "requirements": requirements,
                "taints": [
                    {"key": GPU_TAINT, "value": GPU_TAINT_VALUE, "effect": "NoSchedule"},
                    {"key": MODE_TAINT, "value": pool.mode_taint or pool.sharing.config_name, "effect": "NoExecute"},
                ],
                "expireAfter": EXPIRE_AFTER,
                "terminationGracePeriod": TERMINATION_GRACE_PERIOD,
            },
        },
        "disruption": {
            # A node with a loaded model is not empty. The other policies move models to cheaper nodes, and each then
            # loads for minutes.
            "consolidationPolicy": "WhenEmpty",
            "consolidateAfter": CONSOLIDATE_AFTER,
            # What is left, a new AMI or a changed pool, replaces one node at a time.
            "budgets": [{"nodes": "1"}],
        },
        "limits": limits(pool.sharing, types, pool.max_nodes),
    }
    return _object("karpenter.sh/v1", "NodePool", pool.name, spec)


def check(pools: Sequence[KarpenterPool], tags: Mapping[str, str]) -> None:
    """Raises `ValueError` for what Karpenter would take and not do, or do wrong."""
    names = [pool.name for pool in pools]
    if not names or len(set(names)) != len(names):
        raise ValueError(f"pools need different names, and at least one pool (got {names}). Name each pool once.")
    for key in tags:
        if key.startswith(CONTROLLERS_TAGS):
            raise ValueError(f"the tag '{key}' is Karpenter's own. Leave it out.")
    for pool in pools:
        if pool.sharing.needs_mig_manager:
            reason = "Karpenter's nodes are not partitioned (gpu-operator#2415)"
            raise ValueError(f"pool '{pool.name}': {reason}. Use another mode.")
        # More shares than the card takes would be promised to pods that then wait on a node that is paid.
        if problems := pool.sharing.check(alike(pool.instance_types)[0].gpu):
            raise ValueError(f"pool '{pool.name}': {problems[0]}")


def _labels(sharing: Sharing, gpu: Gpu, pool: str) -> dict[str, str]:
    """What the nodes have when they join: Karpenter knows no label that something sets later, as feature discovery sets
    the one of the MPS daemon minutes after the boot.
    """
    mps = {MPS_LABEL: "true"} if sharing.needs_mps_daemon else {}
    return {POOL_LABEL: pool, GPU_PRESENT_LABEL: "true", **sharing.node_labels(gpu), **mps}


def _in(key: str, *values: pulumi.Input[str]) -> Manifest:
    return {"key": key, "operator": "In", "values": list(values)}


def _terms(ids: pulumi.Input[Sequence[pulumi.Input[str]]]) -> Any:
    if isinstance(ids, list | tuple):
        return [{"id": one} for one in ids]
    return pulumi.Output.from_input(ids).apply(lambda known: [{"id": one} for one in known])


def _object(api_version: str, kind: str, name: str, spec: Manifest) -> Manifest:
    metadata = {"name": name, "annotations": dict(WAIT_UNTIL_READY)}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}
