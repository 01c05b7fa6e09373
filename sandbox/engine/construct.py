"""The provider `eks` for the real engine. It builds remote components by registering their children."""

from __future__ import annotations

import grpc  # type: ignore[import-untyped]
from pulumi.runtime.proto import provider_pb2, resource_pb2, resource_pb2_grpc

from sandbox import wire
from sandbox.cloud.answers import Cloud
from sandbox.cloud.protocol import Creation, Refused, Registered, Values
from sandbox.engine.servicer import Servicer
from sandbox.engine.unknown import holds_unknown, settled, with_stand_ins
from sandbox.graph import PROVIDER_TYPE_PREFIX, Registration, plain


class ComponentServicer(Servicer):
    """Serves a package that only has remote components.

    Like the real provider, it does not pass a component's aliases to its children, so a rename replaces all of them.
    """

    ACCEPTS_SECRETS = True
    ACCEPTS_RESOURCES = True

    def Construct(
        self, request: provider_pb2.ConstructRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ConstructResponse:
        with grpc.insecure_channel(request.monitorEndpoint) as channel:
            registrar = EngineRegistrar(resource_pb2_grpc.ResourceMonitorStub(channel), request)
            try:
                return self._constructed(request, registrar)
            except Refused as refusal:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(refusal))
            except grpc.RpcError as error:
                # The failed child shows the reason on its own line. The real provider adds this line below it.
                context.abort(grpc.StatusCode.UNKNOWN, f"{request.type} {request.name!r}: {error.details()}")
        raise AssertionError("abort raises")

    def _constructed(
        self, request: provider_pb2.ConstructRequest, registrar: EngineRegistrar
    ) -> provider_pb2.ConstructResponse:
        urn = registrar.register_component()
        component = Registration(
            type=request.type,
            name=request.name,
            inputs=wire.read(request.inputs),
            property_dependencies={key: tuple(sorted(of.urns)) for key, of in request.inputDependencies.items()},
            providers={package: wire.provider_urn(reference) for package, reference in request.providers.items()},
        )
        built = Cloud().constructed(urn, component, registrar)
        outputs = {key: wire.UNKNOWN if holds_unknown(value) else value for key, value in built.outputs.items()}
        registrar.register_outputs(urn, outputs)
        response = provider_pb2.ConstructResponse(urn=urn)
        wire.write(outputs, response.state)
        for key, urns in built.dependencies.items():
            response.stateDependencies[key].urns.extend(urns)
        return response


class EngineRegistrar:
    """Registers a component's children with the calling engine (protocol.Registrar)."""

    def __init__(self, monitor: resource_pb2_grpc.ResourceMonitorStub, request: provider_pb2.ConstructRequest) -> None:
        self._monitor = monitor
        self._request = request
        # The engine expects `<urn>::<id>`, but registrations only have the URN.
        self._references = {wire.provider_urn(reference): reference for reference in request.providers.values()}

    def register_component(self) -> str:
        """Registers the component itself, and returns its URN."""
        asked = self._request
        request = resource_pb2.RegisterResourceRequest(
            type=asked.type,
            name=asked.name,
            parent=asked.parent,
            dependencies=asked.dependencies,
            providers=asked.providers,
            acceptSecrets=True,
            acceptResources=True,
        )
        return str(self._monitor.RegisterResource(request).urn)

    def register(self, registration: Registration) -> Registered:
        answer = self._monitor.RegisterResource(self._child(registration))
        outputs = wire.read(answer.object)
        identity = answer.id
        if registration.type.startswith(PROVIDER_TYPE_PREFIX):
            self._references[answer.urn] = f"{answer.urn}::{identity or wire.UNKNOWN}"
        if self._request.dryRun and registration.custom:
            identity = identity or wire.UNKNOWN
            inputs = plain(registration.inputs)
            outputs = with_stand_ins(Creation(type=registration.type, name=registration.name, inputs=inputs), outputs)
        return Registered(answer.urn, identity, outputs)

    def register_outputs(self, urn: str, outputs: Values) -> None:
        request = resource_pb2.RegisterResourceOutputsRequest(urn=urn)
        wire.write(settled(outputs), request.outputs)
        self._monitor.RegisterResourceOutputs(request)

    def ask(self, token: str, args: Values, provider: str = "") -> Values:
        request = resource_pb2.ResourceInvokeRequest(tok=token, provider=self._reference(provider))
        request.acceptResources = True
        wire.write(args, request.args)
        answer = self._monitor.Invoke(request)
        if answer.failures:
            raise Refused(f"{token}: {'; '.join(failure.reason for failure in answer.failures)}")
        return wire.read(getattr(answer, "return"))

    def _child(self, registration: Registration) -> resource_pb2.RegisterResourceRequest:
        request = resource_pb2.RegisterResourceRequest(
            type=registration.type,
            name=registration.name,
            parent=registration.parent,
            custom=registration.custom,
            dependencies=registration.dependencies,
            provider=self._reference(registration.provider),
            providers={package: self._reference(urn) for package, urn in registration.providers.items()},
            acceptSecrets=True,
            acceptResources=True,
            supportsPartialValues=True,
            version=registration.options.get("version", ""),
            ignoreChanges=registration.options.get("ignoreChanges", ()),
        )
        wire.write(settled(registration.inputs), request.object)
        for key, urns in registration.property_dependencies.items():
            request.propertyDependencies[key].urns.extend(urns)
        return request

    def _reference(self, urn: str) -> str:
        return self._references.get(urn, urn)
