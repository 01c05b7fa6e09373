"""Conversion of the SDK's requests to registrations, with options named as in Pulumi's schema."""

from collections.abc import Mapping
from typing import Any

from pulumi.runtime.proto import alias_pb2, resource_pb2

from sandbox import wire
from sandbox.graph import Registration

# Options that the engine ignores on components, with a warning (pulumi#9704). The engine's list also has deletedWith
# and retainOnDelete, but children inherit these, so they have an effect.
IGNORED_ON_COMPONENTS = (
    "ignoreChanges",
    "customTimeouts",
    "additionalSecretOutputs",
    "replaceOnChanges",
    "replaceWith",
)
_LISTS = ("ignoreChanges", "replaceOnChanges", "additionalSecretOutputs", "replace_with", "hideDiffs")
_TEXTS = ("deletedWith", "importId", "version", "pluginDownloadURL")
_OTHERWISE = {"replace_with": "replaceWith", "importId": "import"}
"""Fields with another name in the schema."""


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
    options: dict[str, Any] = {}
    for field in (*_LISTS, *_TEXTS):
        if given := getattr(request, field):
            options[_OTHERWISE.get(field, field)] = tuple(given) if field in _LISTS else given
    if request.HasField("protect"):
        options["protect"] = request.protect
    if request.HasField("retainOnDelete"):
        options["retainOnDelete"] = request.retainOnDelete
    if request.deleteBeforeReplaceDefined:
        options["deleteBeforeReplace"] = request.deleteBeforeReplace
    if request.HasField("customTimeouts"):
        options["customTimeouts"] = {field.name: text for field, text in request.customTimeouts.ListFields()}
    if request.HasField("replacement_trigger"):
        options["replacementTrigger"] = wire.read_value(request.replacement_trigger)
    if request.aliases:
        options["aliases"] = tuple(_alias(alias) for alias in request.aliases)
    if request.hooks.ListFields():
        options["hooks"] = {field.name: tuple(names) for field, names in request.hooks.ListFields()}
    return options


def _alias(alias: alias_pb2.Alias) -> str | Mapping[str, Any]:
    """A URN, or the given parts of the specification."""
    if alias.WhichOneof("alias") == "urn":
        return alias.urn
    # An empty parentUrn means the current parent.
    return {field.name: given for field, given in alias.spec.ListFields() if given}
