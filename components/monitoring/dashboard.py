"""The dashboard for shared GPUs, as Grafana's JSON.

dcgm-exporter has a series of memory and of utilization for each pod on a GPU, next to that of the GPU. It repeats all
other values for each pod. So a plain `sum` counts a GPU several times (docs/decisions/0143). With MIG, each slice has
series of its own, with the label `GPU_I_ID`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from components.arguments import check_arguments

WINDOW = "2m"
"""Of rates: eight readings."""
WIDTH, HEIGHT = 12, 8
"""Of a panel; a row of the dashboard has the width 24."""
GPU, SLICE, POD = "node, gpu", "node, gpu, GPU_I_ID", "node, gpu, GPU_I_ID, namespace, pod"
MIB, RATIO, PERCENT = "mbytes", "percentunit", "percent"
"""Units of Grafana: MiB, 0 to 1, and 0 to 100."""


@check_arguments
@dataclass(frozen=True, kw_only=True)
class MonitoredPool:
    """A pool of GPU nodes, with numbers of its plan. Raises `ValueError` for a value of the wrong type."""

    name: str
    """The value of the label `tandem/pool` on its nodes."""
    node_usd_per_hour: float
    """Price of one node, in USD per hour."""
    share_mib: int | None = None
    """Memory of one share in MiB, if the sharing mode enforces it without MIG; None otherwise."""
    models: Sequence[str] = ()
    """Ids of the models that have a pod whenever the pool has a node. An alert expects them."""


@dataclass(frozen=True)
class Query:
    """A PromQL expression, and the legend of its series."""

    expr: str
    legend: str
    line: bool = False
    """Draw it as a line, also in a panel that stacks."""


@dataclass(frozen=True)
class Panel:
    """One graph."""

    title: str
    description: str
    unit: str
    queries: tuple[Query, ...]
    stacked: bool = False
    most: float | None = None
    """Upper end of the axis; None to fit the values."""


def _largest(metric: str, by: str) -> str:
    return f"max by ({by}) ({metric})"


def panels(
    pools: Sequence[MonitoredPool], other_usd_per_hour: float | None, *, has_kube_state_metrics: bool
) -> list[Panel]:
    """All panels, in rows of two."""
    chosen = [_memory(pools), *_MODELS, *_UTILIZATION]
    if has_kube_state_metrics:
        chosen.append(_PODS)
    if pools:
        chosen.append(_price(pools, other_usd_per_hour or 0))
    return chosen


def _memory(pools: Sequence[MonitoredPool]) -> Panel:
    used, free = _largest("DCGM_FI_DEV_FB_USED", SLICE), _largest("DCGM_FI_DEV_FB_FREE", SLICE)
    reserved = f"({_largest('DCGM_FI_DEV_FB_RESERVED', SLICE)} or 0 * {used})"
    pods = _largest('DCGM_FI_DEV_FB_USED{pod!=""}', POD)
    shares = [
        Query(f"vector({pool.share_mib})", f"Share of {pool.name}", line=True) for pool in pools if pool.share_mib
    ]
    return Panel(
        "GPU memory",
        "Memory of each pod, and lines for the GPU. If a GPU uses more than its pods, some processes are not counted.",
        MIB,
        (
            Query(f"sum by (node, gpu, pod) ({pods})", "{{pod}}"),
            Query(f"sum by ({GPU}) ({used})", "Used on {{node}}, GPU {{gpu}}", line=True),
            Query(f"sum by ({GPU}) ({used} + {free} + {reserved})", "All of {{node}}, GPU {{gpu}}", line=True),
            *shares,
        ),
        stacked=True,
    )


_MODELS = (
    Panel(
        "Model on the GPU",
        "Part of each model that is in GPU memory. Less than 100 % means that layers run on the CPU. A gap means that "
        "the model is not loaded, which is normal when nobody uses it.",
        RATIO,
        (Query("tandem_model_size_vram_bytes / (tandem_model_size_bytes > 0)", "{{model}}"),),
        most=1,
    ),
    Panel(
        "Tokens per second",
        "Tokens that the models generate, averaged over two minutes, so an idle model has 0.",
        "none",
        (
            Query(f"sum by (model) (rate(tandem_tokens_predicted_total[{WINDOW}]))", "{{model}}"),
            Query(f"sum(rate(tandem_tokens_predicted_total[{WINDOW}]))", "All models", line=True),
        ),
        stacked=True,
    ),
    Panel(
        "Speed while generating",
        "Tokens per second of the time in which a model generates. Models that take turns on a GPU slow each other.",
        "none",
        (
            Query(
                f"sum by (model) (rate(tandem_tokens_predicted_total[{WINDOW}]))"
                f" / (sum by (model) (rate(tandem_tokens_predicted_seconds_total[{WINDOW}])) > 0)",
                "{{model}}",
            ),
        ),
    ),
    Panel(
        "Requests",
        "Requests that a model works on, and requests that wait for it.",
        "none",
        (
            Query("sum by (model) (tandem_requests_processing)", "{{model}}"),
            Query("sum by (model) (tandem_requests_deferred)", "{{model}}, waiting"),
        ),
    ),
)
_UTILIZATION = (
    Panel(
        "Time in which the GPU is busy",
        "Of the GPU, and of each pod: do not add them. On a time-sliced GPU, one process runs at a time, so "
        "100 % does not mean full use. MIG has no such figure.",
        PERCENT,
        (
            Query(_largest('DCGM_FI_DEV_GPU_UTIL{pod=""}', GPU), "{{node}}, GPU {{gpu}}", line=True),
            Query(_largest('DCGM_FI_DEV_GPU_UTIL{pod!=""}', "node, gpu, namespace, pod"), "{{pod}}"),
        ),
        most=100,
    ),
    Panel(
        "Use of the GPU's units",
        "Part of the time in which the GPU or the slice computes, and in which its tensor cores are active.",
        RATIO,
        (
            Query(_largest("DCGM_FI_PROF_GR_ENGINE_ACTIVE", SLICE), "{{node}}, GPU {{gpu}} {{GPU_I_ID}}"),
            Query(
                _largest("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", SLICE), "{{node}}, GPU {{gpu}} {{GPU_I_ID}}, tensor cores"
            ),
        ),
        most=1,
    ),
)
_WITH_GPU = 'kube_pod_container_resource_requests{resource=~"nvidia_com_.+"}'
_PODS = Panel(
    "Pods on GPUs",
    "Pods that wait for a share, and restarts of containers in the last hour.",
    "none",
    (
        Query(f'sum((kube_pod_status_phase{{phase="Pending"}} == 1) and on (namespace, pod) {_WITH_GPU})', "Waiting"),
        Query(
            "sum by (namespace, pod) (increase(kube_pod_container_status_restarts_total[1h])"
            f" and on (namespace, pod) {_WITH_GPU})",
            "Restarts of {{pod}}",
        ),
    ),
)


def _price(pools: Sequence[MonitoredPool], other_usd_per_hour: float) -> Panel:
    """Nodes that report now, at the plan's prices. A parked pool has none, so `or vector(0)`."""
    nodes = [
        f'{pool.node_usd_per_hour} * (count(count by (node) (DCGM_FI_DEV_FB_FREE{{pool="{pool.name}"}})) or vector(0))'
        for pool in pools
    ]
    return Panel(
        "Cost per hour",
        "GPU nodes that report now, and everything else that the stack pays for, at the prices of the plan.",
        "currencyUSD",
        (Query(" + ".join([str(other_usd_per_hour), *nodes]), "All"),),
    )


