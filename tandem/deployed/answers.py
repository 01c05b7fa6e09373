"""What a Kubernetes API server answers, reduced to what is read here and made printable: the rest never gets in."""

from types import GenericAlias
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, create_model

from sharing.printable import one_line
from tandem.deployed.replies import Number, Reply, Text

Quantity = Annotated[str, BeforeValidator(str), AfterValidator(one_line)]
"""`2`, `15Gi` or `100m`; YAML and some servers write the plain ones as numbers."""


def _part(kind: str, *needed: str, **fields: Any) -> Any:
    """The shape of a part: texts that it needs, and what may be absent.

    Of that a list means many of its one element, and a pair a type with its default.
    """
    shapes: dict[str, Any] = dict.fromkeys(needed, (Text, ...))
    for field, shape in fields.items():
        many = GenericAlias(list, tuple(shape)) if isinstance(shape, list) else shape
        shapes[field] = many if isinstance(many, tuple) else (many | None, None)
    return create_model(kind, __base__=Reply, **shapes)


_Condition = _part("_Condition", "type", "status", reason=Text, message=Text)
_Waiting = _part("_Waiting", reason=Text, message=Text)
_Terminated = _part("_Terminated", reason=Text, message=Text, exitCode=int)
_State = _part("_State", waiting=_Waiting, terminated=_Terminated)
_ContainerStatus = _part("_ContainerStatus", restartCount=(Number, 0), state=_State, lastState=_State)
_Status = _part(
    "_Status",
    phase=Text,
    conditions=[_Condition],
    allocatable=dict[Text, Quantity],
    containerStatuses=[_ContainerStatus],
    initContainerStatuses=[_ContainerStatus],
    desiredNumberScheduled=(Number, 0),
    numberReady=(Number, 0),
)
_Hook = _part("_Hook", exec=_part("_Exec", command=[Text]))
_Container = _part(
    "_Container",
    "name",
    env=[_part("_Variable", "name", value=Text)],
    resources=_part("_Resources", limits=dict[Text, Quantity]),
    lifecycle=_part("_Lifecycle", postStart=_Hook),
)
_PODS: dict[str, Any] = {
    "nodeName": Text,
    "replicas": Number,
    "unschedulable": bool,
    "taints": [_part("_Taint", "key", value=Text, effect=Text)],
    "tolerations": [_part("_Toleration", key=Text, value=Text)],
    "containers": [_Container],
}
_Template = _part("_Template", spec=_part("_PodSpec", **_PODS))
_Metadata = _part("_Metadata", "name", namespace=Text, labels=dict[Text, Text], deletionTimestamp=Text)
_Thing = _part("_Thing", metadata=(_Metadata, ...), spec=_part("_Spec", **_PODS, template=_Template), status=_Status)
"""A node, a pod, a DaemonSet, a Deployment or a Secret."""
_Page = _part("_Page", next=(str | None, Field(default=None, alias="continue")))
Listing = _part("Listing", metadata=_Page, items=(GenericAlias(list, (_Thing,)), ...))
"""A page of a list."""


class Version(Reply):
    """What `/version` answers."""

    gitVersion: Text


FORWARD_REFUSED = "the cluster refuses to forward a port"
"""Beginning of what a forwarded port says of that."""


class AdmissionError(Exception):
    """A quota, or another rule of the cluster for its pods, refuses one; says which."""


def plain(things: list[Reply]) -> list[dict[str, Any]]:
    """The things as Kubernetes writes them, without what is absent."""
    return [thing.model_dump(exclude_none=True) for thing in things]
