"""A kubelet that forwards ports and runs commands: KWOK's server, which the API server calls like any kubelet.

It forwards every port to one on this machine, and runs commands here, with `programs` on its PATH. A test gives
nodes its address, so that `kubectl port-forward` and `exec` work as on a real node.
"""

import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.control_plane.recipe import KWOK_STAGES
from tests.control_plane.running import LOOPBACK, ControlPlane, free_addresses


@dataclass(frozen=True)
class Kubelet:
    """A kubelet by its address."""

    port: int

    def of(self, node: dict[str, Any]) -> dict[str, Any]:
        """The node with this kubelet."""
        addresses = [{"type": kind, "address": LOOPBACK} for kind in ("Hostname", "InternalIP")]
        endpoints = {"kubeletEndpoint": {"Port": self.port}}
        return {**node, "status": {**node["status"], "addresses": addresses, "daemonEndpoints": endpoints}}


@contextmanager
def kubelet(plane: ControlPlane, folder: Path, ports: Mapping[int, int], programs: Path) -> Iterator[Kubelet]:
    """A kubelet while the block runs; `ports` maps a pod's port to one on this machine."""
    forwards = [{"ports": [port], "target": {"address": LOOPBACK, "port": here}} for port, here in ports.items()]
    rules = [
        {"kind": "ClusterPortForward", "metadata": {"name": "all"}, "spec": {"forwards": forwards}},
        {"kind": "ClusterExec", "metadata": {"name": "all"}, "spec": {"execs": [{"local": {}}]}},
    ]
    documents = [json.dumps({"apiVersion": "kwok.x-k8s.io/v1alpha1", **rule}) for rule in rules]
    config = folder / "kubelet.yaml"
    config.write_text("\n---\n".join(documents), encoding="utf-8")
    [address] = free_addresses(1)
    flags = (
        f"--kubeconfig={plane.kubeconfig}",
        f"--config={plane.programs / KWOK_STAGES}",
        f"--config={config}",
        # The first KWOK manages the life of the other nodes.
        "--manage-nodes-with-label-selector=nobody=has-this",
        f"--server-address={address}",
        f"--tls-cert-file={plane.folder / 'cert.pem'}",
        f"--tls-private-key-file={plane.folder / 'key.pem'}",
    )
    host, _, port = address.partition(":")
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"

    def listens() -> bool:
        with socket.socket() as one:
            return one.connect_ex((host, int(port))) == 0

    with plane.part(plane.programs / "kwok", *flags, environment={"PATH": path}):
        plane.wait_for("the kubelet listened", listens)
        yield Kubelet(int(port))
