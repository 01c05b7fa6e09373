"""Starts a control plane on loopback in a folder of its own, and stops it: `with control_plane(built()) as plane:`."""

import json
import secrets
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tests.control_plane.api import Api, ApiError, Object
from tests.control_plane.kept import Kept, StartError
from tests.control_plane.recipe import CERTIFICATE_MAKER, KWOK_STAGES

T = TypeVar("T")
LOOPBACK = "127.0.0.1"
READY_SECONDS = 90
"""A slow machine takes 20 seconds until the API server is ready."""
POLL_SECONDS = 0.1
NODE_LEASE_SECONDS = 40
"""Kubelet's value. KWOK renews no lease by default, so the node controller marks every node as lost after 50 s."""
HELD = {"kwok.x-k8s.io/status": "custom"}
"""Annotation of pods that KWOK does not run: a Job's pods would complete at once, without holding a share."""
KWOK_DEFAULTS = {
    "cidr": "10.0.0.0/24",
    "enablePodsOnNodeSyncListPager": True,
    "nodeLeaseParallelism": 4,
    "nodePlayStageParallelism": 4,
    "podPlayStageParallelism": 4,
    "podsOnNodeSyncParallelism": 1,
}
"""KWOK's defaults, which it drops once it gets any settings (kwok_configuration_types.go of the pinned version)."""
ISSUER = "https://kubernetes.default.svc"
SERVICE_RANGE = "172.20.0.0/16"
"""One of the two service ranges that EKS uses."""


@dataclass(frozen=True)
class ControlPlane:
    """A running control plane."""

    folder: Path
    """Its data, logs and keys; deleted when it stops."""
    programs: Path
    """The built programs, including helm."""
    api: Api
    kubeconfig: Path
    _parts: list[Kept] = field(default_factory=list, repr=False)

    def check(self) -> None:
        """Raises `StartError` when any part has ended."""
        for part in self._parts:
            part.check()

    @contextmanager
    def part(self, program: Path, *flags: str, environment: Mapping[str, str] | None = None) -> Iterator[None]:
        """Runs one more program during the block: watched, logged and stopped like the others."""
        part = Kept([program, *flags], self.folder / f"{program.name}.log", environment=environment)
        self._parts.append(part)
        try:
            yield
        finally:
            self._parts.remove(part)
            _stop([part])

    def wait_for(self, what: str, known: Callable[[], T], seconds: float = READY_SECONDS) -> T:
        """Waits until `known` gives something and returns that.

        Raises `StartError` with `what` when it gives nothing, or when a part has ended.
        """
        deadline = time.monotonic() + seconds
        while not (found := known()):
            self.check()
            if time.monotonic() > deadline:
                raise StartError(f"waited {seconds:g} s in vain until {what}")
            time.sleep(POLL_SECONDS)
        return found

    def wait_until_served(self, definitions: Sequence[Object]) -> None:
        """Waits until the kinds of custom resource definitions are served."""

        def served(definition: Object) -> bool:
            found = self.api.get(definition["apiVersion"], definition["kind"], definition["metadata"]["name"]) or {}
            conditions = found.get("status", {}).get("conditions") or []  # null at first
            return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)

        self.wait_for("the custom resources were served", lambda: all(map(served, definitions)))


@contextmanager
def control_plane(programs: Path) -> Iterator[ControlPlane]:
    """A fresh control plane while the block runs; no process and no file is left after it. Raises `StartError`."""
    with ExitStack() as cleanup:
        folder = Path(cleanup.enter_context(tempfile.TemporaryDirectory(prefix="tandem-control-plane-")))
        parts: list[Kept] = []
        cleanup.callback(_stop, parts)
        plane = _prepare(folder, programs, parts)
        _start(plane, parts)
        yield plane


