"""The Helm chart of KEDA: only its operator, which sets the number of a model's pods to 0 or 1."""

from typing import Any

from components.charts import Chart
from components.containers import NOBODY, UNPRIVILEGED, requests, run_as
from sharing import versions

CHART = Chart(name="keda", version=versions.KEDA_CHART, repository=versions.KEDA_REPOSITORY)
CPU_MILLIS, MEMORY_MIB = 50, 256
"""Requests, and the limit of memory. The chart asks for 100 MiB."""


def values() -> dict[str, Any]:
    """The chart's values.

    The metrics server serves autoscalers above one pod, and a model has at most one. Its APIService would keep
    namespaces from being deleted whenever it does not answer. The webhooks only check objects that users write.
    """
    return {
        "metricsServer": {"enabled": False},
        "webhooks": {"enabled": False},
        # Otherwise, the operator looks for the APIService of the metrics server to renew its certificate.
        "certificates": {"operator": {"apiServicePatching": {"enabled": False}}},
        # No trigger needs a Secret of another namespace.
        "permissions": {"operator": {"restrict": {"secret": True}}},
        # Deployments need no such rule, which allows every kind.
        "rbac": {"enabledCustomScaledRefKinds": False},
        "podSecurityContext": {"operator": run_as(NOBODY)},
        "securityContext": {"operator": {**UNPRIVILEGED, "readOnlyRootFilesystem": True}},
        "resources": {"operator": requests(CPU_MILLIS, MEMORY_MIB)},
    }
