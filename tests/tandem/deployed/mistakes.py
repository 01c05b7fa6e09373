"""What may be wrong on the way to a stack: the tables of `mistakes.yaml`."""

from pathlib import Path
from typing import Any

import yaml

MISTAKES: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("mistakes.yaml").read_text(encoding="utf-8"))
