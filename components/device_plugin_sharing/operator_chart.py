"""The chart of the NVIDIA GPU Operator, for cards that are cut into slices: device plugin and MIG manager."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from components.charts import Chart
from sharing import mig, versions
from sharing.gpus import Gpu
from sharing.modes import Sharing
from sharing.names import tolerations

CHART = Chart(
    name="gpu-operator",
    version=versions.GPU_OPERATOR_CHART,
    repository=versions.GPU_OPERATOR_REPOSITORY,
)
UNCUT = "all-disabled"
"""The layout of a node whose label names none; the operator takes no other default."""
HOST_GPU_CLIENTS = (
    # The operator's own list (assets/state-mig-manager/0410_configmap.yaml), and what the EKS AMI starts besides.
    "nvsm.service",
    "nvsm-mqtt.service",
    "nvsm-core.service",
    "nvsm-api-gateway.service",
    "nvsm-notifier.service",
    "nv_peer_mem.service",
    "nvidia-dcgm.service",
    "dcgm.service",
    "dcgm-exporter.service",
    "nvidia-persistenced.service",
)
"""Services of the host that hold a card open; the MIG manager stops them while it cuts. Absent ones do not matter."""


def values(pools: Sequence[tuple[Sharing, Gpu]]) -> dict[str, Any]:
    """Values of the chart on the EKS NVIDIA AMI, which brings driver and toolkit.

    A changed config map restarts nothing, a changed name of one does: so each name has a hash of the content.
    """
    default, plugin = _plugin_config([sharing for sharing, _ in pools])
    layouts = {"config.yaml": json.dumps({"version": "v1", "mig-configs": mig_configs(pools)})}
    clients = {"clients.yaml": json.dumps({"version": "v1", "systemd-services": HOST_GPU_CLIENTS})}
    clients_name = _named("tandem-gpu-clients", clients)
    return {
        "driver": {"enabled": False},
        "toolkit": {"enabled": False},
        # As environment of the plugin a strategy would beat that of each config.
        "mig": {"strategy": ""},
        "migManager": {
            "enabled": True,
            # An A100 in a cloud can be reset by a reboot only.
            "env": [{"name": "WITH_REBOOT", "value": "true"}],
            "config": {
                "create": True,
                "name": _named("tandem-mig-layouts", layouts),
                "default": UNCUT,
                "data": layouts,
            },
            "gpuClientsConfig": {"name": clients_name},
        },
        "devicePlugin": {
            "enabled": True,
            "config": {
                "create": True,
                "name": _named("tandem-sharing", plugin),
                "default": default,
                "data": plugin,
            },
        },
        # The operator does nothing for a node without the labels of feature discovery, which is a release of its own.
        "nfd": {"enabled": False},
        "gfd": {"enabled": True},
        "daemonsets": {"tolerations": tolerations(None)},
        # Needs the resources of a Prometheus.
        "dcgmExporter": {"serviceMonitor": {"enabled": False}},
        "operator": {"cleanupCRD": False, "upgradeCRD": True},
        "extraObjects": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": clients_name}, "data": clients},
        ],
    }


def _plugin_config(sharings: Sequence[Sharing]) -> tuple[str, dict[str, str]]:
    """Name and texts of the plugin's one configuration. It is the default, for the reason of `plugin_chart.values`.

    Raises `ValueError` where pools need different ones: there is one operator in a cluster, and it has one default.
    """
    texts = {sharing.config_name: json.dumps(sharing.plugin_config()) for sharing in sharings}
    if len(texts) != 1:
        raise ValueError(
            f"pools with MIG need one configuration of the device plugin (got {', '.join(sorted(texts))}). "
            "Give them the same strategy and replicas."
        )
    return next(iter(texts)), texts


def mig_configs(pools: Sequence[tuple[Sharing, Gpu]]) -> dict[str, list[dict[str, Any]]]:
    """What the MIG manager does for each value of the node label: all usual layouts of the pools' cards, and their own.

    So another layout is another label, and nodes that have the old one keep a layout that is known.
    """
    found: dict[str, mig.Layout] = {}
    for sharing, gpu in pools:
        for layout in (*mig.layouts(gpu), *mig.presets(gpu).values(), sharing.layout_of(gpu)):
            found |= {mig.name(layout): layout} if layout else {}
    cut = {
        name: [{"devices": "all", "mig-enabled": True, "mig-devices": {p.name: count for p, count in layout}}]
        for name, layout in sorted(found.items())
    }
    return {UNCUT: [{"devices": "all", "mig-enabled": False}], **cut}


def _named(prefix: str, data: Mapping[str, str]) -> str:
    return f"{prefix}-{hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:8]}"
