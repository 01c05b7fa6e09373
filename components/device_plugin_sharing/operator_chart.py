"""The Helm chart of the NVIDIA GPU Operator, for GPUs with MIG: device plugin and MIG manager."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from components.charts import Chart
from sharing import versions
from sharing.hardware import mig
from sharing.hardware.gpus import Gpu
from sharing.modes.modes import Sharing
from sharing.names import tolerations

CHART = Chart(
    name="gpu-operator",
    version=versions.GPU_OPERATOR_CHART,
    repository=versions.GPU_OPERATOR_REPOSITORY,
)
UNPARTITIONED = "all-disabled"
"""The layout of a node without a layout label. The operator accepts no other default."""
HOST_GPU_CLIENTS = (
    # The operator's own list (assets/state-mig-manager/0410_configmap.yaml), then services that the EKS AMI adds.
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
"""Host services that keep a GPU open. The MIG manager stops them while it partitions; missing ones are ignored."""


def values(pools: Sequence[tuple[Sharing, Gpu]]) -> dict[str, Any]:
    """The chart's values for the EKS NVIDIA AMI, which includes driver and toolkit.

    A changed ConfigMap restarts no pod, but a changed name does. Each name therefore contains a hash of the content.
    """
    default, plugin = _plugin_config([sharing for sharing, _ in pools])
    layouts = {"config.yaml": json.dumps({"version": "v1", "mig-configs": mig_configs(pools)})}
    clients = {"clients.yaml": json.dumps({"version": "v1", "systemd-services": HOST_GPU_CLIENTS})}
    clients_name = _named("tandem-gpu-clients", clients)
    return {
        "driver": {"enabled": False},
        "toolkit": {"enabled": False},
        # A strategy set here becomes an environment variable, which overrides the plugin's configuration.
        "mig": {"strategy": ""},
        "migManager": {
            "enabled": True,
            # In a cloud, only a reboot resets an A100.
            "env": [{"name": "WITH_REBOOT", "value": "true"}],
            "config": {
                "create": True,
                "name": _named("tandem-mig-layouts", layouts),
                "default": UNPARTITIONED,
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
        # The operator ignores nodes without the labels of feature discovery, which is installed as a separate release.
        "nfd": {"enabled": False},
        "gfd": {"enabled": True},
        "daemonsets": {"tolerations": tolerations(None)},
        # A ServiceMonitor needs the custom resources of the Prometheus Operator.
        "dcgmExporter": {"serviceMonitor": {"enabled": False}},
        "operator": {"cleanupCRD": False, "upgradeCRD": True},
        "extraObjects": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": clients_name}, "data": clients},
        ],
    }


def _plugin_config(sharings: Sequence[Sharing]) -> tuple[str, dict[str, str]]:
    """Name of the default configuration, and all configurations of the plugin by name: a single one.

    `plugin_chart.values` says why. Raises `ValueError` if pools need different ones: a cluster has one operator, which
    has one default.
    """
    texts = {sharing.config_name: json.dumps(sharing.plugin_config()) for sharing in sharings}
    if len(texts) != 1:
        raise ValueError(
            f"pools with MIG have different device plugin configurations: {', '.join(sorted(texts))}. "
            "Give them the same strategy and replicas."
        )
    return next(iter(texts)), texts


def mig_configs(pools: Sequence[tuple[Sharing, Gpu]]) -> dict[str, list[dict[str, Any]]]:
    """The MIG manager's configuration for each value of the node label.

    It has every common layout of the pools' GPUs, and the pools' own. So a layout change only changes a label, and the
    MIG manager still knows the layout of nodes with the old label.
    """
    layouts: dict[str, mig.Layout] = {}
    for sharing, gpu in pools:
        for layout in (*mig.layouts(gpu), *mig.presets(gpu).values(), sharing.layout_of(gpu)):
            layouts |= {mig.name(layout): layout} if layout else {}
    partitioned = {
        name: [{"devices": "all", "mig-enabled": True, "mig-devices": {p.name: count for p, count in layout}}]
        for name, layout in sorted(layouts.items())
    }
    return {UNPARTITIONED: [{"devices": "all", "mig-enabled": False}], **partitioned}


def _named(prefix: str, data: Mapping[str, str]) -> str:
    return f"{prefix}-{hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:8]}"
