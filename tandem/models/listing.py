"""`tandem models`: the catalogue, on the screen and as JSON."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

from sharing import tables
from sharing.fit.memory import Need, need
from sharing.hardware.gpus import gpus
from sharing.models.catalogue import MIB, Model, models
from sharing.models.served import ServedModel
from sharing.problems import did_you_mean
from sharing.verdict.rules.table import NOT_LOADED
from tandem.terminal import FINE, CallError, print_json, say, short

SCHEMA_VERSION = 1
GPU, CONTEXT = "t4", 4096
"""The setting for the list's memory: the least expensive GPU, Ollama's context on it, one slot."""
GIB = 2**30
LARGE_BUFFER = 0.5
"""Part of the files' size: a working buffer above it surprises, so it is explained."""
BUFFERS = (
    "+ For each token of the context, the engine keeps one value per entry of this encoder's vocabulary. A shorter "
    "`context` needs less."
)


def run(parsed: argparse.Namespace) -> int:
    """Runs the command; returns its exit code."""
    wanted = parsed.filter.lower()
    listed = [model for model in models().values() if wanted in model.name.lower() or wanted in model.architecture]
    listed.sort(key=lambda model: (needs(model).total, model.name))
    if not listed:
        raise CallError(f"no model matches '{short(parsed.filter)}'. {did_you_mean(parsed.filter, models())}")
    if parsed.json:
        print_json(as_dict(listed))
    else:
        show(listed)
    return FINE


def needs(model: Model) -> Need:
    """The GPU memory of `model` in the list's setting."""
    return need(ServedModel.of(model, context=CONTEXT), gpus()[GPU])


def has_large_buffer(model: Model) -> bool:
    """Whether the working buffer of `model` is large beside its files, and much of the memory that it needs."""
    buffer = needs(model).compute
    return buffer > LARGE_BUFFER * (model.weights_bytes + model.projector_bytes) / MIB and buffer > GIB / MIB


@cache
def quantizations() -> dict[str, str]:
    """The quantization of each model's file, as Ollama's library names it."""
    return {row["model"]: row["quant"] for row in tables.read("models").rows}


def loads(model: Model) -> bool:
    """Whether the pinned engine loads `model`: `tandem plan` refuses the others."""
    return model.architecture not in NOT_LOADED


def as_dict(listed: Sequence[Model]) -> dict[str, Any]:
    """The list for `--json`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "date": tables.read("models").date,
        "gpu": GPU,
        "context": CONTEXT,
        "models": [
            {
                **asdict(model),
                "quantization": quantizations()[model.name],
                "needs_mib": round(needs(model).total),
                "loads": loads(model),
            }
            for model in listed
        ],
    }


def show(listed: Sequence[Model]) -> None:
    """A line for each model."""
    from rich.text import Text

    from tandem.terminal import has_room, hint_at_columns, open_console

    console = open_console()
    width = max(len("model"), *(len(model.name) for model in listed))
    head = f"{'quant':<7}{'files GiB':>9}  " if has_room(console) else ""
    head = f"{'model':<{width}}  {head}{'longest context':>15}  {f'GiB at {CONTEXT}':>11}"
    console.print(Text(head, style="bold"), soft_wrap=True)
    for model in listed:
        gib = (model.weights_bytes + model.projector_bytes) / GIB
        weights = f"{quantizations()[model.name]:<7}{gib:>9.2f}  " if has_room(console) else ""
        longest = f"{model.max_context:,}" if model.max_context else "unknown"
        line = f"{model.name:<{width}}  {weights}{longest:>15}  {needs(model).total * MIB / GIB:>11.2f}"
        marks = " *" * (not loads(model)) + " +" * has_large_buffer(model)
        console.print(Text(line + marks), soft_wrap=True)
    console.print()
    if not all(map(loads, listed)):
        console.print(Text("* The pinned Ollama does not load this model."), soft_wrap=not console.is_terminal)
    if any(map(has_large_buffer, listed)):
        console.print(Text(BUFFERS), soft_wrap=not console.is_terminal)
    setting = f"on a {gpus()[GPU].title} with context {CONTEXT} and one slot"
    said = f"Last column: GPU memory {setting}, smallest first. A plan adds a margin for the error of this prediction."
    console.print(Text(said), soft_wrap=not console.is_terminal)
    hint_at_columns(console)
    say(console, "hint: for another model, run `tandem models inspect`")
