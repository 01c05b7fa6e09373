"""Injected faults: the n-th create, update or delete of a type fails, is throttled, or loses its reply.

A node group or an add-on can also fail after EKS has accepted the call (`failed`): it stays, as CREATE_FAILED.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from sandbox.world import tokens
from sandbox.world.entities import CloudError

Operation = Literal["create", "update", "delete"]
Kind = Literal["error", "throttle", "lost", "failed"]

_SOURCE = "https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html"
_FAILED_SOURCE = "https://docs.aws.amazon.com/eks/latest/APIReference/API_Issue.html"
_KUBERNETES_SOURCE = "https://kubernetes.io/docs/reference/using-api/api-concepts/ (metav1.StatusReason)"
# EKS's errors about a group or an add-on that it could not start: API_Issue.html and API_AddonIssue.html.
_FAILED = {
    tokens.NODE_GROUP: ("AsgInstanceLaunchFailures", "Could not launch Spot Instances. UnfulfillableCapacity"),
    tokens.ADDON: ("InternalFailure", "The add-on could not be installed"),
}
# By service (the token's module): its error codes for an internal error and for too many requests.
_CODES = {
    "ec2": ("InternalError", "RequestLimitExceeded"),
    "ebs": ("InternalError", "RequestLimitExceeded"),
    "vpc": ("InternalError", "RequestLimitExceeded"),
    "iam": ("ServiceFailure", "Throttling"),
    "eks": ("ServerException", "ThrottlingException"),
    "kubernetes": ("InternalError", "TooManyRequests"),
}

STAYS_FAILED = (tokens.NODE_GROUP, tokens.ADDON)
"""Types that EKS keeps after a failed creation. The provider then has their id (d.SetId in node_group.go, addon.go)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A call that fails."""

    type: str
    """Type token."""
    operation: Operation
    kind: Kind = "error"
    nth: int = 1
    """Number of the call among the calls of that type and operation. The first is 1."""
    name: str = ""
    """Logical name of the resource; "" for any."""


class Faults:
    """The injected faults. Each fault fires once."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._waiting = list(faults)
        self._calls: dict[Fault, int] = {}
        self._lock = threading.Lock()
        self.tried = 0
        """Number of faults that have fired."""

    @property
    def waiting(self) -> tuple[Fault, ...]:
        """The faults that have not fired."""
        with self._lock:
            return tuple(self._waiting)

    def next(self, token: str, operation: Operation, name: str) -> Kind | None:
        """Counts a call, and returns the kind of its fault, if any."""
        with self._lock:
            fired: Kind | None = None
            for fault in list(self._waiting):
                if (fault.type, fault.operation) != (token, operation) or fault.name not in ("", name):
                    continue
                self._calls[fault] = self._calls.get(fault, 0) + 1
                if fired is None and self._calls[fault] >= fault.nth:
                    self._waiting.remove(fault)
                    self.tried += 1
                    fired = fault.kind
            return fired

    def met(self, token: str, operation: Operation, name: str) -> tuple[Kind | None, CloudError | None]:
        """The fault of this call, and its error if the call still succeeds. Raises the error of any other fault."""
        kind = self.next(token, operation, name)
        if kind is None or kind == "lost":
            return kind, None
        error = fault_error(token, operation, kind)
        if kind == "failed" and operation == "create" and token in STAYS_FAILED:
            return kind, error
        raise error


def fault_error(token: str, operation: str, kind: Kind) -> CloudError:
    """The error of the API, or of the provider that waits for it."""
    package, _, rest = token.partition(":")
    service = package if package == "kubernetes" else rest.partition("/")[0]
    broken, throttled = _CODES.get(service, ("InternalFailure", "ThrottlingException"))
    source = _KUBERNETES_SOURCE if service == "kubernetes" else _SOURCE
    if kind == "failed" and token in _FAILED:
        code, message = _FAILED[token]
        return CloudError(code, f"{message} (an injected fault)", _FAILED_SOURCE)
    if kind == "throttle":
        return CloudError(throttled, f"Rate exceeded ({operation} of {token}; an injected fault)", source)
    return CloudError(broken, f"An internal error has occurred ({operation} of {token}; an injected fault)", source)
