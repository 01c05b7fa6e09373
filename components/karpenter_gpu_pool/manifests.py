"""Karpenter's Kubernetes objects: which nodes a pool can have, and what they offer.

Karpenter silently accepts most errors in these objects. Comments on a field say what we found by running its core.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi

from components.arguments import check_arguments, check_least
from components.mps_daemon import user_data
from components.node_group import ROOT_DEVICE
from components.planned_pools import PlannedPool, plan_pool
from sharing.fit.karpenter import limits, reported_gpus, shared_resources
from sharing.hardware.gpus import Gpu, alike
from sharing.modes.base import MPS_LABEL
from sharing.modes.modes import Sharing
from sharing.names import (
    GPU_PRESENT_LABEL,
    GPU_TAINT,
    GPU_TAINT_VALUE,
    MODE_TAINT,
    POOL_LABEL,
    TYPE_LABEL,
    ZONE_LABEL,
)
from sharing.sections.pools import NODE_IMAGES_GIB, Capacity
from sharing.versions import AMI_DATE

Manifest = dict[str, Any]
NODE_POOL_LABEL = "karpenter.sh/nodepool"
GPU_COUNT_LABEL = "karpenter.k8s.aws/instance-gpu-count"
WAIT_UNTIL_READY = {"pulumi.com/waitFor": "condition=Ready"}
"""Without the feature gate, an overlay never becomes Ready. The update then fails before any node is launched."""
CONSOLIDATE_AFTER = "10m"
"""How long a node must be empty before it is terminated. While a release is updated, its node is empty for seconds."""
EXPIRE_AFTER = "720h"
"""Same as Karpenter's default: 30 days."""
TERMINATION_GRACE_PERIOD = "10m"
"""Maximum time to drain a node. Without it, one pod or volume that cannot be removed would block `destroy` forever."""


@check_arguments
@dataclass(frozen=True, kw_only=True)
class KarpenterPool:
    """A pool of GPU nodes that Karpenter launches.

    Raises `ValueError` for a value of the wrong type, a number that is too small, and instance types that are unknown
    or have different GPUs.
    """

    name: str
    """Name of the NodePool, and value of its nodes' label `tandem/pool`, which models select."""
    sharing: Sharing
    """The sharing mode, e.g. `TimeSlicing(replicas=2)`. Karpenter counts the shares that it creates."""
    mode_taint: pulumi.Input[str] | None = None
    """Value of the nodes' taint `tandem/mode`. Defaults to the name of the mode's configuration, e.g. `timeslice-2`."""
    instance_types: Sequence[str] = ("g4dn.xlarge",)
    """EC2 instance types, all with the same GPU. With several, spot capacity is more likely."""
    capacity: Capacity = "spot"
    """`spot` or `on-demand`."""
    on_demand_fallback: bool = False
    """Whether a spot pool can fall back to on-demand. Karpenter does so without notice, even if the account merely
    lacks the service-linked role for spot (karpenter-provider-aws 1.14.1, pkg/providers/instance/instance.go).
    """
    max_nodes: int = 1
    """Maximum number of nodes. A limit on GPUs would count shares."""
    volume_gib: int = 100
    """Size of the root volume in GiB. It holds the AMI, model files and, without local NVMe, unpacked images."""
    zone: pulumi.Input[str] | None = None
    """The only zone of the nodes, e.g. that of a model's volume. Defaults to all zones of the subnets."""

    def __post_init__(self) -> None:
        check_least(self, max_nodes=1, volume_gib=NODE_IMAGES_GIB)
        alike(self.instance_types, "KarpenterPool.")

    @property
    def planned_pools(self) -> Sequence[PlannedPool]:
        """The pool as the rules in `sharing` read it."""
        same = {name: getattr(self, name) for name in ("capacity", "on_demand_fallback", "volume_gib")}
        counts = {"desired": self.max_nodes, "max": self.max_nodes}
        pool = plan_pool(self.name, self.sharing, self.instance_types, provisioner="karpenter", **same, **counts)
        return [PlannedPool(pool=pool, mode_taint=self.mode_taint or self.sharing.config_name)]


