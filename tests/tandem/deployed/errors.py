"""Errors on the way to a deployed stack: the tables of `errors.yaml`."""

from pathlib import Path
from typing import Any

import yaml

ERRORS: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("errors.yaml").read_text(encoding="utf-8"))
