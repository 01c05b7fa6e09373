"""Karpenter's own core on a running control plane, with fake nodes."""

import http.client
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.control_plane.api import Api
from tests.control_plane.karpenter_kwok import policies
from tests.control_plane.recipe import KARPENTER_CRDS, KARPENTER_PROGRAM, KWOK_NODE_CLASS_CRD
from tests.control_plane.running import ControlPlane, free_addresses

CALM_BEFORE_DECIDING = "200ms"
"""Time without a new pod before Karpenter decides on nodes: 1s by default, for clusters that are further away."""
INSTANCE_TYPES = "instance-types.json"


class Karpenter:
    """Karpenter on one control plane. It runs between `sell` and the end of the block that made it."""

    def __init__(self, plane: ControlPlane, programs: Path, running: ExitStack) -> None:
        self.plane = plane
        self._programs, self._running = programs, running

    def sell(self, instance_types: Sequence[Mapping[str, Any]]) -> None:
        """Offers these instance types from now on (`karpenter_types.for_sale()`), with the resources of their nodes.

        Karpenter starts or restarts, since its provider reads them once. Raises `StartError`.
        """
        self._running.close()
        (self.plane.folder / INSTANCE_TYPES).write_text(json.dumps(instance_types), encoding="utf-8")
        health = free_addresses(1)[0]
        self._running.enter_context(
            self.plane.part(
                self._programs / KARPENTER_PROGRAM,
                "--disable-leader-election=true",
                "--feature-gates=NodeOverlay=true",
                f"--batch-idle-duration={CALM_BEFORE_DECIDING}",
                f"--instance-types-file-path={INSTANCE_TYPES}",
                # It listens on every interface, and no flag changes that. Port 0 means any free port.
                f"--health-probe-port={health.rpartition(':')[2]}",
                "--metrics-port=0",
                environment={"KUBECONFIG": str(self.plane.kubeconfig)},
            )
        )
        self.plane.wait_for("Karpenter was ready", lambda: _answers(health, "/readyz"))


@contextmanager
def karpenter(plane: ControlPlane, programs: Path) -> Iterator[Karpenter]:
    """Karpenter's objects on the control plane, and Karpenter itself from `sell` to the end of the block.

    `programs` is what `built(recipe=KARPENTER)` returned. Raises `StartError`.
    """
    for file in (KARPENTER_CRDS, KWOK_NODE_CLASS_CRD):
        crds = [crd for crd in yaml.safe_load_all((programs / file).read_text(encoding="utf-8")) if crd]
        for crd in crds:
            plane.api.apply(crd)
        plane.wait_until_served(crds)
    for policy in policies():
        plane.api.apply(policy)
    plane.wait_for("Karpenter's policies were in force", lambda: not _devices_of_new_node(plane.api))
    with ExitStack() as running:
        yield Karpenter(plane, programs, running)


def _devices_of_new_node(api: Api) -> dict[str, str]:
    """The GPU resources that a fake node would have; none once the policies are in force."""
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "probe", "labels": {"kwok.x-k8s.io/node": "fake"}},
        "status": {part: {"nvidia.com/gpu": "1", "pods": "1"} for part in ("capacity", "allocatable")},
    }
    made = api.call("POST", "/api/v1/nodes", node, dryRun="All")
    return {name: count for name, count in made["status"]["allocatable"].items() if "/" in name}


def _answers(address: str, path: str) -> bool:
    host, _, port = address.partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
