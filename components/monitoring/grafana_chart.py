"""The Helm chart of Grafana: dashboards, and the alerts that it evaluates itself."""

from collections.abc import Sequence
from typing import Any

import pulumi

from components.charts import Chart
from components.containers import requests
from components.monitoring import store_chart
from components.monitoring.alerts import grafana_rules
from components.monitoring.dashboard import MonitoredPool
from sharing import versions
from sharing.names import DASHBOARDS_PORT

CHART = Chart(name="grafana", version=versions.GRAFANA_CHART, repository=versions.GRAFANA_REPOSITORY)
NAME = "grafana"
SOURCE = "tandem"
"""Id of the data source, and name of the dashboards' folder."""
CPU_MILLIS, MEMORY_MIB = 100, 512
"""Requests, and the limit of memory. With 192 MiB, it is killed (teutonet/teutonet-helm-charts#2392)."""
SETTINGS = {
    "analytics": dict.fromkeys(
        ("check_for_updates", "check_for_plugin_updates", "reporting_enabled", "feedback_links_enabled"), False
    ),
    "news": {"news_feed_enabled": False},
    # Otherwise, every start looks for newer plugins at grafana.com, and can lose the one for Prometheus that the image
    # has (grafana/grafana#132528).
    "plugins": {"preinstall_disabled": True},
}
"""Grafana sends nothing to its makers."""


def values(
    credentials: pulumi.Input[str], dashboards: pulumi.Input[str], pools: Sequence[MonitoredPool] = ()
) -> dict[str, Any]:
    """The chart's values: `credentials` names the Secret of the administrator, `dashboards` a ConfigMap.

    `pools` have the models that an alert expects.

    The chart can watch for dashboards with a sidecar, which may read all Secrets and has no limit of memory. A mounted
    ConfigMap needs neither.
    """
    provider = {"name": SOURCE, "type": "file", "options": {"path": f"/var/lib/grafana/dashboards/{SOURCE}"}}
    source = {"name": SOURCE, "uid": SOURCE, "type": "prometheus", "url": store_chart.URL, "isDefault": True}
    return {
        "fullnameOverride": NAME,
        # Without a Secret of ours, the chart makes up a password.
        "admin": {"existingSecret": credentials},
        "grafana.ini": SETTINGS,
        "datasources": {"datasources.yaml": {"apiVersion": 1, "datasources": [source]}},
        "dashboardProviders": {"dashboardproviders.yaml": {"apiVersion": 1, "providers": [provider]}},
        "dashboardsConfigMaps": {SOURCE: dashboards},
        "alerting": {"rules.yaml": _escaped(grafana_rules(SOURCE, pools))},
        # One number for the Service and the container: policies of vpc-cni need it (components/network_policies.py).
        "service": {"type": "ClusterIP", "port": DASHBOARDS_PORT, "targetPort": DASHBOARDS_PORT},
        # It never calls the Kubernetes API.
        "rbac": {"create": False},
        "serviceAccount": {"automountServiceAccountToken": False},
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "testFramework": {"enabled": False},
        # Two pods at once would need twice the memory.
        "deploymentStrategy": {"type": "Recreate"},
        "resources": requests(CPU_MILLIS, MEMORY_MIB),
    }


def _escaped(value: Any) -> Any:
    """The same with braces that the chart's template engine leaves alone: they are Grafana's."""
    if isinstance(value, dict):
        return {key: _escaped(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_escaped(inner) for inner in value]
    return value.replace("{{", "{{`{{`}}") if isinstance(value, str) else value
