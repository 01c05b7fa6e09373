"""What a Kubernetes API server answers, reduced to what is read here and made printable: the rest never gets in."""

from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from sharing.printable import one_line

Text = Annotated[str, AfterValidator(one_line)]
Number = Annotated[int, Field(ge=0, le=2**63 - 1)]
"""As in Go: a larger one would not fit into a float, in which sizes are shown."""
Quantity = Annotated[str, BeforeValidator(str), AfterValidator(one_line)]
"""`2`, `15Gi` or `100m`; YAML and some servers write the plain ones as numbers."""
Shape = TypeVar("Shape", bound=BaseModel)


class Read(BaseModel):
    """A part of an answer. What is not declared is left out; null counts as absent."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Metadata(Read):
    name: Text
    namespace: Text | None = None
    labels: dict[Text, Text] | None = None
    deletionTimestamp: Text | None = None  # as Kubernetes writes it


class _Condition(Read):
    type: Text
    status: Text
    reason: Text | None = None
    message: Text | None = None


class _Waiting(Read):
    reason: Text | None = None
    message: Text | None = None


class _Terminated(Read):
    reason: Text | None = None
    message: Text | None = None
    exitCode: int | None = None


class _State(Read):
    waiting: _Waiting | None = None
    terminated: _Terminated | None = None


class _ContainerStatus(Read):
    restartCount: Number = 0
    state: _State | None = None
    lastState: _State | None = None


class _Status(Read):
    phase: Text | None = None
    conditions: list[_Condition] | None = None
    allocatable: dict[Text, Quantity] | None = None
    containerStatuses: list[_ContainerStatus] | None = None
    initContainerStatuses: list[_ContainerStatus] | None = None
    desiredNumberScheduled: Number = 0
    numberReady: Number = 0


class _Variable(Read):
    name: Text
    value: Text | None = None


class _Resources(Read):
    limits: dict[Text, Quantity] | None = None


class _Container(Read):
    name: Text
    env: list[_Variable] | None = None
    resources: _Resources | None = None


class _Taint(Read):
    key: Text
    value: Text | None = None
    effect: Text | None = None


class _Toleration(Read):
    key: Text | None = None
    value: Text | None = None


class _Spec(Read):
    nodeName: Text | None = None
    replicas: Number | None = None
    unschedulable: bool | None = None
    taints: list[_Taint] | None = None
    tolerations: list[_Toleration] | None = None
    containers: list[_Container] | None = None


class Thing(Read):
    """A node, a pod, a DaemonSet, a Deployment or a Secret."""

    metadata: _Metadata
    spec: _Spec | None = None
    status: _Status | None = None


class _ListMetadata(Read):
    next: str | None = Field(default=None, alias="continue")


class Listing(Read):
    """A page of a list."""

    metadata: _ListMetadata | None = None
    items: list[Thing]


class Version(Read):
    """What `/version` answers."""

    gitVersion: Text


FORWARD_REFUSED = "the cluster refuses to forward a port"
"""Beginning of what a forwarded port says of that."""


class AdmissionError(Exception):
    """A quota, or another rule of the cluster for its pods, refuses one; says which."""


class MalformedError(Exception):
    """An answer that is not what was asked for; says where."""


def checked(shape: type[Shape], body: bytes) -> Shape:
    """The answer in its shape; raises `MalformedError`, which shows no value of it."""
    try:
        return shape.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = one_line(".".join(map(str, first["loc"])))
        raise MalformedError(f"{where}: {first['msg']}" if where else first["msg"]) from None


def plain(things: list[Thing]) -> list[dict[str, Any]]:
    """The things as Kubernetes writes them, without what is absent."""
    return [thing.model_dump(exclude_none=True) for thing in things]
