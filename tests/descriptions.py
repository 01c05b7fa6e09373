"""Descriptions of models that no registry has, as `gguf: FILE.json` takes them."""

import json
from pathlib import Path
from typing import Any

OWN_FILE = str(Path(__file__).parent / "own_model.json")
"""2.5 GiB, 32 layers with 8 KV heads of 128 values."""
LEAST: dict[str, Any] = {"weights_bytes": 2**31, "layers": 32, "kv_heads": 8, "head_dim": 64}
"""The numbers that every description has."""


def write_description(folder: Path, **shape: Any) -> str:
    """A file in `folder` with `LEAST` and these numbers; returns its name."""
    content = {"schema_version": 1, "model": {**LEAST, **shape}}
    (folder / "own.json").write_text(json.dumps(content), encoding="utf-8")
    return "own.json"
