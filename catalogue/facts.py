"""The facts, as their sources state them: shapes of models, tags of Ollama's library, names of the same files."""

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FACTS = Path(__file__).parent / "facts"
UNITS = {"MB": 10**6, "GB": 10**9, "TB": 10**12}


@dataclass(frozen=True, slots=True)
class Shape:
    """The configuration of a model. The names are those of a GGUF header, so `facts["block_count"]`."""

    name: str
    facts: Mapping[str, Any]

    @property
    def architecture(self) -> str:
        return str(self.facts["architecture"])

    @property
    def source(self) -> str:
        return str(self.facts["source"])

    def number(self, key: str, default: int | None = None) -> int:
        """One fact; raises `KeyError` if it is missing and has no default."""
        if default is not None and key not in self.facts:
            return default
        return int(self.facts[key])


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """One tag of Ollama's library."""

    name: str
    shape: Shape
    quantization: str
    exceptions: Mapping[str, str]
    """Tensors for which the file differs from the quantization's rules, e.g. `attn_v=F16`."""
    digest: str
    """First twelve digits of its manifest."""
    listed_size: str
    """Size on the library's page, e.g. `4.9GB`."""
    model_bytes: int | None
    """Size of the model's file; None if only the rounded size is known."""
    projector_bytes: int
    """Size of a projector in its own file."""
    known: str
    """`exact`: the size of this file; `derived`: that of a similar file; empty if there is none."""
    source: str

    @property
    def listed_bytes(self) -> int:
        return round(float(self.listed_size[:-2]) * UNITS[self.listed_size[-2:]])

    @property
    def listed_spread(self) -> int:
        """The possible error of the listed size: half of its last digit."""
        decimals = len(self.listed_size[:-2].partition(".")[2])
        return int(UNITS[self.listed_size[-2:]] // (2 * 10**decimals))


@cache
def shapes() -> dict[str, Shape]:
    """Every shape by its name."""
    read = json.loads((FACTS / "shapes.json").read_text(encoding="utf-8"))
    return {name: Shape(name, facts) for name, facts in read.items()}


@cache
def tags() -> dict[str, Tag]:
    """Every tag of the catalogue by its name."""
    return {
        row["tag"]: Tag(
            name=row["tag"],
            shape=shapes()[row["shape"]],
            quantization=row["quantization"],
            exceptions=dict(pair.split("=") for pair in row["exceptions"].split(",") if pair),
            digest=row["digest"],
            listed_size=row["listed_size"],
            model_bytes=int(row["model_bytes"]) if row["model_bytes"] else None,
            projector_bytes=int(row["projector_bytes"] or 0),
            known=row["known"],
            source=row["source"],
        )
        for row in rows("tags.csv")
    }


@cache
def registry() -> dict[str, str]:
    """The digest that each name of the library stands for."""
    return {row["name"]: row["digest"] for row in rows("registry.csv")}


@cache
def sources() -> dict[str, dict[str, str]]:
    """The sources behind the short names, each with its date."""
    read: dict[str, dict[str, str]] = json.loads((FACTS / "sources.json").read_text(encoding="utf-8"))
    return read


def rows(name: str) -> list[dict[str, str]]:
    """The rows of one file of facts."""
    with (FACTS / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
