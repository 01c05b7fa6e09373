"""The Helm chart of KEDA's HTTP add-on: the interceptor receives requests, and the scaler reports them."""

from typing import Any

from components.charts import Chart
from components.containers import NOBODY, UNPRIVILEGED, requests, run_as
from sharing import versions
from sharing.names import INTERCEPTOR_ADMIN_PORT, INTERCEPTOR_PORT, SCALER_PORT

CHART = Chart(
    name="keda-add-ons-http",
    version=versions.HTTP_ADD_ON_CHART,
    repository=versions.KEDA_REPOSITORY,
)
CPU_MILLIS = 20
INTERCEPTOR_MIB, SCALER_MIB = 128, 64
"""Requests and limits of memory. The chart's limit is 64 MiB for each, and its request 250m CPU."""


def values() -> dict[str, Any]:
    """The chart's values, with one pod of each kind: the chart has three.

    The add-on's operator turns an HTTPScaledObject into other objects, and these exist already. For an InterceptorRoute
    it only sets a condition that nothing reads (http-add-on v0.15.0
    operator/controllers/http/interceptorroute_controller.go).
    """
    return {
        "operator": {"replicas": 0},
        "interceptor": {
            "replicas": {"min": 1, "max": 1},
            "proxy": {"port": INTERCEPTOR_PORT},
            "admin": {"port": INTERCEPTOR_ADMIN_PORT},
            "resources": requests(CPU_MILLIS, INTERCEPTOR_MIB),
        },
        "scaler": {"replicas": 1, "grpcPort": SCALER_PORT, "resources": requests(CPU_MILLIS, SCALER_MIB)},
        "podSecurityContext": run_as(NOBODY),
        "securityContext": {**UNPRIVILEGED, "readOnlyRootFilesystem": True},
    }
