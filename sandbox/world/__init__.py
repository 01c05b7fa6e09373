"""The emulated cloud with a memory, and the rules that it enforces. This module exports its public names."""

from sandbox.world.entities import CloudError, Entity, Event, IncompleteError, Lost
from sandbox.world.rules.every import RULES
from sandbox.world.store import InUseError, StateError
from sandbox.world.world import World

__all__ = [
    "RULES",
    "CloudError",
    "Entity",
    "Event",
    "InUseError",
    "IncompleteError",
    "Lost",
    "StateError",
    "World",
]
