"""The emulated cloud as Pulumi providers, on Pulumi's wire protocol. These are raw gRPC servicers, because
`pulumi.provider.experimental` controls neither the marks of values nor the calls that an engine requires.

One server serves every instance of a package's provider, default and explicit ones, because an attached engine only
knows the package's name. But each instance opens its own connection and first sends its configuration on it (Configure,
with URN and inputs). So the peer's address identifies the instance. URNs of resources do not contain their provider
(pulumi 3.260, pkg/resource/plugin/provider_plugin.go).
"""

import json
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc  # type: ignore[import-untyped]
from google.protobuf import empty_pb2
from pulumi.runtime.proto import plugin_pb2, provider_pb2, provider_pb2_grpc, status_pb2

from sandbox import wire
from sandbox.cloud.protocol import Creation, Refused, Values
from sandbox.engine.unknown import after_update, expected
from sandbox.graph import Secret, holds_secret, plain
from sandbox.world import CloudError, IncompleteError, Lost, World
from sandbox.world.providers.names import DEFAULTS, without_defaults

BY_FRAMEWORK = ("aws:eks/podIdentityAssociation:PodIdentityAssociation",)
"""Types that the Terraform AWS provider builds on the plugin framework (@FrameworkResource). An error leaves their
state unchanged.
"""
# Inputs of a provider that identify its place: a change replaces all of its resources. Other changes are updates.
# (kubernetes: README of the provider, `clusterIdentifier`; aws: resources belong to one region)
PLACES = ("region", "clusterIdentifier")


