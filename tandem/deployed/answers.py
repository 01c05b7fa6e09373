"""Answers of a Kubernetes API server, reduced to the fields that tandem reads, and made printable."""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from sharing.printable import one_line
from tandem.deployed.replies import Number, Reply, Text

Quantity = Annotated[str, BeforeValidator(str), AfterValidator(one_line)]
"""`2`, `15Gi` or `100m`; YAML and some servers write the plain ones as numbers."""


class _Owner(Reply):
    name: Text


class _Metadata(Reply):
    name: Text
    namespace: Text | None = None
    labels: dict[Text, Text] | None = None
    deletionTimestamp: Text | None = None  # as Kubernetes writes it
    ownerReferences: list[_Owner] | None = None


class _Condition(Reply):
    type: Text
    status: Text
    reason: Text | None = None
    message: Text | None = None


class _Waiting(Reply):
    reason: Text | None = None
    message: Text | None = None


class _Terminated(Reply):
    reason: Text | None = None
    message: Text | None = None
    exitCode: int | None = None


class _Running(Reply):
    startedAt: Text | None = None


class _State(Reply):
    running: _Running | None = None
    waiting: _Waiting | None = None
    terminated: _Terminated | None = None


class _ContainerStatus(Reply):
    name: Text | None = None
    restartCount: Number = 0
    state: _State | None = None
    lastState: _State | None = None


class _Status(Reply):
    phase: Text | None = None
    conditions: list[_Condition] | None = None
    allocatable: dict[Text, Quantity] | None = None
    containerStatuses: list[_ContainerStatus] | None = None
    initContainerStatuses: list[_ContainerStatus] | None = None
    desiredNumberScheduled: Number = 0
    numberReady: Number = 0


class _Variable(Reply):
    name: Text
    value: Text | None = None


class _Resources(Reply):
    limits: dict[Text, Quantity] | None = None


class _Exec(Reply):
    command: list[Text] | None = None


class _Handler(Reply):
    exec: _Exec | None = None


class _Lifecycle(Reply):
    postStart: _Handler | None = None


class _Container(Reply):
    name: Text
    env: list[_Variable] | None = None
    resources: _Resources | None = None
    lifecycle: _Lifecycle | None = None


class _Taint(Reply):
    key: Text
    value: Text | None = None
    effect: Text | None = None


class _Toleration(Reply):
    key: Text | None = None
    value: Text | None = None


class _Spec(Reply):
    nodeName: Text | None = None
    priority: int | None = None
    priorityClassName: Text | None = None
    replicas: Number | None = None
    unschedulable: bool | None = None
    taints: list[_Taint] | None = None
    tolerations: list[_Toleration] | None = None
    containers: list[_Container] | None = None
    template: "_Template | None" = None


class _Template(Reply):
    spec: _Spec | None = None


class ApiObject(Reply):
    """A node, a pod, a DaemonSet, a Deployment or a Secret."""

    metadata: _Metadata
    spec: _Spec | None = None
    status: _Status | None = None


class _ListMetadata(Reply):
    next: str | None = Field(default=None, alias="continue")


class Listing(Reply):
    """A page of a list."""

    metadata: _ListMetadata | None = None
    items: list[ApiObject]


class Version(Reply):
    """The answer of `/version`."""

    gitVersion: Text


FORWARD_REFUSED = "the cluster refuses to forward a port"
"""The start of a forwarded port's error for that."""


class AdmissionError(Exception):
    """A quota, or another rule of the cluster, refuses a pod; the text names it."""


def plain(objects: list[ApiObject]) -> list[dict[str, Any]]:
    """The objects as Kubernetes writes them, without absent fields."""
    return [one.model_dump(exclude_none=True) for one in objects]
