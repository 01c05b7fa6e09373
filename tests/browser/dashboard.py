"""The deployed dashboard in the web page of a real store, with two models on a time-sliced GPU.

Grafana cannot be installed from a package index, so VictoriaMetrics evaluates the queries and its page draws them. That
page neither stacks nor dashes lines. The readings are those of tests/cluster/metrics.yaml.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sandbox.graph import plain
from tests.browser.chromium import Browser
from tests.cluster.metrics import READINGS, SECONDS, read_cases, read_series
from tests.cluster.store import Store, running_store
from tests.control_plane.build import cache_folder
from tests.control_plane.recipe import METRICS
from tests.program.conftest import graph_of

STACK = "monitored"
END, SHOWN = 1_795_467_600, "2026-11-23T21:00:00"
"""The time of the last reading, in seconds and as the page's address has it."""
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
        write_readings(store)
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


def write_readings(store: Store) -> None:
    """Writes what the exporters of two models on a time-sliced GPU say."""
    cases = {case.name: case for case in read_cases()}
    store.replace(
        f"{series.text()} {value} {(END - (READINGS - 1 - number) * SECONDS) * 1000}"
        for name in ("timeslice", "models")
        for series in read_series(cases[name].metrics)
        for number, value in series.readings()
    )


def read_legends(browser: Browser) -> dict[str, list[str]]:
    """The names of the lines of each panel on the open page."""
    shown: list[tuple[str, list[str]]] = json.loads(browser.evaluate(LEGENDS))
    return dict(shown)
