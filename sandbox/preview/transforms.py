"""Transforms of a remote component. In a real run, the engine calls them back for each child.

Source: pulumi 3.260, pkg/resource/deploy/source_eval.go: a resource's own transforms first, then those of its parents.
"""

import inspect
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pulumi
from pulumi.runtime.proto import callback_pb2

from sandbox.cloud.protocol import Refused
from sandbox.graph import Registration

Transform = Callable[[pulumi.ResourceTransformArgs], pulumi.ResourceTransformResult | None]
_OPTIONS = {
    "replace_on_changes": "replaceOnChanges",
    "delete_before_replace": "deleteBeforeReplace",
}
"""Options that a transform can change here: the SDK's name and the schema's name."""


class Callbacks:
    """Replaces the gRPC server that the SDK starts for the engine's callbacks."""

    def __init__(self) -> None:
        self._transforms: dict[str, Transform] = {}

    def register_transform(self, transform: Transform) -> callback_pb2.Callback:
        """Stores the function, and returns its reference for requests."""
        token = str(uuid.uuid4())
        self._transforms[token] = transform
        return callback_pb2.Callback(token=token)

    def named(self, callbacks: Iterable[callback_pb2.Callback]) -> tuple[Transform, ...]:
        """The functions that a request refers to."""
        return tuple(self._transforms[one.token] for one in callbacks)


def transformed(registration: Registration, transforms: Iterable[Transform]) -> Registration:
    """The registration after the transforms. Inputs keep the sandbox's marks (`Secret`, `Ref`)."""
    for transform in transforms:
        args = pulumi.ResourceTransformArgs(
            custom=registration.custom,
            type_=registration.type,
            name=registration.name,
            props=dict(registration.inputs),
            opts=_as_options(registration),
        )
        result = transform(args)
        if inspect.isawaitable(result):
            raise Refused("the sandbox does not support asynchronous transforms. Use a plain function.")
        if result is not None:
            changed = {name: getattr(result.opts, option) for option, name in _OPTIONS.items()}
            tuples = {name: tuple(value) if isinstance(value, list) else value for name, value in changed.items()}
            given = {name: value for name, value in tuples.items() if value}
            props: Any = result.props
            registration = replace(registration, inputs=props, options={**registration.options, **given})
    return registration


def _as_options(registration: Registration) -> pulumi.ResourceOptions:
    options = pulumi.ResourceOptions()
    for option, name in _OPTIONS.items():
        value = registration.options.get(name)
        setattr(options, option, list(value) if isinstance(value, tuple) else value)
    return options
