"""KEDA's operator and its HTTP add-on on a running control plane, as programs of this machine.

The cluster's pods of these programs exist too, without running anything, so that the programs find one another by the
Services and addresses of the cluster. `network.py` leads these to this machine.
"""

import http.client
import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.control_plane.network import ANY_POD, Network, network
from tests.control_plane.recipe import KEDA_CRDS, KEDA_HTTP_CRDS, KEDA_PROGRAM
from tests.control_plane.running import LOOPBACK, ControlPlane, free_addresses

NAMESPACE = "keda"
ADD_ON = "keda-add-ons-http"
"""Name of the chart, which is the first part of the names of its objects."""
ADMIN_PORT, SCALER_PORT = 9090, 9090
"""Ports in the cluster: the chart's defaults."""


@dataclass
class Keda:
    """KEDA and its add-on, running."""

    plane: ControlPlane
    network: Network
    proxy: int
    """The interceptor's port for requests, on this machine."""
    admin: int
    """The interceptor's port for its own numbers, on this machine."""
    _programs: Path
    _certificates: Path
    _operator: ExitStack = field(default_factory=ExitStack)

    def counts(self) -> dict[str, dict[str, int]]:
        """The interceptor's requests by route: those at this moment, and all that it ever got."""
        connection = http.client.HTTPConnection(LOOPBACK, self.admin, timeout=5)
        try:
            connection.request("GET", "/queue")
            found: dict[str, dict[str, int]] = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        return found

    def start_operator(self) -> None:
        """Starts KEDA's operator, and waits until it is ready."""
        probe, metrics = (address.rpartition(":")[2] for address in free_addresses(2))
        self._operator.enter_context(
            self.plane.part(
                self._programs / KEDA_PROGRAM,
                f"--cert-dir={self._certificates}",
                f"--health-probe-bind-address={LOOPBACK}:{probe}",
                f"--metrics-service-bind-address={LOOPBACK}:{metrics}",
                "--metrics-bind-address=0",
                environment={
                    "KUBECONFIG": str(self.plane.kubeconfig),
                    "POD_NAMESPACE": NAMESPACE,
                    "KEDA_CLUSTER_OBJECT_NAMESPACE": NAMESPACE,
                    "WATCH_NAMESPACE": "",
                    **self.network.environment,
                },
            )
        )
        self.plane.wait_for("KEDA was ready", lambda: _answers(int(probe), "/readyz"))

    def stop_operator(self) -> None:
        """Ends KEDA's operator, as if its pod were deleted."""
        self._operator.close()


def define(plane: ControlPlane, definitions: Path) -> None:
    """Applies KEDA's custom resource definitions, and waits until they are served."""
    for file in (KEDA_CRDS, KEDA_HTTP_CRDS):
        crds = [crd for crd in yaml.safe_load_all((definitions / file).read_text(encoding="utf-8")) if crd]
        for crd in crds:
            plane.api.apply(crd)
        plane.wait_until_served(crds)


@contextmanager
def keda(plane: ControlPlane, definitions: Path, programs: Path) -> Iterator[Keda]:
    """KEDA's kinds and programs while the block runs. Raises `StartError`.

    `definitions` and `programs` are the folders of `KEDA_DEFINITIONS` and `KEDA`. The interceptor's Deployment and
    Services are up to the caller.
    """
    define(plane, definitions)
    proxy, admin, scaler = (int(address.rpartition(":")[2]) for address in free_addresses(3))
    served = {f"{ANY_POD}:{ADMIN_PORT}": admin, f"{ADD_ON}-external-scaler.{NAMESPACE}:{SCALER_PORT}": scaler}
    with ExitStack() as running:
        net = running.enter_context(network(served))
        environment = {"KUBECONFIG": str(plane.kubeconfig), **net.environment}

        def start(program: str, **settings: Any) -> None:
            known = {key: str(value) for key, value in settings.items()}
            running.enter_context(plane.part(programs / program, environment={**environment, **known}))

        # Both listen on every interface, and no setting changes that.
        start(
            "interceptor",
            KEDA_HTTP_PROXY_PORT=proxy,
            KEDA_HTTP_ADMIN_PORT=admin,
            KEDA_HTTP_SHUTDOWN_DELAY="0s",
            KEDA_HTTP_DRAIN_TIMEOUT="1s",
            OTEL_PROM_EXPORTER_ENABLED="false",
        )
        start(
            "scaler",
            KEDA_HTTP_SCALER_PORT=scaler,
            KEDA_HTTP_SCALER_TARGET_ADMIN_NAMESPACE=NAMESPACE,
            KEDA_HTTP_SCALER_TARGET_ADMIN_SERVICE=f"{ADD_ON}-interceptor-admin",
            KEDA_HTTP_SCALER_TARGET_ADMIN_DEPLOYMENT=f"{ADD_ON}-interceptor",
            KEDA_HTTP_SCALER_TARGET_ADMIN_PORT=ADMIN_PORT,
            OTEL_PROM_EXPORTER_ENABLED="false",
        )
        plane.wait_for("the interceptor was ready", lambda: _answers(admin, "/readyz"))
        made = Keda(plane, net, proxy, admin, programs, _certificates(plane))
        running.callback(made.stop_operator)
        made.start_operator()
        yield made


def _certificates(plane: ControlPlane) -> Path:
    """A folder with the control plane's certificate, under the names of those that KEDA makes for itself."""
    folder = plane.folder / "keda"
    folder.mkdir()
    for name, source in (("ca.crt", "cert.pem"), ("tls.crt", "cert.pem"), ("tls.key", "key.pem")):
        shutil.copy(plane.folder / source, folder / name)
    return folder


def _answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
