"""What the GPU Operator writes on a node: by these labels its DaemonSets choose where they run.

Source: gpu-operator v26.7.0, controllers/nodelabeling_controller.go and state_manager.go. The traces of that program,
in tests/sandbox/gpu_operator.json, are what this must reproduce.
"""

from sandbox.world.hardware import profiles
from sandbox.world.nodes import kind, labels
from sandbox.world.pods import DISCOVERY, releases
from sandbox.world.things import Thing, Things
from sharing.modes import MIG_CAPABLE_LABEL

GPU_PRESENT = "nvidia.com/gpu.present"
OPERANDS = "nvidia.com/gpu.deploy.operands"
"""With the value `false` on a node, the operator runs nothing there (state_manager.go, hasOperandsDisabled)."""
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
"""Whatever the ClusterPolicy enables: gpuStateLabels of the workload `container`."""


def discovers(things: Things, server: str) -> bool:
    """Whether node feature discovery runs. It is a release of its own: one in another release would be a second one."""
    return bool(releases(things, server, DISCOVERY))


def operated(things: Things, node: Thing) -> dict[str, str]:
    """A node's labels as the operator leaves them; as they are, where there is no operator."""
    has = labels(node)
    if not releases(things, node.cluster, "gpu-operator"):
        return has
    what = kind(node)
    discovered = what is not None and discovers(things, node.cluster)
    if discovered:
        has[GPU_PRESENT] = "true"
    elif has.get(GPU_PRESENT) == "true":
        has[GPU_PRESENT] = "false"
    if what is None or not discovered or has.get(OPERANDS) == "false":
        return has
    has |= {f"nvidia.com/gpu.deploy.{operand}": "true" for operand in _DEPLOYED}
    # Where nobody set that label, GPU feature discovery does (k8s-device-plugin internal/lm/nvml.go).
    if has.get(MIG_CAPABLE_LABEL, str(bool(profiles(what.gpu))).lower()) == "true":
        has[MIG_MANAGER] = "true"
    return has
