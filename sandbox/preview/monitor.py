"""The engine's side of a run: handles the SDK's calls, is as strict as the engine, and records everything.

These are plain objects with the methods of the generated gRPC stubs. `pulumi.runtime.MockMonitor` is not sufficient: it
turns inputs into Resources on its own threads (and hangs), accepts duplicate URNs, and loses options and outputs.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from google.protobuf import empty_pb2
from pulumi.runtime.proto import engine_pb2, provider_pb2, resource_pb2

from sandbox import wire
from sandbox.cloud.answers import Cloud
from sandbox.cloud.protocol import Created, Creation, Question, Refused, Registered, Values
from sandbox.graph import STACK_TYPE, Graph, Log, Registration, Resource, Secret, dereferenced, holds_secret, plain
from sandbox.preview.options import IGNORED_ON_COMPONENTS, from_request
from sandbox.preview.transforms import Callbacks, Transform, transformed

GET_RESOURCE = "pulumi:pulumi:getResource"
SEVERITIES = {engine_pb2.INFO: "info", engine_pb2.WARNING: "warning", engine_pb2.ERROR: "error"}

# The SDK asks whether the engine has these. Without OUTPUT_VALUES, inputs of remote components are plain values plus
# propertyDependencies. Without INVOKE_DEPENDS_ON, the SDK itself waits.
FEATURES = (
    resource_pb2.RESOURCE_MONITOR_FEATURE_SECRETS,
    resource_pb2.RESOURCE_MONITOR_FEATURE_RESOURCE_REFERENCES,
    resource_pb2.RESOURCE_MONITOR_FEATURE_TRANSFORMS,
)


class Monitor:
    """The resource monitor and the log of one run."""

    def __init__(self, cloud: Cloud, project: str, stack: str, callbacks: Callbacks | None = None) -> None:
        self._cloud = cloud
        self._callbacks = callbacks or Callbacks()
        self._transforms: tuple[Transform, ...] = ()
        """Transforms of the current component."""
        self._prefix = f"urn:pulumi:{stack}::{project}::"
        self._resources: dict[str, Resource] = {}
        self._logs: list[Log] = []
        self._outputs: dict[str, Values] = {}
        self._constructing = 0

    def graph(self) -> Graph:
        """All registrations so far."""
        stack = next((one.urn for one in self._resources.values() if one.type == STACK_TYPE), "")
        return Graph(
            resources=dict(sorted(self._resources.items())),
            logs=tuple(self._logs),
            outputs={urn: values for urn, values in sorted(self._outputs.items()) if urn != stack},
            stack_outputs=self._outputs.get(stack, {}),
        )

    # Methods for a component's provider (protocol.Registrar).

    def register(self, registration: Registration) -> Registered:
        registration = transformed(registration, self._transforms)
        urn = self._urn(registration)
        self._check(urn, registration)
        if registration.remote:
            return self._construct(urn, registration)
        if not registration.custom:
            self._remember(urn, registration, "", registration.inputs)
            return Registered(urn, "", registration.inputs)
        created = self._create(registration)
        self._remember(urn, registration, created.id, created.outputs)
        return Registered(urn, created.id, created.outputs)

    def register_outputs(self, urn: str, outputs: Values) -> None:
        self._outputs[urn] = outputs

    def ask(self, token: str, args: Values, provider: str = "") -> Values:
        if token == GET_RESOURCE:
            found = self._resources[args["urn"]]
            return {"urn": found.urn, "id": found.id, "state": found.outputs}
        return self._cloud.answer(Question(token=token, args=plain(args), provider=self._inputs_of(provider)))

    def _construct(self, urn: str, component: Registration) -> Registered:
        # The component is recorded before its children, because each child needs a recorded parent.
        self._remember(urn, component, "", {})
        self._constructing += 1
        try:
            built = self._cloud.constructed(urn, component, self)
        finally:
            self._constructing -= 1
        self._remember(urn, component, "", built.outputs)
        self._outputs[urn] = built.outputs
        return Registered(urn, "", built.outputs, built.dependencies)

    def _create(self, registration: Registration) -> Created:
        inputs = registration.inputs
        seen = plain(inputs)
        created = self._cloud.created(
            Creation(
                type=registration.type,
                name=registration.name,
                inputs=seen,
                provider=self._inputs_of(registration.provider),
            )
        )
        additional = registration.options.get("additionalSecretOutputs", ())
        outputs = {}
        for key, value in created.outputs.items():
            # As in the engine, an output is secret if the input with its name contains a secret.
            if key in inputs and value is seen[key]:
                value = dereferenced(inputs[key])
            elif key in inputs and holds_secret(inputs[key]):
                value = Secret(value)
            outputs[key] = Secret(value) if key in additional and not isinstance(value, Secret) else value
        return Created(created.id, outputs)

    def _inputs_of(self, provider: str) -> Values:
        return plain(self._resources[provider].inputs) if provider else {}

    def _urn(self, registration: Registration) -> str:
        kind = registration.type
        if registration.parent:
            above = registration.parent.split("::", 3)[2]
            if above != STACK_TYPE:
                kind = f"{above}${kind}"
        return f"{self._prefix}{kind}::{registration.name}"

    def _check(self, urn: str, registration: Registration) -> None:
        """Raises `Refused` for registrations that the engine rejects."""
        if urn in self._resources:
            raise Refused(f"duplicate resource URN {urn!r}; try giving it a unique name")
        if not registration.custom:
            for option in [one for one in IGNORED_ON_COMPONENTS if one in registration.options]:
                self._logs.append(Log("warning", f"the option {option!r} has no effect on component resources", urn))

    def _remember(self, urn: str, registration: Registration, identity: str, outputs: Values) -> None:
        given = {one.name: getattr(registration, one.name) for one in fields(registration)}
        constructed = self._constructing > 0
        self._resources[urn] = Resource(urn=urn, outputs=outputs, id=identity, constructed=constructed, **given)

    # Calls of the SDK, with names and signatures of the gRPC stub.

    def RegisterResource(self, request: resource_pb2.RegisterResourceRequest) -> resource_pb2.RegisterResourceResponse:
        registration = from_request(request)
        if request.transforms and not registration.remote:
            raise Refused(f"the sandbox runs transforms only on remote components, not on {registration.name!r}")
        self._transforms = self._callbacks.named(request.transforms)
        registered = self.register(registration)
        response = resource_pb2.RegisterResourceResponse(urn=registered.urn, id=registered.id)
        # Most outputs are unchanged inputs, so reuse their wire form.
        response.object.CopyFrom(request.object)
        wire.write(_differing(registered.outputs, registration.inputs), response.object)
        for key, urns in registered.output_dependencies.items():
            response.propertyDependencies[key].urns.extend(urns)
        return response

    def RegisterResourceOutputs(self, request: resource_pb2.RegisterResourceOutputsRequest) -> None:
        self.register_outputs(request.urn, wire.read(request.outputs))

    def Invoke(self, request: resource_pb2.ResourceInvokeRequest) -> resource_pb2.ResourceInvokeResponse:
        provider = request.provider.rpartition("::")[0]
        answer = self.ask(request.tok, wire.read(request.args), provider)
        response = resource_pb2.ResourceInvokeResponse()
        wire.write(answer, getattr(response, "return"))
        return response

    def ReadResource(self, request: resource_pb2.ReadResourceRequest) -> resource_pb2.ReadResourceResponse:
        raise Refused(f"the sandbox cannot look up existing resources: {request.type} {request.id!r}")

    def Call(self, request: resource_pb2.ResourceCallRequest) -> provider_pb2.CallResponse:
        raise Refused(f"the sandbox does not support methods of resources: {request.tok}")

    def GetDeploymentInfo(self, request: empty_pb2.Empty) -> resource_pb2.DeploymentInfo:
        return resource_pb2.DeploymentInfo(supportedFeatures=FEATURES)

    # The SDK ignores the answers of the others.

    def SignalAndWaitForShutdown(self, request: empty_pb2.Empty) -> None:
        """There is nothing to wait for."""

    def Log(self, request: engine_pb2.LogRequest) -> None:
        if request.severity != engine_pb2.DEBUG:
            self._logs.append(Log(SEVERITIES[request.severity], request.message, request.urn))

    def RequirePulumiVersion(self, request: engine_pb2.RequirePulumiVersionRequest) -> None:
        """Every version is right."""


def _differing(outputs: Values, inputs: Mapping[str, Any]) -> Values:
    return {key: value for key, value in outputs.items() if key not in inputs or inputs[key] is not value}
