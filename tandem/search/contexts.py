"""One context and number of slots for several models: each gets them as far as Ollama gives them to that model."""

from collections.abc import Iterable, Sequence
from typing import Any

from sharing.models.catalogue import find
from sharing.models.served import ServedModel
from tandem.terminal import in_words

Values = dict[str, Any]


def with_context(names: Iterable[str], context: int | None) -> list[Values]:
    """The models with that context, or with the nearest one that Ollama gives them; None for the default of each."""
    return [{"name": name, **({"context": nearest_context(name, context)} if context else {})} for name in names]


def with_slots(models: Iterable[Values], slots: int | None) -> list[Values]:
    """The models with as many parallel requests; those of which Ollama serves one at a time stay as they are."""
    return [{**model, "slots": slots} if slots and _takes(model, slots) else {**model} for model in models]


def describe_lowered(models: Sequence[Values], context: int | None, slots: int | None = None) -> str:
    """The models that have fewer tokens or slots than the user asked for, in words; empty if none has."""
    fewer = [f"{model['name']} {model['context']:,}" for model in models if context and model["context"] < context]
    said = []
    if fewer:
        said.append(f"A context of {context:,} is more than some models support; they get less: {', '.join(fewer)}.")
    one = [str(model["name"]) for model in models if slots and not _takes(model, slots)]
    if one:
        said.append(f"Ollama serves {in_words(one)} one request at a time: --slots leaves it out.")
    return " ".join(said)


def _takes(model: Values, slots: int) -> bool:
    """Whether Ollama gives the model more than one slot; yes for a model outside the catalogue."""
    known = find(str(model.get("name")))
    return known is None or ServedModel.of(known, slots=slots).effective_slots == slots


def nearest_context(name: str, context: int) -> int:
    """The longest context up to this one that Ollama gives the model; this one for a model outside the catalogue."""
    model = find(name)
    return ServedModel.of(model, context=context).effective_context if model else context
