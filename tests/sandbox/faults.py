"""Injected faults: a create, update or delete fails or loses its reply.

EKS can also accept a node group or an add-on and then fail to create it (`failed`): it stays, as CREATE_FAILED.
"""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from sandbox.world import Lost, World
from sandbox.world.entities import STAYS_FAILED
from sandbox.world.rules.rule import CREATE, DELETE, UPDATE, Case, Refusal, Rule

Operation = Literal["create", "update", "delete"]
Kind = Literal["error", "lost", "failed"]
SOURCE = "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html (InternalError)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A call that fails."""

    type: str
    """Type token."""
    operation: Operation
    kind: Kind = "error"
    name: str = ""
    """Logical name of the resource; "" for any."""


class Faults:
    """The injected faults. Each fault fires once."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._waiting = list(faults)
        self._lock = threading.Lock()

    @property
    def waiting(self) -> tuple[Fault, ...]:
        """The faults that have not fired."""
        with self._lock:
            return tuple(self._waiting)

    def strike(self, world: World) -> None:
        """Lets the calls of this cloud fail."""
        failed = Rule(STAYS_FAILED, CREATE, "NodeCreationFailure", SOURCE, self._failing("create", "failed"), done=True)
        world.rules = (*world.rules, failed)
        for on in (CREATE, UPDATE, DELETE):
            error = Rule(("aws:", "kubernetes:"), on, "InternalError", SOURCE, self._failing(on[0], "error"))
            world.rules = (error, *world.rules)
            vars(world)[on[0]] = self._losing(world, on[0])

    def _failing(self, operation: Any, kind: Kind) -> Refusal:
        def refuse(case: Case) -> str | None:
            fires = self._fires(case.type, operation, case.name, kind)
            return f"{operation} of {case.type} fails (an injected fault)" if fires else None

        return refuse

    def _losing(self, world: World, operation: Any) -> Callable[..., Any]:
        call = getattr(world, operation)

        def lose(type: str, of: str, *given: Any) -> Any:
            """`of` is the resource's logical name at its creation, and later its id."""
            names = {one.id: one.name for one in world.entities() if one.type == type}
            answer = call(type, of, *given)
            if self._fires(type, operation, names.get(of, of), "lost"):
                raise Lost("the call succeeded, but the connection closed before the reply arrived (an injected fault)")
            return answer

        return lose

    def _fires(self, token: str, operation: Operation, name: str, kind: Kind) -> bool:
        with self._lock:
            for fault in self._waiting:
                if (fault.type, fault.operation, fault.kind) == (token, operation, kind) and fault.name in ("", name):
                    self._waiting.remove(fault)
                    return True
        return False