def _prepare(folder: Path, programs: Path, parts: list[Kept]) -> ControlPlane:
    """Keys, a certificate, a token, and the files that name them."""
    # One key for TLS and for service accounts: nobody needs to tell them apart.
    subprocess.run(
        [programs / CERTIFICATE_MAKER, "--ca", "--host", f"{LOOPBACK},localhost", "--ecdsa-curve", "P256"],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    certificate, token = folder / "cert.pem", secrets.token_hex(16)
    _private(folder / "tokens.csv", f"{token},admin,admin,system:masters\n")
    api = Api(f"https://{free_addresses(1)[0]}", certificate, token)
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": {"server": api.url, "certificate-authority": str(certificate)}}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": "admin"}}],
        "current-context": "local",
    }
    _private(folder / "kubeconfig.json", json.dumps(kubeconfig))
    return ControlPlane(folder, programs, api, folder / "kubeconfig.json", parts)


def _start(plane: ControlPlane, parts: list[Kept]) -> None:
    def start(name: str, *flags: str) -> None:
        parts.append(Kept([plane.programs / name, *flags], plane.folder / f"{name}.log"))

    client, peer = free_addresses(2)
    kubeconfig = f"--kubeconfig={plane.kubeconfig}"
    pair = "--tls-cert-file=cert.pem", "--tls-private-key-file=key.pem"
    start(
        "etcd",
        "--data-dir=etcd",
        f"--listen-client-urls=http://{client}",
        f"--advertise-client-urls=http://{client}",
        f"--listen-peer-urls=http://{peer}",
        f"--initial-advertise-peer-urls=http://{peer}",
        f"--initial-cluster=default=http://{peer}",
        "--unsafe-no-fsync",
    )
    start(
        "kube-apiserver",
        f"--etcd-servers=http://{client}",
        *_at(plane.api.url.removeprefix("https://")),
        *pair,
        f"--service-account-issuer={ISSUER}",
        "--service-account-key-file=cert.pem",
        "--service-account-signing-key-file=key.pem",
        "--token-auth-file=tokens.csv",
        "--authorization-mode=Node,RBAC",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        # As on EKS: the plugin's pods are privileged, and a pod that asks for an extended resource tolerates its taint.
        "--allow-privileged=true",
        "--enable-admission-plugins=ExtendedResourceToleration",
    )
    plane.wait_for("the API server was ready", lambda: _ready(plane.api))
    start("kube-scheduler", kubeconfig, "--leader-elect=false", *_at(*free_addresses(1)), *pair)
    start(
        "kube-controller-manager",
        kubeconfig,
        "--leader-elect=false",
        *_at(*free_addresses(1)),
        *pair,
        "--service-account-private-key-file=key.pem",
        "--root-ca-file=cert.pem",
    )
    start(
        "kwok",
        kubeconfig,
        "--manage-all-nodes=true",
        f"--config={plane.programs / KWOK_STAGES}",
        f"--config={_options(plane.folder)}",
        f"--node-lease-duration-seconds={NODE_LEASE_SECONDS}",
        f"--server-address={free_addresses(1)[0]}",
    )
    plane.wait_for(
        "the controllers worked", lambda: plane.api.get("v1", "ServiceAccount", "default", "default") is not None
    )


def _options(folder: Path) -> Path:
    """KWOK's own settings: the status of pods with `HELD` is left to the test that holds them."""
    [(key, value)] = HELD.items()
    settings = {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": {**KWOK_DEFAULTS, "disregardStatusWithAnnotationSelector": f"{key}={value}"},
    }
    path = folder / "kwok.json"
    path.write_text(json.dumps(settings), encoding="utf-8")
    return path


def _stop(parts: Sequence[Kept]) -> None:
    """Stops all parts at once, the last started first, without waiting for each: they no longer need each other."""
    for part in reversed(parts):
        part.ask_to_stop()
    for part in reversed(parts):
        part.wait()


def _at(address: str) -> tuple[str, str]:
    host, _, port = address.partition(":")
    return f"--bind-address={host}", f"--secure-port={port}"


def _ready(api: Api) -> bool:
    try:
        return bool(api.call("GET", "/readyz") == "ok")
    except (ApiError, OSError):
        return False


def free_addresses(count: int) -> list[str]:
    """Ports on loopback that are free now, all different. Call it late: an outgoing connection may take one."""
    held = [socket.create_server((LOOPBACK, 0)) for _ in range(count)]
    addresses = [f"{LOOPBACK}:{one.getsockname()[1]}" for one in held]
    for one in held:
        one.close()
    return addresses


def _private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
