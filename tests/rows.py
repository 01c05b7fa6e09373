"""Tables of figures and cases beside the tests."""

import csv
from pathlib import Path
from typing import Any

import yaml


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, by its head. Lines that begin with `#` name the sources of its figures."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def read_yaml(path: Path) -> Any:
    """What a YAML file says. The reader in C takes a tenth of the time."""
    return yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
