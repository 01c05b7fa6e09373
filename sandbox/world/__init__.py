"""The emulated cloud with a memory, and the rules that it keeps. What others use stands here."""

from sandbox.world.faults import Fault, Faults
from sandbox.world.rules.every import RULES
from sandbox.world.store import InUseError, StateError
from sandbox.world.things import CloudError, Event, IncompleteError, Lost, Thing
from sandbox.world.world import World

__all__ = [
    "RULES",
    "CloudError",
    "Event",
    "Fault",
    "Faults",
    "InUseError",
    "IncompleteError",
    "Lost",
    "StateError",
    "Thing",
    "World",
]
