"""The cases of `metrics.yaml`, as input for Prometheus's tool and for the store."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_name("metrics.yaml")
SECONDS, READINGS = 15, 81
"""Between two readings, and readings in the 20 minutes of a case: the longest alert waits for 15."""
LINE = re.compile(r"(?P<name>\w+)\{(?P<labels>.*)\} (?P<value>\S+)")
LABEL = re.compile(r'(\w+)="([^"]*)"')

Labels = dict[str, str]
Panels = dict[str, list[dict[str, float]]]


@dataclass(frozen=True)
class Case:
    """What exporters write, and what dashboard and alerts must make of it."""

    name: str
    metrics: str
    panels: Panels | None
    """By title, each query's series by their labels. None if the case is about alerts alone."""
    alerts: list[dict[str, Any]] = field(default_factory=list)
    models: list[str] = field(default_factory=list)
    """Ids of the models that pool `gpu` must have."""


@dataclass(frozen=True)
class Series:
    """One line of an exporter, with the labels that a scrape job adds."""

    name: str
    labels: Labels
    start: float
    step: float
    first: int = 0
    """Number of the first reading; the series does not exist before it."""

    def readings(self) -> list[tuple[int, float]]:
        """Number and value of each reading."""
        return [(number, self.start + (number - self.first) * self.step) for number in range(self.first, READINGS)]

    def text(self) -> str:
        shown = ",".join(f'{key}="{value}"' for key, value in self.labels.items())
        return f"{self.name}{{{shown}}}"


def read_cases() -> list[Case]:
    rows = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return [_case(name, rows) for name in rows]


def _case(name: str, rows: dict[str, Any]) -> Case:
    row = rows[name]
    text = str(rows[row["like"]]["metrics"]) if "like" in row else row["metrics"]
    for old, new in row.get("replaced", {}).items():
        assert old in text, (name, old)
        text = text.replace(old, new)
    return Case(name, text + row.get("more", ""), row.get("panels"), row.get("alerts", []), row.get("models", []))


def read_series(text: str) -> list[Series]:
    """The lines of an exporter, as the scrape jobs store them: `tests/cluster/test_metrics.py` runs the jobs."""
    found = []
    for line in text.splitlines():
        match = LINE.fullmatch(line)
        assert match, line
        value, _, first = match["value"].partition("@")
        start, _, step = value.partition("+")
        labels = dict(LABEL.findall(match["labels"]))
        node = {labels.pop(key, None) for key in ("Hostname", "hostname")} - {None}
        assert node <= {"n1"}
        labels = {"job": _job(match["name"]), "node": "n1", "pool": "gpu", **labels}
        found.append(Series(match["name"], labels, float(start), float(step or 0), int(first or 0)))
    return found


def _job(metric: str) -> str:
    if metric.startswith("tandem_"):
        return "tandem-models"
    if metric.startswith("karpenter_"):
        return "karpenter"
    return "kube-state-metrics" if metric.startswith("kube_") else "dcgm-exporter"


def read_labels(text: str) -> Labels:
    return dict(LABEL.findall(text))
