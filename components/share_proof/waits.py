"""Timeouts of a share proof: a pod's is shorter than its Job's, and the Job's is shorter than Pulumi's."""

from dataclasses import dataclass

from sharing.modes.modes import Sharing

NODE_COMES_SECONDS = 600
"""Time for a GPU node to start, also as a replacement after a spot interruption."""
PARTITION_SECONDS = 900
"""Time for a node to get its MIG slices: the GPU Operator's images, its validators, and a reboot."""
NODE_SECONDS = 600
"""Time for a node to advertise its shares, once the pod that reads the node runs."""
PODS_SECONDS = 300
"""Time for all pods to start."""
EXCLUSIVE_SECONDS = 60
"""Time for a GPU to leave EXCLUSIVE_PROCESS mode. The MPS daemon's pod has 30 seconds to stop."""
STEP_SECONDS = 90
"""Time for one reply of one pod. It must be longer than `EXCLUSIVE_SECONDS`."""
STEPS = 4
"""Steps of a proof: three questions and the verdict."""
MARGIN_SECONDS = 120
"""Time to pull the image, and to start and stop the container."""


@dataclass(frozen=True)
class Waits:
    """Timeouts of one proof in seconds. Each allows for one interruption, after which a pod starts on a new node."""

    ready: int
    """Time for a node to start and be ready for the proof."""

    @property
    def back(self) -> int:
        """Time for which the pods on shares wait for an interrupted pod to start again."""
        return self.ready + PODS_SECONDS

    @property
    def pods_job(self) -> int:
        """Deadline of the Job whose pods hold the shares: all start, one is interrupted, all are questioned again."""
        return PODS_SECONDS + self.back + 2 * STEPS * STEP_SECONDS + MARGIN_SECONDS

    @property
    def node_job(self) -> int:
        """Deadline of the Job that reads the node. The Job is created before the node exists."""
        return 2 * (self.ready + NODE_SECONDS + MARGIN_SECONDS)


def waits(sharing: Sharing) -> Waits:
    """The timeouts of a proof under a mode. They are longer if GPUs have to be partitioned first."""
    return Waits(ready=NODE_COMES_SECONDS + (PARTITION_SECONDS if sharing.needs_mig_manager else 0))


def minutes(deadline: int) -> str:
    """Pulumi's timeout for a Job with this deadline, e.g. `20m`: longer, so that the Job can report its failure."""
    return f"{-(-deadline // 60) + 5}m"
