"""What hosts ask for the same models: `data/hosted_prices.csv`."""

from dataclasses import dataclass
from functools import cache

from sharing import tables
from sharing.models.catalogue import full_name


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedPrice:
    """Prices of one model at several providers, in US dollars per million output tokens."""

    model: str
    lowest: float
    highest: float
    providers: tuple[str, ...]
    """The cheapest first."""
    date: str
    """ISO date of the list."""


@cache
def _by_model() -> dict[str, HostedPrice]:
    table = tables.read("hosted_prices")
    prices: dict[str, dict[str, float]] = {}
    for row in table.rows:
        prices.setdefault(row["model"], {})[row["provider"]] = float(row["usd"])
    return {
        model: HostedPrice(
            model=model,
            lowest=min(usd.values()),
            highest=max(usd.values()),
            providers=tuple(sorted(usd, key=lambda provider: usd[provider])),
            date=table.date,
        )
        for model, usd in prices.items()
    }


def hosted_price(model: str) -> HostedPrice | None:
    """The price of a model by its Ollama tag; None if no provider of the table has it."""
    return _by_model().get(full_name(model))
