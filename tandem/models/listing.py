"""`tandem models`: the catalogue, on the screen and as JSON."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import cache
from typing import Any

from sharing import tables
from sharing.fit.memory import Need, need
from sharing.hardware.gpus import Gpu, gpus, instance_types
from sharing.models.catalogue import MIB, Model, models, nearest_names, quantized, quantized_stems
from sharing.models.served import ServedModel
from sharing.problems import did_you_mean
from sharing.verdict.rules.table import NOT_LOADED
from tandem.columns import Column, print_table
from tandem.terminal import FINE, CallError, hint_at_left_out, open_console, print_json, print_line, say, short

GPU, CONTEXT = "t4", 4096
"""The setting for the list's memory: the least expensive GPU unless `--fits` names one, Ollama's context, one slot."""
GIB = 2**30
QUANT, FILES, LONGEST = "quant", "files GiB", "max context"
"""Columns that a narrow terminal lacks, the first one first: most tags name their quantization."""
LARGE_BUFFER = 0.5
"""Part of the files' size: a working buffer above it surprises, so it is explained."""
BUFFERS = (
    "+ For each token of the context, the engine keeps one value per entry of this encoder's vocabulary: 4 bytes × "
    "{vocabulary:,} × {tokens:,} tokens are {gib:.1f} GiB. A shorter `context` needs less."
)
ESTIMATED = (
    "~ The size is derived from the model's shape, or is a rounded one of Ollama's library. `--json` has its `source`, "
    "and its possible error as `weights_spread`."
)


def run(parsed: argparse.Namespace) -> int:
    """Runs the command; returns its exit code."""
    gpu = _gpu(parsed.fits) if parsed.fits else gpus()[GPU]
    listed = _matching(parsed.filter, _quantization(parsed.quant))
    if not listed:
        raise CallError(f"no model matches '{short(parsed.filter)}'. {nearest_names(parsed.filter)}")
    if parsed.fits:
        listed = [model for model in listed if loads(model) and needs(model, gpu).bound <= gpu.cuda_mib]
    if not listed:
        raise CallError(f"no such model fits on one {gpu.title} with context {CONTEXT}. Choose a larger GPU.")
    listed.sort(key=lambda model: (needs(model, gpu).total, model.name))
    if parsed.json:
        print_json(as_dict(listed, gpu))
    else:
        show(listed, gpu, fits=bool(parsed.fits))
    return FINE


def _gpu(name: str) -> Gpu:
    """The GPU with that name, or one of that instance type."""
    known = {kind.name: kind.gpu for kind in instance_types().values()} | gpus()
    usable = {each: gpu for each, gpu in known.items() if gpu.vendor == "nvidia"}
    if name.lower() not in usable:
        hint = f"{did_you_mean(name, usable)} Run `tandem gpus` for the list."
        raise CallError(f"--fits: '{short(name)}' is unknown. {hint}")
    return usable[name.lower()]


def _quantization(wanted: str) -> str:
    """The quantization as files have it; empty if none is wanted. Tags have `fp16` for `F16`."""
    known = {model.quant for model in (*models().values(), *quantized().values())}
    name = {"FP16": "F16"}.get(wanted.upper(), wanted.upper())
    if wanted and name not in known:
        raise CallError(f"--quant: '{short(wanted)}' is unknown. Write one of {', '.join(sorted(known))}.")
    return name


def _matching(text: str, quantization: str) -> list[Model]:
    """The catalogue's models with that text; with a quantization, or if there are none, also other quantizations."""
    known = [*models().values()] + (_in_other_quantizations() if quantization else [])
    text = text.lower()
    return _selected(known, text, quantization) or _selected(_in_other_quantizations(), text, quantization)


@cache
def _in_other_quantizations() -> list[Model]:
    return [replace(model, name=name) for name, model in quantized().items()]


def _selected(candidates: Iterable[Model], text: str, quantization: str) -> list[Model]:
    return [
        model
        for model in candidates
        if quantization in ("", model.quant) and (text in model.name.lower() or text in model.architecture)
    ]


