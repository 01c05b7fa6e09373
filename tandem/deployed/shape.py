"""The parts of Kubernetes' objects that tandem reads, checked as they arrive. The rest of an object may be anything."""

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

Sections = dict[str, dict[str, Any] | None]
"""Objects by name: `{"limits": {…}}`, or `{"waiting": {…}}`."""


class _Part(BaseModel):
    model_config = ConfigDict(strict=True)


class _Named(_Part):
    name: str
    value: str | None = None


class _Taint(_Part):
    key: str


class _Condition(_Part):
    type: str
    status: str


class _Metadata(_Part):
    name: str
    labels: dict[str, str] | None = None
    owners: list[_Named] | None = Field(default=None, alias="ownerReferences")


class _Container(_Part):
    name: str
    env: list[_Named] | None = None
    resources: Sections | None = None
    lifecycle: dict[str, Sections | None] | None = None


class _ContainerStatus(_Part):
    restarts: int = Field(default=0, alias="restartCount")
    state: Sections | None = None
    last: Sections | None = Field(default=None, alias="lastState")


class _Spec(_Part):
    priority: int | None = None
    taints: list[_Taint] | None = None
    tolerations: list[dict[str, Any]] | None = None
    containers: list[_Container] | None = None
    template: "_Template | None" = None


class _Template(_Part):
    spec: _Spec | None = None


class _Status(_Part):
    conditions: list[_Condition] | None = None
    allocatable: dict[str, Any] | None = None
    containers: list[_ContainerStatus] | None = Field(default=None, alias="containerStatuses")
    init_containers: list[_ContainerStatus] | None = Field(default=None, alias="initContainerStatuses")
    desired: int = Field(default=0, alias="desiredNumberScheduled")
    ready: int = Field(default=0, alias="numberReady")
    replicas: int = Field(default=0, alias="readyReplicas")


class Shape(_Part):
    """A node, a pod, or an object that creates pods."""

    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()
