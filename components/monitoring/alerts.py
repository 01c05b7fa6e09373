"""The alerts of `data/alerts.yaml`, a Prometheus rule file, and the same for Grafana."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from components.monitoring.dashboard import MonitoredPool

FILE = Path(__file__).parent / "data" / "alerts.yaml"
KUBE_STATE_GROUP = "tandem-kube-state-metrics"
"""Rules that need kube-state-metrics, which the store of a stack does not have."""
MODELS_GROUP = "tandem-models"
LOOK_BACK_SECONDS = 300
SOME_GPU_NODE = 'and on () up{job="dcgm-exporter"} == 1'
"""Added to the rules about waiting pods of a cluster that parks: without GPU nodes, its models wait as planned."""


def rule_groups(pools: Sequence[MonitoredPool] = (), *, parks: bool = False) -> list[dict[str, Any]]:
    """The groups of the file, as a PrometheusRule has them, and a rule for the models of the pools.

    `parks`: whether a schedule removes the GPU nodes.
    """
    groups: list[dict[str, Any]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))["groups"]
    for rule in (rule for group in groups if parks and group["name"] == KUBE_STATE_GROUP for rule in group["rules"]):
        rule["expr"] += SOME_GPU_NODE
    if any(pool.models for pool in pools):
        groups.append({"name": MODELS_GROUP, "rules": [_without_pod(pools)]})
    return groups


def _without_pod(pools: Sequence[MonitoredPool]) -> dict[str, Any]:
    """A pod that waits for a share has no metrics, so only their absence shows it.

    The rule is silent while no node of the model's pool reports: a parked pool has none.
    """
    absent = [
        f'absent(tandem_ollama_up{{id="{model}"}}) and on () count(DCGM_FI_DEV_FB_FREE{{pool="{pool.name}"}}) > 0'
        for pool in pools
        for model in pool.models
    ]
    return {
        "alert": "TandemModelWithoutPod",
        "expr": "\nor ".join(absent),
        "for": "15m",
        "labels": {"severity": "critical"},
        "annotations": {
            "summary": "Model {{ $labels.id }} has no running pod",
            "description": "Perhaps no share of a GPU is free. Look at the events of its pod: `kubectl describe pod`.",
        },
    }


def grafana_rules(source: str, pools: Sequence[MonitoredPool]) -> dict[str, Any]:
    """A provisioning file of Grafana with the rules that the store can evaluate; `source` is its data source."""
    groups = [group for group in rule_groups(pools) if group["name"] != KUBE_STATE_GROUP]
    return {
        "apiVersion": 1,
        "groups": [
            {
                "orgId": 1,
                "name": group["name"],
                "folder": source,
                "interval": "1m",
                "rules": [_grafana_rule(rule, source) for rule in group["rules"]],
            }
            for group in groups
        ],
    }


def _grafana_rule(rule: dict[str, Any], source: str) -> dict[str, Any]:
    """A Prometheus alert fires for every series of its expression, whatever its value: for Grafana, `is_number`."""
    window = {"from": LOOK_BACK_SECONDS, "to": 0}
    query = {"refId": "A", "expr": rule["expr"], "instant": True}
    fires = {"refId": "B", "type": "math", "expression": "is_number($A)"}
    return {
        "uid": re.sub(r"(?<!^)(?=[A-Z])", "-", rule["alert"]).lower(),
        "title": rule["alert"],
        "condition": "B",
        "for": rule["for"],
        # No series means that nothing is wrong.
        "noDataState": "OK",
        "execErrState": "Error",
        "labels": rule["labels"],
        "annotations": rule["annotations"],
        "data": [
            {"refId": "A", "relativeTimeRange": window, "datasourceUid": source, "model": query},
            {"refId": "B", "relativeTimeRange": window, "datasourceUid": "__expr__", "model": fires},
        ],
    }
