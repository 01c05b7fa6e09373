"""A model of a stack file: keys that conflict with each other, and the keys that describe a custom model."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from sharing.models.catalogue import Model
from sharing.models.served import DECIMALS, GIB, OWN_KEYS, OWN_NUMBERS, ServedModel
from sharing.problems import ASIDE, LIMIT, Problem
from sharing.section import kebab

BOTH_WAYS = (("swa-layers", "swa-window"), ("recurrent-layers", "recurrent-state-bytes"), ("experts", "experts-used"))
"""Pairs of keys that need each other."""
NEEDS = (("swa-kv-heads", "swa-layers"), ("swa-head-dim", "swa-layers"))
"""Keys that need another one."""
KINDS_OF_LAYERS = ("swa-layers", "shared-kv-layers", "recurrent-layers")
"""Layers of these kinds exclude each other; the rest keep keys and values of every token."""
AT_MOST = (("kv-heads", "heads"), ("swa-kv-heads", "heads"), ("experts-used", "experts"), ("swa-window", "max-context"))


def own_keys(model: Model) -> dict[str, object]:
    """The keys of a custom model that describe `model`; raises `ValueError` if they cannot."""
    known = {kebab(name): value for name, value in asdict(model).items() if value}
    own: dict[str, object] = {key: known[key] for key in OWN_KEYS if key in known}
    own = {"weights-gib": round(model.weights_bytes / GIB, DECIMALS), **own}
    settings = ServedModel.model_validate({"name": model.name, **own})
    for problem in judge_served(settings, "the model"):
        raise ValueError(str(problem))
    return own


def judge_served(served: ServedModel, path: str) -> Iterator[Problem]:
    """Finds keys that are valid alone but conflict with each other; `path` is that of the model."""
    yield from _judge_batch(served, path)
    own = served.own_numbers
    if own and (missing := [key for key in OWN_NUMBERS if key not in own]):
        rule = "a custom model needs " + ", ".join(OWN_NUMBERS)
        yield Problem(path, ", ".join(own), rule, f"Add {', '.join(missing)}.", ASIDE)
        return
    for key, needed in (*NEEDS, *(turned for pair in BOTH_WAYS for turned in (pair, pair[::-1]))):
        if own.get(key) and not own.get(needed):
            yield Problem(f"{path}.{key}", str(own[key]), f"has no effect without `{needed}`", f"Add `{needed}`.")
    kinds = {key: own[key] for key in KINDS_OF_LAYERS if own.get(key)}
    if sum(kinds.values()) > own.get("layers", 0):
        rule = f"is less than the sum of {' and '.join(f'{count} {key}' for key, count in kinds.items())}"
        yield Problem(f"{path}.layers", str(own["layers"]), rule, "Count every layer once.")
    for smaller, larger in AT_MOST:
        if own.get(smaller) and own.get(larger) and own[smaller] > own[larger]:
            rule = f"must be at most {own[larger]} (`{larger}`)"
            yield Problem(f"{path}.{smaller}", str(own[smaller]), rule, f"Write {own[larger]} or less.", LIMIT)
    yield from _judge_embedding(path, own)


def _judge_batch(served: ServedModel, path: str) -> Iterator[Problem]:
    """Ollama cuts a text that an embedding model cannot take in one step."""
    model = served.find_model()
    if model and model.encoder and served.batch:
        least = min(served.context, model.max_context or served.context)
        if served.batch < least:
            rule = f"must be at least {least} for an embedding model"
            yield Problem(f"{path}.batch", str(served.batch), rule, "Remove `batch`.", LIMIT)


def _judge_embedding(path: str, own: dict[str, Any]) -> Iterator[Problem]:
    embedding = own.get("embedding-bytes", 0)
    most = round(own["weights-gib"] * GIB) if own else 0
    if embedding > most:
        rule = f"is more than the {most:,} bytes of `weights-gib`"
        yield Problem(f"{path}.embedding-bytes", f"{embedding:,}", rule, "Correct one of the two.")
