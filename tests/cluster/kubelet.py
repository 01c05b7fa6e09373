"""A kubelet that forwards ports and runs commands: KWOK's server, which the API server asks as it asks any kubelet.

It leads every forwarded port to one on this machine, and runs commands here, with `programs` on its PATH. A test gives
nodes its address, so that `kubectl port-forward` and `exec` work as on a real node.
"""

import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.control_plane.kept import Kept
from tests.control_plane.recipe import KWOK_STAGES
from tests.control_plane.running import ControlPlane

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Kubelet:
    """Where it listens."""

    port: int

    def of(self, node: dict[str, Any]) -> dict[str, Any]:
        """The node with this kubelet."""
        addresses = [{"type": kind, "address": LOOPBACK} for kind in ("Hostname", "InternalIP")]
        endpoints = {"kubeletEndpoint": {"Port": self.port}}
        return {**node, "status": {**node["status"], "addresses": addresses, "daemonEndpoints": endpoints}}


@contextmanager
def kubelet(plane: ControlPlane, folder: Path, ports: Mapping[int, int], programs: Path) -> Iterator[Kubelet]:
    """A kubelet while the block runs; `ports` says where on this machine a pod's port leads."""
    forwards = [{"ports": [port], "target": {"address": LOOPBACK, "port": here}} for port, here in ports.items()]
    rules = [
        {"kind": "ClusterPortForward", "metadata": {"name": "all"}, "spec": {"forwards": forwards}},
        {"kind": "ClusterExec", "metadata": {"name": "all"}, "spec": {"execs": [{"local": {}}]}},
    ]
    documents = [json.dumps({"apiVersion": "kwok.x-k8s.io/v1alpha1", **rule}) for rule in rules]
    config = folder / "kubelet.yaml"
    config.write_text("\n---\n".join(documents), encoding="utf-8")
    with socket.create_server((LOOPBACK, 0)) as held:
        port = held.getsockname()[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(programs), prepend=os.pathsep)
        running = _started(plane, folder, config, port)
    try:
        while not _listens(port):
            running.check()
            time.sleep(0.1)
        yield Kubelet(port)
    finally:
        running.ask_to_stop()
        running.wait()


def _started(plane: ControlPlane, folder: Path, config: Path, port: int) -> Kept:
    return Kept(
        [
            plane.programs / "kwok",
            f"--kubeconfig={plane.kubeconfig}",
            f"--config={plane.programs / KWOK_STAGES}",
            f"--config={config}",
            # Other nodes' life is the first KWOK's business.
            "--manage-nodes-with-label-selector=nobody=has-this",
            f"--server-address={LOOPBACK}:{port}",
            f"--tls-cert-file={plane.folder / 'cert.pem'}",
            f"--tls-private-key-file={plane.folder / 'key.pem'}",
        ],
        folder / "kubelet.log",
    )


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex((LOOPBACK, port)) == 0
