"""Labels that the GPU Operator sets on a node. Its DaemonSets select nodes by them.

Source: gpu-operator v26.7.0, controllers/nodelabeling_controller.go and state_manager.go. This code must reproduce the
traces of that program in tests/sandbox/gpu_operator.json.
"""

from sandbox.world.entities import Entities, Entity
from sandbox.world.hardware import profiles
from sandbox.world.nodes import kind, labels
from sandbox.world.pods import DISCOVERY, releases
from sharing.modes.modes import MIG_CAPABLE_LABEL

GPU_PRESENT = "nvidia.com/gpu.present"
OPERANDS = "nvidia.com/gpu.deploy.operands"
"""If this label is `false`, the operator runs nothing on the node (state_manager.go, hasOperandsDisabled)."""
DEVICE_PLUGIN = "nvidia.com/gpu.deploy.device-plugin"
MIG_MANAGER = "nvidia.com/gpu.deploy.mig-manager"
_DEPLOYED = (
    "client",
    "container-toolkit",
    "dcgm",
    "dcgm-exporter",
    "device-plugin",
    "driver",
    "gpu-feature-discovery",
    "node-status-exporter",
    "operator-validator",
)
"""gpuStateLabels of the workload `container`, for every ClusterPolicy."""


def discovers(entities: Entities, server: str) -> bool:
    """Whether node feature discovery runs. It is a separate release, because a subchart would be a second instance."""
    return bool(releases(entities, server, DISCOVERY))


def operated(entities: Entities, node: Entity) -> dict[str, str]:
    """A node's labels after the operator has changed them. Without an operator, they are unchanged."""
    has = labels(node)
    if not releases(entities, node.cluster, "gpu-operator"):
        return has
    what = kind(node)
    discovered = what is not None and discovers(entities, node.cluster)
    if discovered:
        has[GPU_PRESENT] = "true"
    elif has.get(GPU_PRESENT) == "true":
        has[GPU_PRESENT] = "false"
    if what is None or not discovered or has.get(OPERANDS) == "false":
        return has
    has |= {f"nvidia.com/gpu.deploy.{operand}": "true" for operand in _DEPLOYED}
    # GPU feature discovery sets this label if it is missing (k8s-device-plugin internal/lm/nvml.go).
    if has.get(MIG_CAPABLE_LABEL, str(bool(profiles(what.gpu))).lower()) == "true":
        has[MIG_MANAGER] = "true"
    return has
