"""Metrics of the models and the GPUs: a store with dashboards, or monitors for a store that exists.

The exporters on GPU nodes and in the models' pods take memory there: `sharing.fit` counts it.
"""

from sharing.sections.config import StackConfig
from sharing.verdict.features.feature import Feature


def _has_store(config: StackConfig) -> bool:
    return config.monitoring.store == "builtin"


MONITORING = Feature(
    key="monitoring",
    is_on=lambda config: config.monitoring.has_metrics,
    system_pods=lambda config: ["store"] if _has_store(config) else [],
    pages=lambda config: ["Grafana"] if _has_store(config) else [],
)