def dashboard(found: Sequence[Panel]) -> str:
    """Grafana's JSON of a dashboard with these panels."""
    content = {
        "uid": "tandem-gpus",
        "title": "Models on shared GPUs",
        "tags": ["tandem"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [{"name": "source", "label": "Source", "type": "datasource", "query": "prometheus"}]},
        "panels": [_as_json(index, panel) for index, panel in enumerate(found)],
    }
    return json.dumps(content, indent=1)


def _as_json(index: int, panel: Panel) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${source}"}
    custom = {"lineWidth": 1, "fillOpacity": 10, "showPoints": "never", "spanNulls": False}
    custom["stacking"] = {"mode": "normal" if panel.stacked else "none"}
    return {
        "id": index + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": source,
        "gridPos": {"x": index % 2 * WIDTH, "y": index // 2 * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, **({"max": panel.most} if panel.most else {}), "custom": custom},
            "overrides": [_line(_ref(number)) for number, query in enumerate(panel.queries) if query.line],
        },
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": _ref(number), "datasource": source, "expr": query.expr, "legendFormat": query.legend}
            for number, query in enumerate(panel.queries)
        ],
    }


def _ref(number: int) -> str:
    return chr(ord("A") + number)


def _line(ref: str) -> dict[str, Any]:
    """Takes a query out of the stack."""
    plain = {"stacking": {"mode": "none"}, "fillOpacity": 0, "lineStyle": {"fill": "dash"}}
    return {
        "matcher": {"id": "byFrameRefID", "options": ref},
        "properties": [{"id": f"custom.{key}", "value": value} for key, value in plain.items()],
    }
