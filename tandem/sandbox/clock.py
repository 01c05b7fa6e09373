"""The clock of the emulated cloud: lets time pass, and shows which calls of schedules have failed meanwhile."""

import datetime
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sandbox.world import World

QUEUE, INSTANCE = "aws:sqs/queue:Queue", "aws:ec2/instance:Instance"
SCHEDULES = ("aws:scheduler/schedule:Schedule", "kubernetes:batch/v1:CronJob")
"""What `park` creates: schedules for node groups, and CronJobs for the models of Karpenter's pools."""


def let_pass(world: "World", minutes: int) -> datetime.datetime:
    """Moves the clock forward, and runs what is due until then. Returns the new time, in UTC."""
    world.move_clock(world.now + datetime.timedelta(minutes=minutes))
    return world.now


def gpu_nodes(world: "World") -> int:
    """GPU nodes that run."""
    from sharing.hardware.gpus import instance_types

    kinds = [one.inputs["instanceType"] for one in world.entities() if one.type == INSTANCE]
    return sum(kind in instance_types() for kind in kinds)


def has_schedule(world: "World") -> bool:
    """Whether anything happens by the clock."""
    return any(one.type in SCHEDULES for one in world.entities())


def failed_calls(world: "World") -> list[dict[str, str]]:
    """The messages of dead-letter queues: calls of schedules that the cloud has refused, the oldest first."""
    queues = [one.id for one in world.entities() if one.type == QUEUE]
    return [_read(letter) for queue in queues for letter in world.letters(queue)]


def _read(letter: dict[str, str]) -> dict[str, str]:
    call = json.loads(letter["body"])
    return {
        "verb": "wake" if call["ScalingConfig"]["DesiredSize"] else "park",
        "group": call["NodegroupName"],
        "code": letter["ERROR_CODE"],
        "message": letter["ERROR_MESSAGE"],
    }
