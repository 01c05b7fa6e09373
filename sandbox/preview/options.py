"""Conversion of the SDK's requests to registrations, with options named as in Pulumi's schema."""

from collections.abc import Mapping
from typing import Any

from pulumi.runtime.proto import resource_pb2

from sandbox import wire
from sandbox.graph import Registration

# Options that the engine ignores on components, with a warning (pulumi#9704).
IGNORED_ON_COMPONENTS = ("ignoreChanges", "customTimeouts", "additionalSecretOutputs", "replaceOnChanges")


def from_request(request: resource_pb2.RegisterResourceRequest) -> Registration:
    """A RegisterResource request as a registration."""
    return Registration(
        type=request.type,
        name=request.name,
        parent=request.parent,
        inputs=wire.read(request.object),
        custom=request.custom,
        remote=request.remote,
        dependencies=tuple(sorted(request.dependencies)),
        property_dependencies={
            key: tuple(sorted(found.urns)) for key, found in sorted(request.propertyDependencies.items()) if found.urns
        },
        provider=wire.provider_urn(request.provider),
        providers={package: wire.provider_urn(one) for package, one in sorted(request.providers.items())},
        options=_options(request),
    )


def _options(request: resource_pb2.RegisterResourceRequest) -> Mapping[str, Any]:
    """The options that our programs use."""
    options: dict[str, Any] = {}
    for field in ("ignoreChanges", "replaceOnChanges", "additionalSecretOutputs"):
        if given := getattr(request, field):
            options[field] = tuple(given)
    if request.version:
        options["version"] = request.version
    if request.deleteBeforeReplaceDefined:
        options["deleteBeforeReplace"] = request.deleteBeforeReplace
    if request.HasField("customTimeouts"):
        options["customTimeouts"] = {field.name: text for field, text in request.customTimeouts.ListFields()}
    if request.HasField("replacement_trigger"):
        options["replacementTrigger"] = wire.read_value(request.replacement_trigger)
    return options