class Servicer(provider_pb2_grpc.ResourceProviderServicer):
    """Calls that every package handles: handshake, configuration, shutdown."""

    ACCEPTS_SECRETS = False
    ACCEPTS_RESOURCES = False

    def __init__(self, package: str, version: str) -> None:
        self._package = package
        self._version = version
        self._settings: dict[str, Values] = {}
        """Inputs of each provider instance, by its connection."""

    def Handshake(
        self, request: provider_pb2.ProviderHandshakeRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ProviderHandshakeResponse:
        return provider_pb2.ProviderHandshakeResponse(
            accept_secrets=self.ACCEPTS_SECRETS, accept_resources=self.ACCEPTS_RESOURCES
        )

    def Attach(self, request: plugin_pb2.PluginAttach, context: grpc.ServicerContext) -> empty_pb2.Empty:
        # The engine requires this method. It also fails if the reply is "unimplemented".
        return empty_pb2.Empty()

    def GetPluginInfo(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> plugin_pb2.PluginInfo:
        return plugin_pb2.PluginInfo(version=self._version)

    def GetSchema(
        self, request: provider_pb2.GetSchemaRequest, context: grpc.ServicerContext
    ) -> provider_pb2.GetSchemaResponse:
        # YAML asks for the types of a program's resources. The only ones of these packages that it may create itself
        # are the providers, of which our guides set a kubeconfig; components create the others.
        inputs = {"kubeconfig": {"$ref": "pulumi.json#/Any"}}
        known = {"name": self._package, "version": self._version, "provider": {"inputProperties": inputs}}
        return provider_pb2.GetSchemaResponse(schema=json.dumps(known))

    def CheckConfig(
        self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext
    ) -> provider_pb2.CheckResponse:
        return provider_pb2.CheckResponse(inputs=request.news)

    def DiffConfig(self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext) -> provider_pb2.DiffResponse:
        changed = changed_inputs(request)
        return difference(changed, [key for key in changed if key in PLACES])

    def Configure(
        self, request: provider_pb2.ConfigureRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ConfigureResponse:
        self._settings[context.peer()] = plain(wire.read(request.args))
        return provider_pb2.ConfigureResponse(
            acceptSecrets=self.ACCEPTS_SECRETS, acceptResources=self.ACCEPTS_RESOURCES, supportsPreview=True
        )

    def Cancel(self, request: empty_pb2.Empty, context: grpc.ServicerContext) -> empty_pb2.Empty:
        return empty_pb2.Empty()

    def _provider(self, context: grpc.ServicerContext) -> Values:
        """The inputs of the calling provider instance."""
        return self._settings.get(context.peer(), {})


class CloudServicer(Servicer):
    """Serves one package of the emulated cloud: resources and functions.

    Like the real aws and kubernetes providers, it does not accept resource references. Otherwise roles would arrive as
    references.
    """

    def __init__(self, package: str, version: str, world: World) -> None:
        super().__init__(package, version)
        self._world = world

    def Configure(
        self, request: provider_pb2.ConfigureRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ConfigureResponse:
        with _answered(context):
            if self._package == "aws":
                self._world.callers.admit(plain(wire.read(request.args)))
        return super().Configure(request, context)

    def Check(self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext) -> provider_pb2.CheckResponse:
        olds, news = wire.read(request.olds), wire.read(request.news)
        response = provider_pb2.CheckResponse()
        try:
            inputs = self._world.check(request.type, request.name, plain(news), plain(olds) or None)
        except CloudError as error:
            response.inputs.CopyFrom(request.news)
            response.failures.add(reason=_reason(error))
        else:
            wire.write(_marked(inputs, news), response.inputs)
        return response

    def Diff(self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext) -> provider_pb2.DiffResponse:
        olds, news = plain(wire.read(request.old_inputs)), plain(wire.read(request.news))
        found = self._world.diff(request.type, olds, news)
        return difference(found.changed, found.replaces, delete_before_replace=found.delete_before_replace)

    def Create(self, request: provider_pb2.CreateRequest, context: grpc.ServicerContext) -> provider_pb2.CreateResponse:
        inputs = wire.read(request.properties)
        asked = Creation(type=request.type, name=request.name, inputs=plain(inputs), provider=self._provider(context))
        response = provider_pb2.CreateResponse()
        if request.preview:
            wire.write(_marked(expected(asked), inputs), response.properties)
            return response
        with _answered(context, inputs):
            response.id, outputs = self._world.create(asked.type, asked.name, dict(asked.inputs), dict(asked.provider))
            wire.write(_marked(outputs, inputs), response.properties)
        return response

    def Read(self, request: provider_pb2.ReadRequest, context: grpc.ServicerContext) -> provider_pb2.ReadResponse:
        response = provider_pb2.ReadResponse()
        with _answered(context):
            found = self._world.read(request.type, request.id)
            if found is not None:
                inputs, outputs = found
                known = wire.read(request.inputs)
                if DEFAULTS in known:
                    # As in the bridge, the state records which names were generated. The cloud does not know them.
                    inputs = {**inputs, DEFAULTS: known[DEFAULTS]}
                response.id = request.id
                wire.write(_marked(inputs, known), response.inputs)
                wire.write(_marked(outputs, wire.read(request.properties)), response.properties)
        # An empty id means that the resource does not exist.
        return response

    def Update(self, request: provider_pb2.UpdateRequest, context: grpc.ServicerContext) -> provider_pb2.UpdateResponse:
        news = wire.read(request.news)
        response = provider_pb2.UpdateResponse()
        if request.preview:
            olds = plain(wire.read(request.olds))
            wire.write(_marked(after_update(request.type, olds, plain(news)), news), response.properties)
            return response
        with _answered(context, news):
            outputs = self._world.update(request.type, request.id, plain(news), dict(self._provider(context)))
            wire.write(_marked(outputs, news), response.properties)
        return response

    def Delete(self, request: provider_pb2.DeleteRequest, context: grpc.ServicerContext) -> empty_pb2.Empty:
        with _answered(context):
            self._world.delete(request.type, request.id, dict(self._provider(context)))
        return empty_pb2.Empty()

    def Invoke(self, request: provider_pb2.InvokeRequest, context: grpc.ServicerContext) -> provider_pb2.InvokeResponse:
        response = provider_pb2.InvokeResponse()
        with _answered(context):
            answer = self._world.invoke(request.tok, plain(wire.read(request.args)), dict(self._provider(context)))
            wire.write(answer, getattr(response, "return"))
        return response


class TerraformServicer(CloudServicer):
    """A provider that Pulumi bridges from Terraform: aws.

    A failed update is recorded as if it had succeeded. The Terraform SDK writes the planned values into the state
    unless the resource requests partial state (terraform-plugin-sdk helper/schema/resource_data.go, ResourceData.State,
    and issue 476). Node groups and add-ons do not. The bridge returns the values as those of a resource with
    initialization errors (pulumi-terraform-bridge pkg/tfbridge/provider.go, Update). The engine saves them next to the
    old inputs (pulumi pkg/engine/update.go, OnResourceStepPost). The next Diff uses the outputs and finds no
    difference, and the bridge reports an Update without a difference as successful. Only a refresh shows the real
    values.
    """

    def Diff(self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext) -> provider_pb2.DiffResponse:
        olds, news = in_state(wire.read(request.old_inputs), wire.read(request.olds)), plain(wire.read(request.news))
        found = self._world.diff(request.type, olds, news)
        return difference(found.changed, found.replaces, delete_before_replace=found.delete_before_replace)

    def Update(self, request: provider_pb2.UpdateRequest, context: grpc.ServicerContext) -> provider_pb2.UpdateResponse:
        news, olds = wire.read(request.news), wire.read(request.olds)
        if not self._world.diff(request.type, in_state(wire.read(request.old_inputs), olds), plain(news)).changed:
            return provider_pb2.UpdateResponse(properties=request.olds)
        if request.type in BY_FRAMEWORK or request.preview:
            return super().Update(request, context)
        planned = without_defaults({**plain(olds), **plain(news)})
        response = provider_pb2.UpdateResponse()
        with _answered(context, news):
            try:
                outputs = self._world.update(request.type, request.id, plain(news))
            except Lost as lost:
                raise IncompleteError(CloudError("RequestError", str(lost)), request.id, planned) from lost
            except CloudError as error:
                raise IncompleteError(error, request.id, planned) from error
            wire.write(_marked(outputs, news), response.properties)
        return response


def in_state(inputs: Values, outputs: Values) -> dict[str, Any]:
    """The inputs with the values of the outputs, which differ after a failed update.

    An output that only adds computed values to an input counts as equal to it.
    """
    given, shown = plain(inputs), plain(outputs)
    return {
        key: shown[key] if key in shown and _differs(key, shown[key], value) else value for key, value in given.items()
    }


def _differs(key: str, shown: Any, given: Any) -> bool:
    if key in ("labels", "tags"):
        return bool(shown != given)
    return not _says(shown, given)


def _says(shown: Any, given: Any) -> bool:
    if isinstance(given, dict) and isinstance(shown, dict):
        return all(_says(shown.get(key), value) for key, value in given.items())
    if isinstance(given, list) and isinstance(shown, list) and len(given) == len(shown):
        return all(_says(one, other) for one, other in zip(shown, given, strict=True))
    return bool(shown == given)


class KubernetesServicer(CloudServicer):
    """The kubernetes provider. It keeps the marks of secrets, while aws leaves that to the engine."""

    ACCEPTS_SECRETS = True


@contextmanager
def _answered(context: grpc.ServicerContext, given: Values | None = None) -> Iterator[None]:
    """Converts the cloud's exceptions to gRPC errors.

    For any status code, the engine assumes that a failed creation created nothing and records nothing. So a lost reply
    leaves an orphan. Only an engine that is killed leaves a pending operation (seen with 3.260). For an incomplete
    resource, the details have its id and outputs: the engine keeps it, and updates it the next time.
    """
    try:
        yield
    except Lost as lost:
        context.abort(grpc.StatusCode.UNKNOWN, str(lost) or "the reply was lost: connection reset by peer")
    except IncompleteError as error:
        context.set_trailing_metadata((("grpc-status-details-bin", _details(error, given)),))
        context.abort(grpc.StatusCode.UNKNOWN, _reason(error))
    except CloudError as error:
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, _reason(error))
    except Refused as refusal:
        context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(refusal))


def _details(error: IncompleteError, given: Values | None) -> bytes:
    """The details of a gRPC status: id and outputs of an incomplete resource."""
    inputs = given or {}
    found = provider_pb2.ErrorResourceInitFailed(id=error.id, reasons=[_reason(error)])
    wire.write(_marked(error.outputs, inputs), found.properties)
    wire.write(dict(inputs), found.inputs)
    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=_reason(error))
    status.details.add().Pack(found)
    return status.SerializeToString()


def _reason(error: CloudError) -> str:
    return f"{error.code}: {error.message}"


def changed_inputs(request: provider_pb2.DiffRequest) -> list[str]:
    """Inputs that differ, regardless of secret marks."""
    olds, news = plain(wire.read(request.old_inputs)), plain(wire.read(request.news))
    return [key for key in sorted(olds.keys() | news.keys()) if olds.get(key) != news.get(key)]


def difference(
    changed: Collection[str], replaces: Collection[str], *, delete_before_replace: bool = False
) -> provider_pb2.DiffResponse:
    """A response with the changed properties, and those whose change replaces the resource."""
    some, none = provider_pb2.DiffResponse.DIFF_SOME, provider_pb2.DiffResponse.DIFF_NONE
    return provider_pb2.DiffResponse(
        changes=some if changed or replaces else none,
        diffs=_tops(changed),
        replaces=_tops(replaces),
        deleteBeforeReplace=delete_before_replace,
    )


def _tops(paths: Iterable[str]) -> list[str]:
    """The top-level properties of paths. Without a detailed diff, the engine only knows these."""
    return sorted({path.partition(".")[0] for path in paths})


def _marked(values: Values, like: Values) -> dict[str, Any]:
    """The values, marked as secret like the values with the same names in `like`."""
    marked = dict(values)
    for key, value in like.items():
        if key in marked and holds_secret(value):
            marked[key] = value if plain(value) == marked[key] else Secret(marked[key])
    return marked
