"""The Helm chart of dcgm-exporter, for nodes whose GPUs the GPU Operator does not manage."""

from typing import Any

from components.charts import Chart
from components.containers import requests
from sharing import versions
from sharing.modes.base import ENTIRE_GPU_LABELS
from sharing.names import GPU_EXPORTER, tolerations

CHART = Chart(
    name=GPU_EXPORTER,
    version=versions.GPU_EXPORTER_CHART,
    repository=versions.GPU_EXPORTER_REPOSITORY,
)
CPU_MILLIS, MEMORY_MIB = 50, 512
"""Requests, and the limit of memory: 405 to 512 MiB on 32 nodes with 1, 4 and 8 GPUs (pytorch/ci-infra#1011)."""
GO_MEMORY_MIB, GO_PROCESSES = 410, 2
"""Without these limits, the exporter is killed on nodes with many CPUs (pytorch/ci-infra#1018)."""
METRICS = """\
DCGM_FI_DEV_FB_USED, gauge, Memory in use (in MiB).
DCGM_FI_DEV_FB_FREE, gauge, Free memory (in MiB).
DCGM_FI_DEV_FB_RESERVED, gauge, Memory that the driver reserves (in MiB).
DCGM_FI_DEV_GPU_UTIL, gauge, GPU utilization (in %).
DCGM_FI_DEV_XID_ERRORS, gauge, The last Xid error.
DCGM_FI_PROF_GR_ENGINE_ACTIVE, gauge, Ratio of time in which the GPU computes.
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE, gauge, Ratio of cycles in which the tensor cores are active.
"""
"""What the dashboard and the alerts read. The chart's own list has no FB_RESERVED, but the image's has."""


def values() -> dict[str, Any]:
    """The chart's values, the same for every sharing mode, so that a switch restarts nothing.

    To tell the pods on one GPU apart, the exporter lists the GPU's processes, reads their cgroups and compares these
    with the pods' UIDs. So it needs the node's processes and access to pods. Without one of them, every pod has 0.
    """
    return {
        "fullnameOverride": GPU_EXPORTER,
        "hostPID": True,
        "kubernetes": {"enablePodUID": True},
        "extraEnv": [
            # Otherwise, one of the pods on a shared GPU gets all its values. In mode `exclusive`, it adds a series for
            # the GPU next to that of the pod.
            {"name": "KUBERNETES_VIRTUAL_GPUS", "value": "true"},
            {"name": "GOMEMLIMIT", "value": f"{GO_MEMORY_MIB}MiB"},
            {"name": "GOMAXPROCS", "value": str(GO_PROCESSES)},
        ],
        "customMetrics": METRICS,
        # On by default, and refused where the Prometheus Operator is missing.
        "serviceMonitor": {"enabled": False},
        # The operator has an exporter of its own. Two on a node would compete for the profiling counters.
        "nodeSelector": ENTIRE_GPU_LABELS,
        "tolerations": tolerations(None),
        "resources": requests(CPU_MILLIS, MEMORY_MIB),
    }
