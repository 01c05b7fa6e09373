"""Serves the emulated cloud as the providers aws, kubernetes, eks and random to the real `pulumi`."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import version

import grpc  # type: ignore[import-untyped]
from pulumi.runtime.proto import provider_pb2_grpc

from sandbox.engine.construct import ComponentServicer
from sandbox.engine.random import RandomServicer
from sandbox.engine.servicer import KubernetesServicer, Servicer, TerraformServicer
from sandbox.world import World

DEBUG_PROVIDERS = "PULUMI_DEBUG_PROVIDERS"
"""Environment variable with the addresses of providers to which the engine attaches instead of starting them."""
THREADS = 64
"""Maximum number of parallel calls for one package. An engine sends one per resource that can proceed, and a Construct
waits for all of its children.
"""


@contextmanager
def serving(world: World) -> Iterator[str]:
    """Serves the cloud inside the block. Yields the value for PULUMI_DEBUG_PROVIDERS."""
    servicers: tuple[tuple[str, Servicer], ...] = (
        ("aws", TerraformServicer("aws", version("pulumi-aws"), world)),
        ("kubernetes", KubernetesServicer("kubernetes", version("pulumi-kubernetes"), world)),
        ("eks", ComponentServicer("eks", version("pulumi-eks"))),
        ("random", RandomServicer("random", version("pulumi-random"))),
    )
    servers: list[grpc.Server] = []
    addresses: list[str] = []
    try:
        for package, servicer in servicers:
            server = grpc.server(ThreadPoolExecutor(THREADS))
            provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
            # Port 0 means any free port.
            addresses.append(f"{package}:{server.add_insecure_port('127.0.0.1:0')}")
            server.start()
            servers.append(server)
        yield ",".join(addresses)
    finally:
        for server in servers:
            server.stop(grace=None).wait()
