"""How long the parts of a share proof wait: a pod less than its Job, and the Job less than Pulumi."""

from dataclasses import dataclass

from sharing.modes import Sharing

NODE_COMES_SECONDS = 600
"""Time for a GPU node to come, also in place of one that a spot interruption took."""
CUT_SECONDS = 900
"""Time for a node to get its MIG slices: images of the GPU Operator, its validators, and a reboot."""
NODE_SECONDS = 600
"""Time for a node to advertise its shares, once the pod that reads it runs."""
PODS_SECONDS = 300
"""Time for all pods to start."""
EXCLUSIVE_SECONDS = 60
"""Time for a GPU to leave EXCLUSIVE_PROCESS mode. The MPS daemon's pod has 30 seconds to end."""
STEP_SECONDS = 90
"""Time for one answer of one pod: longer than `EXCLUSIVE_SECONDS`."""
STEPS = 4
"""Three questions, and the verdict."""
MARGIN_SECONDS = 120
"""Time to pull the image, start a container, and end it."""


@dataclass(frozen=True)
class Waits:
    """The waits of one proof, in seconds. Each includes one interruption, after which a pod starts on a new node."""

    ready: int
    """For a node to come, and to be ready for the proof."""

    @property
    def back(self) -> int:
        """How long the pods on shares wait for one that was interrupted."""
        return self.ready + PODS_SECONDS

    @property
    def pod(self) -> int:
        """The longest life of a pod on a share: all pods start, one is interrupted, and all answer again."""
        return PODS_SECONDS + self.back + 2 * STEPS * STEP_SECONDS

    @property
    def pods_job(self) -> int:
        """Deadline of the Job whose pods hold the shares."""
        return self.pod + MARGIN_SECONDS

    @property
    def node_job(self) -> int:
        """Deadline of the Job that reads the node, which starts before the node is there."""
        return 2 * (self.ready + NODE_SECONDS + MARGIN_SECONDS)


def waits(sharing: Sharing) -> Waits:
    """The waits under a mode: longer where a GPU has to be cut first."""
    return Waits(ready=NODE_COMES_SECONDS + (CUT_SECONDS if sharing.needs_mig_manager else 0))


def minutes(deadline: int) -> str:
    """How long Pulumi waits for a Job with that deadline: the Job is to say why it failed before Pulumi gives up."""
    return f"{-(-deadline // 60) + 5}m"
