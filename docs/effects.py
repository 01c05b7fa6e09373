"""The effects of changes and upgrades on a deployed stack; the engine tier runs each row with the real engine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

DOCS = Path(__file__).resolve().parent
LISTS = {"updated": "Updated in place", "replaced": "Replaced", "created": "Created", "deleted": "Deleted"}
Row = dict[str, Any]


def changes() -> str:
    """A section for each change of a stack file."""
    return "".join(line for row in _read("changes.yaml") for line in _section(row["change"], row))


def upgrades() -> str:
    """A section for each newer pin, and one for Kubernetes."""
    [kubernetes] = [row for row in _read("changes.yaml") if "cluster.kubernetes" in row["change"]]
    rows = [*_read("upgrades.yaml"), {**kubernetes, "upgrade": "Kubernetes, one minor version"}]
    return "".join(line for row in rows for line in _section(row["upgrade"], row, level="###"))


def _read(name: str) -> list[Row]:
    rows: list[Row] = yaml.safe_load((DOCS / name).read_text(encoding="utf-8"))
    return rows


def _section(title: str, row: Row, level: str = "##") -> Iterator[str]:
    yield f"\n{level} {title}\n\n"
    listed = {word: ", ".join(map(_short, row.get(word, ()))) for word in LISTS}
    listed["updated"] = row.get("say") or listed["updated"]
    items = [f"{LISTS[word]}: {names}" for word, names in listed.items() if names]
    if recycled := row.get("recycled"):
        items.append("Nodes recycled: " + ", ".join(f"{count} of {_short(name)}" for name, count in recycled.items()))
    if vcpus := row.get("vcpus"):
        items.append("vCPUs during the update: " + ", ".join(f"{count} {quota}" for quota, count in vcpus.items()))
    if models := row.get("models"):
        items.append(f"Models: {models}")
    yield "".join(f"- {item}\n" for item in items or ["No resource changes"])


def _short(name: str) -> str:
    return f"`{name.removeprefix('tandem-')}`"