def needs(model: Model, gpu: Gpu) -> Need:
    """The GPU memory of `model` in the list's setting."""
    return need(ServedModel.of(model, context=CONTEXT), gpu)


def has_large_buffer(model: Model) -> bool:
    """Whether the working buffer of `model` is large beside its files, and much of the memory that it needs."""
    buffer = needs(model, gpus()[GPU]).compute
    return buffer > LARGE_BUFFER * model.file_bytes / MIB and buffer > GIB / MIB


def loads(model: Model) -> bool:
    """Whether the pinned engine loads `model`: `tandem plan` refuses the others."""
    return model.architecture not in NOT_LOADED


def as_dict(listed: Sequence[Model], gpu: Gpu) -> dict[str, Any]:
    """The list for `--json`."""
    return {
        "schema_version": 1,
        "date": tables.read("models").date,
        "gpu": gpu.name,
        "context": CONTEXT,
        "models": [
            {
                **asdict(model),
                "quantization": model.quant,
                "needs_mib": round(needs(model, gpu).total),
                "loads": loads(model),
            }
            for model in listed
        ],
    }


def show(listed: Sequence[Model], gpu: Gpu, *, fits: bool) -> None:
    """A line for each model. A narrow terminal gets fewer columns; a pipe gets all."""
    console = open_console()
    width = None if console.is_terminal else sys.maxsize
    left_out = print_table(console, _columns(gpu), listed, (QUANT, FILES, LONGEST), width)
    console.print()
    for line in _notes(listed, gpu, fits):
        print_line(line, sys.stdout)
    hint_at_left_out(console, left_out)
    for name, others in [(model.name, text) for model in listed if (text := _other_quantizations(model))][:1]:
        say(console, f"hint: for other quantizations of {name}, run `tandem models {others}`")
    say(console, "hint: for another model, run `tandem models inspect`")


def _columns(gpu: Gpu) -> Sequence[Column[Model]]:
    """From left to right."""
    return (
        Column("model", lambda model: model.name),
        Column(QUANT, lambda model: model.quant),
        Column(FILES, lambda model: f"{model.file_bytes / GIB:.2f}", True),
        Column(LONGEST, lambda model: f"{model.max_context:,}" if model.max_context else "unknown", True),
        Column(f"GiB at {CONTEXT}", lambda model: f"{needs(model, gpu).total * MIB / GIB:.2f}", True),
        Column("", _marks),
    )


def _marks(model: Model) -> str:
    return "*" * (not loads(model)) + "+" * has_large_buffer(model) + "~" * bool(model.weights_spread)


def _other_quantizations(model: Model) -> str:
    """The text that lists this model of the catalogue in other quantizations; empty if the library has none."""
    stem = next(iter(quantized_stems().get(model.name, ())), "")
    # A text that is in a name of the catalogue lists only those.
    return f"{stem}-" if stem and any(stem in name for name in models()) else stem


def more_elsewhere() -> str:
    """By how much the memory of a model differs between GPUs: only that of CUDA does."""
    most = max(gpu.context_mib for gpu in gpus().values()) - gpus()[GPU].context_mib
    return f"up to {most * MIB / GIB:.2f} GiB more on a larger GPU"


def _notes(listed: Sequence[Model], gpu: Gpu, fits: bool) -> Iterator[str]:
    """What the marks and the last column mean."""
    if not all(map(loads, listed)):
        yield "* The pinned Ollama does not load this model."
    if large := [model for model in listed if has_large_buffer(model)]:
        entries = max(model.vocabulary for model in large)
        yield BUFFERS.format(vocabulary=entries, tokens=CONTEXT, gib=4 * entries * CONTEXT / GIB)
    if any(model.weights_spread for model in listed):
        yield ESTIMATED
    place, more = (f" on one {gpu.title}", "") if fits else ("", f"; {more_elsewhere()}")
    end = "A plan adds a margin for the error of this prediction."
    if fits:
        end = "Each of these models fits there alone, with a margin for the error of this prediction."
    yield f"Last column: GPU memory{place} with context {CONTEXT} and one slot, smallest first{more}. {end}"