def node_class(
    pool: KarpenterPool,
    *,
    role: pulumi.Input[str],
    subnet_ids: pulumi.Input[Sequence[pulumi.Input[str]]],
    security_group_ids: Sequence[pulumi.Input[str]],
    tags: Mapping[str, str],
) -> Manifest:
    """The EC2NodeClass: image, disk, network and role of the nodes.

    `role` is the role's name. Karpenter also accepts an ARN, but then fails to launch nodes.
    """
    spec: Manifest = {
        "role": role,
        # The alias selects the NVIDIA AMI for types with a GPU. `latest` would replace nodes on every AMI release.
        "amiSelectorTerms": [{"alias": f"al2023@v{AMI_DATE}"}],
        "subnetSelectorTerms": _terms(subnet_ids),
        "securityGroupSelectorTerms": _terms(security_group_ids),
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
    if all(kind.local_nvme_gb for kind in alike(pool.instance_types)):
        # Puts images, containers and logs on the local disks. Model files stay on the root volume, which every type
        # has.
        spec["instanceStorePolicy"] = "RAID0"
    if pool.sharing.needs_node_daemon:
        spec["userData"] = user_data()
    return _object("karpenter.k8s.aws/v1", "EC2NodeClass", pool.name, spec)


def node_overlays(pool: KarpenterPool, first_weight: int) -> list[Manifest]:
    """One NodeOverlay per number of GPUs. It replaces the GPUs by the shares that the device plugin will advertise.

    All weights differ: of two overlays with the same weight, Karpenter ignores the one that is earlier in the alphabet.
    """
    types = alike(pool.instance_types)
    overlays = []
    for weight, gpus in enumerate(sorted({kind.gpus for kind in types}), first_weight):
        same = [kind for kind in types if kind.gpus == gpus]
        spec = {
            "weight": weight,
            # Never empty: an overlay without requirements applies to every instance type.
            "requirements": [_in(NODE_POOL_LABEL, pool.name), _in(TYPE_LABEL, *(kind.name for kind in same))],
            "capacity": shared_resources(pool.sharing, same[0]),
        }
        overlays.append(_object("karpenter.sh/v1alpha1", "NodeOverlay", f"{pool.name}-{gpus}-gpu", spec))
    return overlays


def node_pool(pool: KarpenterPool) -> Manifest:
    """The NodePool: its instance types, labels, taints and limits, and when Karpenter terminates a node."""
    types = alike(pool.instance_types)
    capacity = ("spot", "on-demand") if pool.capacity == "spot" and pool.on_demand_fallback else (pool.capacity,)
    requirements = [
        _in("kubernetes.io/os", "linux"),
        _in("kubernetes.io/arch", types[0].arch),
        _in("karpenter.sh/capacity-type", *capacity),
        _in(TYPE_LABEL, *pool.instance_types),
        # Only GPU counts that have an overlay. g6f types report 0.
        _in(GPU_COUNT_LABEL, *sorted({str(reported_gpus(kind)) for kind in types}, key=int)),
    ]
    if pool.zone is not None:
        # Otherwise Karpenter follows one pod's volume, and launches a second node elsewhere for a pod without one.
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
            # Other policies move models to cheaper nodes, where each model takes minutes to load.
            "consolidationPolicy": "WhenEmpty",
            "consolidateAfter": CONSOLIDATE_AFTER,
            # A new AMI or a changed pool replaces one node at a time.
            "budgets": [{"nodes": "1"}],
        },
        "limits": limits(pool.sharing, types, pool.max_nodes),
    }
    return _object("karpenter.sh/v1", "NodePool", pool.name, spec)


def check(pools: Sequence[KarpenterPool]) -> None:
    """Raises `ValueError` for settings that Karpenter accepts but ignores or handles wrongly."""
    names = [pool.name for pool in pools]
    if len(set(names)) != len(names):
        raise ValueError(f"KarpenterGpuPoolArgs.pools has duplicate names: {names}. Pass each pool its own `name`.")
    for pool in pools:
        if pool.sharing.needs_mig_manager:
            reason = "MIG may leave nodes of Karpenter unready (gpu-operator#2415)"
            raise ValueError(f"pool '{pool.name}': {reason}. Use another sharing mode.")
        # With more shares than the GPU supports, pods would wait forever on a node that you pay for.
        types = alike(pool.instance_types)
        if problems := pool.sharing.check(types[0].gpu, gpus=max(kind.gpus for kind in types)):
            raise ValueError(f"pool '{pool.name}': {problems[0]}")


def _labels(sharing: Sharing, gpu: Gpu, pool: str) -> dict[str, str]:
    """Labels of the nodes when they join. Karpenter does not know labels that are set later.

    One of those is the MPS daemon's label, which feature discovery sets minutes after the node boots.
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
