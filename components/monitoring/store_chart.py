"""The Helm chart of VictoriaMetrics in a single pod: it reads the metrics and keeps them for two days."""

from collections.abc import Sequence
from typing import Any

from components.charts import Chart
from components.containers import NOBODY, UNPRIVILEGED, requests, run_as
from components.monitoring.scraping import Job, scrape_config
from sharing import versions
from sharing.names import STORE_PORT

CHART = Chart(
    name="victoria-metrics-single",
    version=versions.STORE_CHART,
    repository=versions.STORE_REPOSITORY,
)
NAME = "victoria-metrics"
URL = f"http://{NAME}:{STORE_PORT}"
"""Address within its namespace."""
RETENTION = "2d"
CPU_MILLIS, MEMORY_MIB = 50, 256
"""Requests, and the limit of memory, 60 % of which it uses for caches. A GPU has about ten series."""
DISK_GIB = 1


def values(jobs: Sequence[Job]) -> dict[str, Any]:
    """The chart's values. It has no volume: the chart's own would outlive `pulumi destroy`."""
    return {
        "server": {
            "fullnameOverride": NAME,
            "retentionPeriod": RETENTION,
            "persistentVolume": {"enabled": False},
            "emptyDir": {"sizeLimit": f"{DISK_GIB}Gi"},
            # A changed ConfigMap restarts no pod.
            "extraArgs": {"promscrape.configCheckInterval": "30s"},
            "scrape": {"enabled": True, "config": scrape_config(jobs)},
            "podSecurityContext": {"enabled": True, **run_as(NOBODY), "fsGroup": NOBODY},
            "securityContext": {"enabled": True, **UNPRIVILEGED},
            "resources": requests(CPU_MILLIS, MEMORY_MIB),
        },
    }
