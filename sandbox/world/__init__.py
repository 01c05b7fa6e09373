"""The emulated cloud with a memory, and the rules that it enforces. This module exports its public names."""

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
