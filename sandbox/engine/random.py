"""The provider `random`, whose resources only exist in Pulumi's state."""

import secrets

import grpc  # type: ignore[import-untyped]
from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2

from sandbox import wire
from sandbox.cloud.answers import RANDOM_PASSWORD
from sandbox.engine.servicer import Servicer, changed_inputs, difference
from sandbox.graph import plain


class RandomServicer(Servicer):
    """Serves `RandomId` and `RandomPassword`. Every change of an input replaces them (terraform-provider-random)."""

    def Check(self, request: provider_pb2.CheckRequest, context: grpc.ServicerContext) -> provider_pb2.CheckResponse:
        return provider_pb2.CheckResponse(inputs=request.news)

    def Diff(self, request: provider_pb2.DiffRequest, context: grpc.ServicerContext) -> provider_pb2.DiffResponse:
        changed = changed_inputs(request)
        return difference(changed, changed)

    def Create(self, request: provider_pb2.CreateRequest, context: grpc.ServicerContext) -> provider_pb2.CreateResponse:
        inputs = plain(wire.read(request.properties))
        response = provider_pb2.CreateResponse()
        is_password = request.type == RANDOM_PASSWORD
        made = "result" if is_password else "hex"
        if request.preview:
            wire.write({**inputs, made: wire.UNKNOWN}, response.properties)
            return response
        length = int(inputs["length"] if is_password else inputs["byteLength"])
        text = secrets.token_hex(length)[:length] if is_password else secrets.token_hex(length)
        response.id = "none" if is_password else text
        wire.write({**inputs, made: text}, response.properties)
        return response

    def Read(self, request: provider_pb2.ReadRequest, context: grpc.ServicerContext) -> provider_pb2.ReadResponse:
        return provider_pb2.ReadResponse(id=request.id, inputs=request.inputs, properties=request.properties)

    def Delete(self, request: provider_pb2.DeleteRequest, context: grpc.ServicerContext) -> empty_pb2.Empty:
        return empty_pb2.Empty()
