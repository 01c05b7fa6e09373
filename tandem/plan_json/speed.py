"""The speed of a model, and the price of a million tokens, in the output of `--json`."""

from collections.abc import Callable, Iterable
from typing import Any, Literal

from sharing.speed.estimate import Estimate
from sharing.verdict.quick import Fit
from tandem.plan_json.parts import Cents, Report, Tenths, Whole, at


class SpeedReport(Report):
    """A forecast of a model's speed with its range; a measurement may replace some of its figures, or all."""

    tokens_per_s: Tenths = at("tokens_per_s.value")
    """One request, while the other models of the GPU are idle."""
    low: Tenths = at("tokens_per_s.low")
    """Nine of ten readings lie between `low` and `high`."""
    high: Tenths = at("tokens_per_s.high")
    busy_tokens_per_s: Tenths = at("busy_tokens_per_s.value")
    """One request, while each other model of the GPU works on one, too."""
    busy_low: Tenths = at("busy_tokens_per_s.low")
    busy_high: Tenths = at("busy_tokens_per_s.high")
    full_tokens_per_s: Tenths = at("full_tokens_per_s.value")
    """All slots of the model in total, while all slots of all models are in use."""
    full_low: Tenths = at("full_tokens_per_s.low")
    full_high: Tenths = at("full_tokens_per_s.high")
    first_token_ms: Whole = at("first_token_ms.value")
    """Until the first token after a prompt of 500 tokens, while the other models are idle."""
    first_token_low: Whole = at("first_token_ms.low")
    first_token_high: Whole = at("first_token_ms.high")
    basis: Literal["forecast", "measured"]
    """`measured` if at least one figure is."""


class UsdReport(Report):
    """A forecast of dollars; nine of ten readings lie between `low` and `high`."""

    value: Cents
    low: Cents
    high: Cents


class TokenPriceReport(Report):
    """Dollars of the whole stack per million output tokens, while no pool is parked. Reading prompts is left out."""

    full_load: UsdReport
    """All slots of all models in use, all the time."""
    ten_percent_load: UsdReport


def speed_fields(fits: Iterable[Fit], price_at: Callable[[float], Estimate | None]) -> dict[str, Any]:
    """Fields of a setup that a plan has, too; `price_at` has the price of a million tokens at a part of the load."""
    full, tenth = price_at(1.0), price_at(0.1)
    price = TokenPriceReport.model_validate({"full_load": full, "ten_percent_load": tenth}) if full else None
    return {
        "models": [
            {
                "name": fit.served.model.name,
                "speed": SpeedReport.model_validate(fit.speed).model_dump() if fit.speed else None,
            }
            for fit in fits
        ],
        "usd_per_million_tokens": price.model_dump() if price else None,
    }
