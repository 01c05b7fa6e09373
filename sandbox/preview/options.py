"""Requests of the SDK as registrations: which resource options were set, under the names of Pulumi's schema."""

from collections.abc import Iterator, Mapping
from typing import Any

from pulumi.runtime.proto import alias_pb2, resource_pb2

from sandbox import wire
from sandbox.cloud.protocol import Registration, Values

# Options that the engine ignores on components, with a warning (pulumi#9704). deletedWith and retainOnDelete are in the
# engine's list too, but children inherit them, so there they do have an effect.
_IGNORED_ON_COMPONENTS = (
    "ignoreChanges",
    "customTimeouts",
    "additionalSecretOutputs",
    "replaceOnChanges",
    "replaceWith",
)
_LISTS = (
    ("ignoreChanges", "ignoreChanges"),
    ("replaceOnChanges", "replaceOnChanges"),
    ("additionalSecretOutputs", "additionalSecretOutputs"),
    ("replace_with", "replaceWith"),
    ("hideDiffs", "hideDiffs"),
)
_TEXTS = (
    ("deletedWith", "deletedWith"),
    ("importId", "import"),
    ("version", "version"),
    ("pluginDownloadURL", "pluginDownloadURL"),
)


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


def ignored_on_components(options: Values) -> Iterator[str]:
    """Those of the options that do nothing on a component."""
    return (option for option in _IGNORED_ON_COMPONENTS if option in options)


def _options(request: resource_pb2.RegisterResourceRequest) -> Mapping[str, Any]:
    options: dict[str, Any] = {}
    for field, option in _LISTS:
        if values := getattr(request, field):
            options[option] = tuple(values)
    for field, option in _TEXTS:
        if text := getattr(request, field):
            options[option] = text
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
    """A URN, or what of the specification was given."""
    if alias.WhichOneof("alias") == "urn":
        return alias.urn
    # An empty parentUrn is how the SDK says "the parent of today".
    return {field.name: given for field, given in alias.spec.ListFields() if given}
