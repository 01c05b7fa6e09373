"""The deployed dashboard in the web page of a real store, with an hour of two models on a time-sliced GPU.

Grafana cannot be installed from a package index, so VictoriaMetrics evaluates the queries and its page draws them. That
page neither stacks nor dashes lines. The readings are made up, with the labels of tests/cluster/metrics.yaml.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.graph import plain
from tests.browser.chromium import Browser
from tests.cluster.metrics import SECONDS, Series, read_cases, read_series
from tests.cluster.store import Store, running_store
from tests.control_plane.build import cache_folder
from tests.control_plane.recipe import METRICS
from tests.program.conftest import graph_of

STACK = "monitored"
END, SHOWN = 1_795_467_600, "2026-11-23T21:00:00"
"""The end of the hour, in seconds and as the page's address has it."""
TOTAL_MIB, RESERVED_MIB, WITHOUT_POD_MIB = 15360, 460, 200
"""A T4, as in tests/cluster/metrics.yaml."""
UNITS = {"mbytes": "MiB", "percent": "%", "currencyUSD": "$"}
"""What the page appends to the numbers of an axis, by Grafana's name of the unit."""
NO_SLICE = " {{GPU_I_ID}}"
"""Without MIG, no series has this label, and Grafana shows nothing for it. The store's page drops the whole legend."""
WIDTH, HEIGHT = 1200, 2070
"""Of a window that shows all panels: the page draws a panel when it is in sight."""
ONLY_PANELS = """document.head.insertAdjacentHTML('beforeend', `<style>
  .vm-header, .vm-footer, .vm-legend-group .vm-accordion-header, .vm-legend-item-stats { display: none !important }
  .vm-legend, .vm-legend-item-container { display: flex !important; flex-flow: row wrap }
</style>`)"""
"""Hides menus, queries and statistics, and puts the names of the lines side by side."""
DRAWN = """(panels => panels.length && panels.every(panel => panel.querySelector('.vm-legend-item')))(
  [...document.querySelectorAll('.vm-predefined-panel')])"""
"""Each panel has a line."""
LEGENDS = """JSON.stringify([...document.querySelectorAll('.vm-predefined-panel')].map(panel => [
  panel.querySelector('h3').innerText,
  [...panel.querySelectorAll('.vm-legend-item-info__label')].map(one => one.innerText).sort(),
]))"""


@dataclass(frozen=True)
class Use:
    """What a model does for a while."""

    memory_mib: int = 0
    """0 if it is not loaded."""
    busy_percent: int = 0
    tokens_per_second: int = 0
    requests: int = 0


IDLE_LLAMA, IDLE_MISTRAL = Use(4900), Use(4600)
PHASES = (
    (11, {"llama": IDLE_LLAMA, "mistral": Use()}),
    (15, {"llama": Use(4900, 95, 31, 1), "mistral": Use()}),
    (5, {"llama": IDLE_LLAMA, "mistral": IDLE_MISTRAL}),
    (15, {"llama": Use(4900, 51, 16, 1), "mistral": Use(4600, 47, 15, 1)}),
    (15, {"llama": IDLE_LLAMA, "mistral": Use(4600, 96, 29, 1)}),
)
"""Minutes, and each pod's use of the GPU. A minute more than the page shows."""
MODELS = {"llama2:7b": "llama", "mistral:7b": "mistral"}


def find_store() -> Path | None:
    """The folder of the store's program; None if the cluster tier has not built it."""
    folder = cache_folder() / METRICS.name
    return folder if folder.exists() else None


@contextmanager
def running(tools: Path, folder: Path) -> Iterator[str]:
    """The address of the page while the block runs."""
    dashboards = folder / "dashboards"
    dashboards.mkdir()
    (dashboards / "shared-gpus.json").write_text(json.dumps(as_page(deployed())), encoding="utf-8")
    options = (
        f"-vmui.customDashboardsPath={dashboards}",
        "-vmui.defaultTimezone=UTC",
        "-retentionPeriod=100y",
        "-search.latencyOffset=0s",
    )
    with running_store(tools, folder, *options) as store:
        write_hour(store)
        period = f"g0.range_input=1h&g0.end_input={SHOWN}&g0.relative_time=none"
        yield f"{store.url}/vmui/#/dashboards?{period}"


