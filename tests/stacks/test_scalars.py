"""Values written by `pulumi config set` mean the same as values written by hand.

Source: pulumi 3.260, sdk/go/common/resource/config/object.go and value.go; `tests/engine/test_config_set.py` runs it.
"""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from stacks.stack_file.judge import judge, judge_file
from stacks.stack_file.schema import stack_schema
from stacks.stack_file.yaml import Source, decode
from tests.stacks.scalars import at, scalars

KEYS = scalars()
CUSTOM = {
    "name": "mine",
    "weights-gib": 1.0,
    "layers": 20,
    "kv-heads": 1,
    "head-dim": 64,
    "swa-layers": 1,
    "swa-window": 1,
    "recurrent-layers": 1,
    "recurrent-state-bytes": 1,
    "experts": 1,
    "experts-used": 1,
}
"""A custom model whose keys fit each other, also after one of them has changed."""


def as_pulumi_writes(path: str, value: bool | int | float) -> object:
    """Top-level values are text. Below, integers and booleans are not text, but 1.5 is."""
    is_text = "." not in path or isinstance(value, float)
    return yaml.safe_dump(value).splitlines()[0] if is_text else value


def changed(path: str, value: object) -> dict[str, Any]:
    """The values of a small stack file, with this one changed."""
    config: dict[str, Any] = {
        "sharing": {"mode": "timeslice"},
        "gpu-nodes": {"provisioner": "karpenter", "max": 3},
        "models": [dict(CUSTOM)],
        "cluster": {"system-nodes": {}},
        "ui": {"admin-email": "ops@example.com"},
        "monitoring": {},
        "scale-to-zero": {},
        "budget": {"alert": {"max-usd": 1000, "emails": ["ops@example.com"]}},
    }
    above, _, key = path.rpartition(".")
    (at(config, above) if above else config)[key] = value
    return config


@pytest.mark.parametrize("path", KEYS)
def test_a_value_written_by_pulumi_is_read(path: str, tmp_path: Path) -> None:
    value = KEYS[path]
    sections = changed(path, as_pulumi_writes(path, value))
    document = {"config": {"aws:region": "us-east-1", **{f"tandem:{key}": each for key, each in sections.items()}}}
    file = tmp_path / "Pulumi.mine.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    assert at(judge_file(file).config, path) == value
    jsonschema.validate(document, stack_schema())
    # `pulumi up` hands the same file to the program as JSON text.
    passed = {key: decode(each if isinstance(each, str) else json.dumps(each)) for key, each in sections.items()}
    assert at(judge(Source(passed, {"aws:region": "us-east-1"}), "mine").config, path) == value


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "mps", "1.5.2", ""])
def test_text_that_is_not_json_stays_text(text: str) -> None:
    assert decode(text) == text
