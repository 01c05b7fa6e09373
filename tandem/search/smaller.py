"""Whether smaller models would help where the price is too high, and what the stack costs without any GPU."""

from collections.abc import Collection

from sharing.cost.bill import cost
from sharing.models.catalogue import Model, models
from sharing.models.served import ServedModel
from sharing.sections.config import StackConfig
from sharing.verdict.choices import choose
from sharing.verdict.rules.budget import Limits
from tandem.search.base_stack import CAPACITIES

ALTERNATIVES = "docs/explanation/alternatives.md"
"""What to take where no GPU of an account is cheap enough."""


def fits_if_smaller(config: StackConfig, isolated: Collection[str]) -> bool:
    """Whether some setup would keep the limits if the catalogue's smallest models were in place of larger ones."""
    smallest = sorted((model for model in models().values() if not model.encoder), key=lambda model: model.file_bytes)
    pairs = zip(config.models, smallest[: len(config.models)], strict=True)
    smaller = [_smaller(served, model) for served, model in pairs]
    return bool(choose(config.changed(models=smaller), CAPACITIES, isolated=isolated, every=False).fitting)


def _smaller(served: ServedModel, model: Model) -> ServedModel:
    """The model in place of a larger one, with as much of its context as it supports."""
    if served.model.encoder or served.model.file_bytes <= model.file_bytes:
        return served
    changed = served.with_model(model)
    return changed.changed(context=changed.effective_context)


def describe_rest(config: StackConfig, limits: Limits) -> str:
    """What the stack costs without any GPU, as a sentence, where that alone is above a limit; else nothing."""
    rest = cost(config.without_gpu_nodes())
    said = "Without any GPU, this stack costs"
    if limits.usd_per_month is not None and rest.usd_per_month > limits.usd_per_month:
        return f"{said} ${rest.usd_per_month:,.0f} per month."
    if limits.usd_per_hour is not None and rest.usd_per_hour > limits.usd_per_hour:
        return f"{said} ${rest.usd_per_hour:.3f} per hour."
    return ""
