"""One context for several models: each gets it, or the nearest one that Ollama gives that model."""

from collections.abc import Iterable
from typing import Any

from sharing.models.catalogue import find
from sharing.models.served import ServedModel

Values = dict[str, Any]


def with_context(names: Iterable[str], context: int | None) -> list[Values]:
    """The models with that context, or with the nearest one that Ollama gives them; None for the default of each."""
    return [{"name": name, **({"context": nearest_context(name, context)} if context else {})} for name in names]


def describe_lowered(models: Iterable[Values], context: int | None) -> str:
    """The models that have fewer tokens than the user asked for, in words; empty if none has."""
    if context is None:
        return ""
    fewer = [f"{model['name']} {model['context']:,}" for model in models if model["context"] < context]
    return (
        f"A context of {context:,} is more than some models support; they get less: {', '.join(fewer)}."
        if fewer
        else ""
    )


def nearest_context(name: str, context: int) -> int:
    """The longest context up to this one that Ollama gives the model; this one for a model outside the catalogue."""
    model = find(name)
    return ServedModel.of(model, context=context).effective_context if model else context
