"""Disruptions of a Job's pods on a GPU node: the MIG manager's reboot, and a compute mode that MPS leaves behind."""

from sandbox.world.entities import Entities, Entity, value_at, values_at
from sandbox.world.nodes import kind
from sandbox.world.plugin import config_of, cut
from sandbox.world.pods import Values
from sharing.modes.modes import LAYOUT_STATE_LABEL

REBOOTED = "rebooted"
"""Key in a node's outputs: whether the MIG manager has rebooted it."""
LEFT_EXCLUSIVE = "leftExclusive"
"""Key in a node's outputs: whether its MPS daemon's pod is still stopping."""
RESET_BY_REBOOT = ("a100", "a30")
"""GPUs that change their MIG mode only at a reset, for which the instance reboots. Hopper and later need no reset.

Source: NVIDIA MIG User Guide, "Enable MIG Mode"; mig-parted deployments/container, WITH_REBOOT.
"""
DAEMON_GRACE_SECONDS = 30
"""The MPS daemon's pod has Kubernetes' default `terminationGracePeriodSeconds`, because its chart sets none. Source:
k8s-device-plugin v0.20.0 daemonset-mps-control-daemon.yml; mps/daemon.go, Stop: the compute mode is reset last."""


def reboot(entities: Entities, node: Entity, job: Values) -> str | None:
    """Why a Job's pod does not survive the MIG manager's reboot of its node. None if it survives, or without a reboot.

    Source: mig-parted v0.15.0 pkg/mig/reconfigure/reconfigure.go (label `rebooting`, then `chroot /host reboot`). The
    kubelet fails the node's pods with the condition DisruptionTarget (kubernetes v1.36
    pkg/kubelet/nodeshutdown/nodeshutdown_manager.go), and the Job controller counts the failure unless a rule ignores
    it (pkg/controller/job/pod_failure_policy.go, matchPodFailurePolicy).
    """
    what = kind(node)
    if what is None or what.gpu.name not in RESET_BY_REBOOT or not cut(entities, node) or node.outputs.get(REBOOTED):
        return None
    if LAYOUT_STATE_LABEL in (value_at(job, "spec.template.spec.nodeSelector") or {}):
        return None
    if _ignores_disruptions(job):
        return None
    return f"pod was terminated in response to imminent node shutdown: the MIG manager reboots {node.id}"


def exclusive(entities: Entities, node: Entity, job: Values) -> str | None:
    """Why a process without MPS gets no CUDA context right after MPS. None if it gets one, or retries long enough."""
    config = config_of(entities, node)
    if not node.outputs.get(LEFT_EXCLUSIVE) or config is None or config.is_mps:
        return None
    variables = values_at(job, "spec.template.spec.containers.env")
    retries = next((float(one["value"]) for one in variables if one.get("name") == "EXCLUSIVE_SECONDS"), 0.0)
    if retries > DAEMON_GRACE_SECONDS:
        return None
    return f"CUDA_ERROR_DEVICE_UNAVAILABLE: the GPU of {node.id} is in EXCLUSIVE_PROCESS until the MPS daemon stops"


def end(node: Entity) -> None:
    """Ends both disruptions: the node has rebooted, and the daemon's pod has stopped."""
    node.outputs[REBOOTED] = True
    node.outputs.pop(LEFT_EXCLUSIVE, None)


def _ignores_disruptions(job: Values) -> bool:
    return any(
        rule.get("action") == "Ignore" and "DisruptionTarget" in values_at(rule, "onPodConditions.type")
        for rule in values_at(job, "spec.podFailurePolicy.rules")
    )
