"""Door 2: serves the emulated cloud as the providers aws, kubernetes, eks and random, for the real `pulumi`."""

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
"""The variable that tells an engine where providers are that it shall attach to instead of starting them."""
THREADS = 64
"""Calls at a time for one package. An engine sends one for each resource that may go on, and a Construct waits for
all of its children."""


@contextmanager
def serving(world: World) -> Iterator[str]:
    """Serves the cloud as long as the block lasts; gives what PULUMI_DEBUG_PROVIDERS must say."""
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
            server = grpc.server(ThreadPoolExecutor(THREADS, thread_name_prefix=f"sandbox-{package}"))
            provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
            # Port 0: the system gives one that is free.
            addresses.append(f"{package}:{server.add_insecure_port('127.0.0.1:0')}")
            server.start()
            servers.append(server)
        yield ",".join(addresses)
    finally:
        for server in servers:
            server.stop(grace=None).wait()
