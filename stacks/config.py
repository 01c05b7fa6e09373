"""Loads the config of a stack: from its file, or from the Pulumi that runs the program."""

import datetime
import json
from pathlib import Path
from typing import Any

from stacks.mistakes import RefusedError, read_file, read_values
from stacks.shape import SECTIONS, StackConfig

__all__ = ["RefusedError", "StackConfig", "load_file", "load_stack"]


def load_file(path: str | Path, today: datetime.date | None = None) -> StackConfig:
    """The config in the stack file at `path`.

    Raises `stacks.source.UnreadableError` when it is no YAML, `RefusedError` with every mistake when it has any.
    """
    return read_file(Path(path), today).accepted()


def load_stack() -> StackConfig:
    """The config of the stack that Pulumi is running. The only place that reads Pulumi's own config."""
    import pulumi

    config = pulumi.Config("tandem")
    sections = {key: _value(text) for key in SECTIONS if (text := config.get(key)) is not None}
    name = f"Pulumi.{pulumi.get_stack()}.yaml"
    return read_values(sections, _provider_values(), name).accepted()


def _provider_values() -> dict[str, str]:
    """Values of all `aws:` keys. `pulumi.Config` cannot list keys, and one that is overlooked would not be refused."""
    from pulumi.runtime.config import CONFIG, get_config_env

    known = {**get_config_env(), **CONFIG.get()}
    return {key: value for key, value in known.items() if key.startswith("aws:")}


def _value(text: str) -> Any:
    """Pulumi hands mappings and lists over as JSON, and text as it is: `tandem:sharing: mps` is a mistake to tell."""
    try:
        return json.loads(text)
    except ValueError:
        return text
