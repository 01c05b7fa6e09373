"""The page of the components: each argument with its type, its default, its unit and its meaning."""

import json
import sys
from pathlib import Path
from typing import Any

import pulumi

import tandem

sys.path.append(str(Path(__file__).resolve().parent.parent))  # `plugin` is no part of the wheel

from plugin.arguments import NOTHING, Argument, Kind, read_arguments, read_kind
from plugin.names import read_public
from sharing.modes.base import UNUSED

HEAD = """# Components

Import the components from `tandem`. [Your own program](../tutorials/own-program.md) shows them at work.
Where the type says *or an output*, you can pass an output of another resource. All other arguments are plain values,
because they decide which resources exist. [Other languages](../how-to/use-from-typescript-or-yaml.md) have the same
arguments in camelCase, e.g. `nodeSubnetIds`.

Pass the arguments of a component as an instance of its class `…Args`, as a dictionary, or by name, and nested ones as
dictionaries or instances: [check your own program](../how-to/check-your-own-program.md#pass-arguments-by-name).
"""
SECTIONS = {
    "Cluster": ("GpuCluster", "ExistingVpc", "ExistingCluster"),
    "GPU nodes": ("SpotGpuNodeGroup", "KarpenterGpuPool", "KarpenterPool"),
    "Sharing": ("DevicePluginSharing", "PoolSharing", "ShareProof"),
    "Parking and scaling": ("ScheduledParking", "ParkedNodeGroup", "ScaleToZero", "Scaling"),
    "Models": ("OllamaPair", "OllamaModel", "Share", "ModelClients"),
    "Metrics": ("Monitoring", "MonitoredPool"),
    "Web page": ("OpenWebUI",),
    "Batch jobs": ("SpotJob", "BucketCheckpoints", "VolumeCheckpoints"),
    "Cost": ("CostAlert",),
    "Sharing modes": ("Exclusive", "TimeSlicing", "Mps", "Mig", "Slices"),
}
"""The public classes in the order of the page. A component's arguments follow it."""
FUNCTIONS = {
    "Registries": ("components.pull_from",),
    "Other models": ("tandem.find_model",),
    "The verdict for tests": ("tandem.check", "tandem.Verdict", "tandem.ModelMemory"),
}
"""What a program calls, and what it gets, by heading."""
OUTPUT = ", or an output"
WORDS = {"text": "text", "integer": "whole number", "number": "number", "truth": "`True` or `False`", "any": "anything"}


def document() -> str:
    """The text of the page."""
    parts = [HEAD]
    for heading, names in SECTIONS.items():
        parts.append(f"\n## {heading}\n")
        for name in names:
            made = getattr(tandem, name)
            if issubclass(made, pulumi.ComponentResource):
                parts.append(f"\n::: components.{name}\n")
                name, made = f"{name}Args", getattr(tandem, f"{name}Args")
            parts.append(_of_arguments(name, made))
    for heading, names in FUNCTIONS.items():
        parts.append(f"\n## {heading}\n" + "".join(f"\n::: {name}\n" for name in names))
    return "".join(parts)


def _of_arguments(name: str, made: type) -> str:
    home = "components" if name in read_public() else "tandem"
    # The table has the attributes.
    rows = table(made)
    lines = [rows[0], ("---",) * len(rows[0]), *rows[1:]]
    shown = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return f"\n::: {home}.{name}\n    options: {{members: false}}\n\n{shown}"


def table(made: type) -> list[tuple[str, ...]]:
    """A row for each argument of a class."""
    rows: list[tuple[str, ...]] = [("argument", "type", "default", "meaning")]
    for argument in read_arguments(made):
        if argument.meaning != UNUSED:
            meaning = " ".join(argument.meaning.split()).replace("|", "\\|")
            rows.append((f"`{argument.name}`", show_type(argument.hint), _default(argument), meaning))
    return rows


def _default(argument: Argument) -> str:
    if argument.is_required:
        return "**required**"
    value = argument.default
    is_plain = isinstance(value, str | int | float | list | tuple | dict) and not isinstance(value, bool)
    return f"`{json.dumps(value) if is_plain else repr(value)}`"


def show_type(hint: Any) -> str:
    """A type in words."""
    kind = read_kind(hint)
    shown = _show(kind)
    return f"{shown.replace(OUTPUT, '')}{OUTPUT}" if kind.is_input else shown


def _show(kind: Kind) -> str:
    match kind.name:
        case "choice":
            return " or ".join(f'`"{value}"`' for value in kind.parts)
        case "list":
            return f"list of {show_type(kind.parts[0])}"
        case "map":
            return f"mapping of text to {show_type(kind.parts[0])}"
        case "object":
            return f"`{kind.parts[0].__name__}`"
        case "either":
            return " or ".join(map(show_type, kind.parts))
        case "mode":
            return "[sharing mode](#sharing-modes)"
    return "resource" if kind == NOTHING else WORDS[kind.name]
