"""Injected faults: a create, update or delete fails or loses its reply.

EKS can also accept a node group or an add-on and then fail to create it (`failed`): it stays, as CREATE_FAILED.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from sandbox.world import tokens
from sandbox.world.entities import CloudError

Operation = Literal["create", "update", "delete"]
Kind = Literal["error", "lost", "failed"]

_SOURCE = "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html (InternalError)"
STAYS_FAILED = (tokens.NODE_GROUP, tokens.ADDON)
"""Types that EKS keeps after a failed creation. The provider then has their id (d.SetId in node_group.go, addon.go)."""


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

    def met(self, token: str, operation: Operation, name: str) -> tuple[Kind | None, CloudError | None]:
        """The fault of this call, and its error if the call still succeeds. Raises the error of any other fault."""
        kind = self._fire(token, operation, name)
        if kind is None or kind == "lost":
            return kind, None
        error = CloudError("InternalError", f"{operation} of {token} fails (an injected fault)", _SOURCE)
        if kind == "failed":
            return kind, error
        raise error

    def _fire(self, token: str, operation: Operation, name: str) -> Kind | None:
        with self._lock:
            for fault in self._waiting:
                if (fault.type, fault.operation) == (token, operation) and fault.name in ("", name):
                    self._waiting.remove(fault)
                    return fault.kind
        return None
