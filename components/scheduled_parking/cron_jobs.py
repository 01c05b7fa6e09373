"""The CronJobs that park and wake the models of Karpenter's pools: without pods, Karpenter terminates the nodes."""

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import pulumi

from components.containers import API_ACCESS, NOBODY, UNPRIVILEGED, requests, run_as
from sharing import versions
from sharing.schedule.cron import Cron

SCRIPT, SCRIPT_FOLDER = "scale_models.py", "/script"
LIMIT_SECONDS = 600
"""Time for all attempts of a Job."""
LATE_SECONDS = 25 * 60
"""How late a Job may start, e.g. after an outage of the control plane. Without it there is no limit. It is less than
the time between park and wake (`SHORTEST_MINUTES`), so that a late Job cannot undo the next one."""
CPU_MILLIS, MEMORY_MIB = 10, 64
"""Requests of the Job's pod. It is Python alone, which takes 24 MiB (Python 3.11.7, 2026-11-22)."""


def cron_job(
    cron: Cron,
    timezone: str,
    deployments: Sequence[str],
    replicas: int,
    *,
    namespace: pulumi.Input[str],
    account: pulumi.Input[str],
    script: pulumi.Input[str],
) -> dict[str, Any]:
    """Spec of a CronJob that sets the number of replicas of the Deployments. Its pod runs on a system node."""
    settings: dict[str, pulumi.Input[str]] = {
        "DEPLOYMENTS": json.dumps([*deployments]),
        "REPLICAS": str(replicas),
        "NAMESPACE": namespace,
        **API_ACCESS,
    }
    container = {
        "name": "scale",
        "image": versions.PROBER_IMAGE,
        "command": ["python", "-u", "-B", f"{SCRIPT_FOLDER}/{SCRIPT}"],
        "env": [{"name": name, "value": value} for name, value in settings.items()],
        "resources": requests(CPU_MILLIS, MEMORY_MIB),
        "securityContext": {**UNPRIVILEGED, "readOnlyRootFilesystem": True},
        "volumeMounts": [{"name": "script", "mountPath": SCRIPT_FOLDER, "readOnly": True}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    pod = {
        "restartPolicy": "Never",
        "serviceAccountName": account,
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "securityContext": run_as(NOBODY),
        "containers": [container],
        "volumes": [{"name": "script", "configMap": {"name": script}}],
    }
    return {
        "schedule": cron.for_cron_job(),
        "timeZone": timezone,
        "concurrencyPolicy": "Forbid",
        "startingDeadlineSeconds": LATE_SECONDS,
        "successfulJobsHistoryLimit": 1,
        "failedJobsHistoryLimit": 1,
        "jobTemplate": {"spec": {"activeDeadlineSeconds": LIMIT_SECONDS, "template": {"spec": pod}}},
    }


@cache
def script_text() -> str:
    """Text of the script that runs in the pod."""
    return files(__package__).joinpath(SCRIPT).read_text(encoding="utf-8")
