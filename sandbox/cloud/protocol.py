"""What the engine asks of a cloud, and what a cloud may ask back. Shared by every door into the sandbox."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from sandbox.graph import Registration

Values = Mapping[str, Any]


class Refused(Exception):
    """The sandbox, or the engine that it stands for, does not take this; the text says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Creation:
    """A resource to be created."""

    type: str
    name: str
    """Logical name."""
    inputs: Values
    """As a provider sees them: no marks."""
    provider: Values = field(default_factory=dict)
    """Inputs of the explicit provider; empty for a default provider."""


@dataclass(frozen=True, slots=True)
class Created:
    """What the provider returned."""

    id: str
    outputs: Values
    """All outputs, inputs among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """An invoke."""

    token: str
    args: Values
    provider: Values = field(default_factory=dict)
    """Inputs of the explicit provider; empty for a default provider."""


@dataclass(frozen=True, slots=True)
class Registered:
    """What the engine answers to a registration."""

    urn: str
    id: str
    outputs: Values
    output_dependencies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """URNs on which single outputs depend; remote components only."""


class Registrar(Protocol):
    """What a component's provider may ask of the engine while it builds the component."""

    def register(self, registration: Registration) -> Registered:
        """Registers a child."""

    def register_outputs(self, urn: str, outputs: Values) -> None:
        """Says that a component is complete."""

    def ask(self, token: str, args: Values, provider: str = "") -> Values:
        """Invokes a function; `provider` is a URN or ""."""


@dataclass(frozen=True, slots=True)
class Constructed:
    """What a component's provider returned."""

    outputs: Values
    dependencies: Mapping[str, tuple[str, ...]]
    """URNs on which single outputs depend."""


Rule = Callable[[Creation], tuple[str, Values]]
"""How one type answers: its id and what it computes beside the inputs."""
Answer = Callable[[Question], Values]
"""How one function answers."""
