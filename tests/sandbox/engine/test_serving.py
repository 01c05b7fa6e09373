"""The servers that the engine finds in `PULUMI_DEBUG_PROVIDERS`."""

from importlib.metadata import version

import grpc  # type: ignore[import-untyped]
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from sandbox.engine import serving
from sandbox.world import World

TAKES = {"aws": (False, False), "kubernetes": (True, False), "eks": (True, True), "random": (False, False)}
"""Whether a package's provider takes marks of secrets, and references to resources.

A component provider such as `eks` gets both. pulumi-kubernetes keeps the marks (provider/pkg/provider/provider.go,
AcceptSecrets); the bridge of `aws` and `random` leaves them to the engine.
"""


def test_each_package_has_a_server_for_its_provider_until_the_end() -> None:
    with serving(World()) as addresses:
        found = dict(address.split(":", 1) for address in addresses.split(","))
        assert list(found) == list(TAKES)
        for package, address in found.items():
            with grpc.insecure_channel(f"127.0.0.1:{address}") as channel:
                provider = provider_pb2_grpc.ResourceProviderStub(channel)
                taken = provider.Handshake(provider_pb2.ProviderHandshakeRequest(), timeout=30)
                assert (taken.accept_secrets, taken.accept_resources) == TAKES[package]
                assert provider.GetPluginInfo(empty_pb2.Empty()).version == version(f"pulumi-{package}")
    with grpc.insecure_channel(f"127.0.0.1:{found['aws']}") as channel, pytest.raises(grpc.RpcError):
        provider_pb2_grpc.ResourceProviderStub(channel).Cancel(empty_pb2.Empty(), timeout=1)