def deployed() -> dict[str, Any]:
    """The dashboard of a stack's ConfigMap, as Grafana gets it."""
    graph = graph_of(STACK)
    [found] = [resource for resource in graph if resource.name == "tandem-monitoring-dashboards"]
    content: dict[str, Any] = json.loads(plain(found.inputs)["data"]["shared-gpus.json"])
    return content


def as_page(dashboard: dict[str, Any]) -> dict[str, Any]:
    """Grafana's JSON in the format of VictoriaMetrics' page (VictoriaMetrics 1.150.0, app/vmui/README.md)."""
    panels = [
        {
            "title": panel["title"],
            "description": panel["description"],
            "unit": UNITS.get(panel["fieldConfig"]["defaults"]["unit"], ""),
            "expr": [target["expr"] for target in panel["targets"]],
            "alias": [target["legendFormat"].replace(NO_SLICE, "") for target in panel["targets"]],
            "width": 4,
        }
        for panel in dashboard["panels"]
    ]
    return {"title": dashboard["title"], "rows": [{"panels": panels}]}


def write_hour(store: Store) -> None:
    """Writes a reading each 15 seconds."""
    cases = {case.name: case for case in read_cases()}
    found = read_series(cases["timeslice"].metrics) + read_series(cases["models"].metrics)
    readings = [uses for minutes, uses in PHASES for _ in range(minutes * 60 // SECONDS)]
    store.replace(line for series in found for line in _lines(series, readings))


def _lines(series: Series, readings: list[dict[str, Use]]) -> Iterator[str]:
    generated = seconds = 0.0
    for number, uses in enumerate(readings):
        use = uses.get(MODELS.get(series.labels.get("model", ""), series.labels.get("pod", "")), Use())
        if use.memory_mib:
            generated += use.tokens_per_second * SECONDS
            # By the clock, also while another process has the GPU.
            seconds += SECONDS if use.tokens_per_second else 0
        value = _value(series, use, uses, generated, seconds)
        if value is not None:
            yield f"{series.text()} {value} {(END - (len(readings) - 1 - number) * SECONDS) * 1000}"


def _value(series: Series, own: Use, uses: dict[str, Use], generated: float, seconds: float) -> float | None:
    """The reading of a series; None if the exporter has none."""
    used = WITHOUT_POD_MIB + sum(use.memory_mib for use in uses.values())
    busy = sum(use.busy_percent for use in uses.values())
    loaded = {
        "tandem_model_size_bytes": own.memory_mib * 2**20,
        "tandem_model_size_vram_bytes": own.memory_mib * 2**20,
        "tandem_tokens_predicted_total": generated,
        "tandem_tokens_predicted_seconds_total": seconds,
        "tandem_requests_processing": own.requests,
        "tandem_requests_deferred": 0,
    }
    if series.name in loaded:
        return loaded[series.name] if own.memory_mib else None
    return {
        "DCGM_FI_DEV_FB_USED": own.memory_mib if "pod" in series.labels else used,
        "DCGM_FI_DEV_FB_FREE": TOTAL_MIB - RESERVED_MIB - used,
        "DCGM_FI_DEV_FB_RESERVED": RESERVED_MIB,
        "DCGM_FI_DEV_GPU_UTIL": own.busy_percent if "pod" in series.labels else busy,
        "DCGM_FI_DEV_XID_ERRORS": 0,
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE": busy * 0.009,
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": busy * 0.002,
        "tandem_ollama_up": 1,
        "tandem_model_loaded": int(own.memory_mib > 0),
    }[series.name]


def read_legends(browser: Browser) -> dict[str, list[str]]:
    """The names of the lines of each panel on the open page."""
    shown: list[tuple[str, list[str]]] = json.loads(browser.evaluate(LEGENDS))
    return dict(shown)
