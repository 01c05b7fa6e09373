"""The interface between engine and cloud. Preview and engine use it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from sandbox.graph import Registration

Values = Mapping[str, Any]


class Refused(Exception):
    """The sandbox, or the engine that it emulates, does not support this. The message has the reason and a fix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """A resource to create."""

    type: str
    name: str
    """Logical name."""
    inputs: Values
    """Inputs as a provider sees them, without marks."""
    provider: Values = field(default_factory=dict)
    """Inputs of the explicit provider; empty for a default provider."""


@dataclass(frozen=True, slots=True)
class Created:
    """The provider's reply."""

    id: str
    outputs: Values
    """All outputs, including the inputs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """An invoke."""

    token: str
    args: Values
    provider: Values = field(default_factory=dict)
    """Inputs of the explicit provider; empty for a default provider."""


@dataclass(frozen=True, slots=True)
class Registered:
    """The engine's reply to a registration."""

    urn: str
    id: str
    outputs: Values
    output_dependencies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """URNs on which individual outputs depend, only for remote components."""


class Registrar(Protocol):
    """The engine's interface for a component's provider while it builds the component."""

    def register(self, registration: Registration) -> Registered:
        """Registers a child."""

    def register_outputs(self, urn: str, outputs: Values) -> None:
        """Marks a component as complete."""

    def ask(self, token: str, args: Values, provider: str = "") -> Values:
        """Invokes a function; `provider` is a URN or ""."""


@dataclass(frozen=True, slots=True)
class Constructed:
    """The reply of a component's provider."""

    outputs: Values
    dependencies: Mapping[str, tuple[str, ...]]
    """URNs on which individual outputs depend."""


Rule = Callable[[Creation], tuple[str, Values]]
"""Rule of a type: returns its id and its computed outputs."""
Answer = Callable[[Question], Values]
"""Rule of a function: returns its result."""
