"""Karpenter's view of shared GPUs, and its controllers.

It counts GPUs as EC2 reports them: unless it knows about shares, it launches one node per pod.
"""

from collections.abc import Sequence

from sharing.hardware.gpus import InstanceType
from sharing.modes.modes import Sharing

MOST_REPLICAS = 2
"""Useful number of controllers: one is active, the other stands by. The chart puts them on different nodes."""


def shared_resources(sharing: Sharing, instance: InstanceType) -> dict[str, str]:
    """Extended resources of a node once the device plugin shares its GPUs, each with its count.

    The only source of Karpenter's numbers. They come from the mode, as the plugin's config does.
    """
    return {shares.resource: str(instance.gpus * shares.per_gpu) for shares in sharing.offers(instance.gpu)}


def limits(sharing: Sharing, types: Sequence[InstanceType], max_nodes: int) -> dict[str, str]:
    """The NodePool's `limits`: nodes, and the shares that this number of the largest nodes offers.

    Within one batch of pods, Karpenter subtracts from its limits only resources of an instance type: shares, no node.
    With `nodes` alone, 17 pods would launch 17 nodes. It is still needed where types differ in their number of GPUs.
    Source: kubernetes-sigs/karpenter v1.14.1, pkg/controllers/provisioning/scheduling/scheduler.go, subtractMax.
    """
    largest = max(types, key=lambda kind: kind.gpus)
    shares = shared_resources(sharing, largest)
    return {"nodes": str(max_nodes), **{resource: str(max_nodes * int(count)) for resource, count in shares.items()}}


def reported_gpus(instance: InstanceType) -> int:
    """Value of the label `karpenter.k8s.aws/instance-gpu-count`: EC2 reports 0 for a part of a GPU."""
    return 0 if instance.gpu.is_slice else instance.gpus


def count_controllers(system_nodes: int) -> int:
    """Number of controllers: a second one on a single system node would block every upgrade."""
    return min(MOST_REPLICAS, system_nodes)
