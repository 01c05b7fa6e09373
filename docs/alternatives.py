"""What a stack of your own costs beside hosts of the same models: the table of the page about alternatives."""

from front import MODES, nodes, proposed

from sharing.cost.bill import node_usd
from sharing.cost.hosted import HostedPrice, hosted_price
from tandem.terminal import in_range

PAIRS = (
    ("mistral:7b", "llama3.1:8b"),
    ("qwen3:8b", "gemma3:4b"),
    ("qwen3:14b", "gemma3:4b"),
    ("gpt-oss:20b", "qwen3:8b"),
)
"""Pairs of which both models have a host in the list."""
LOADS = (1.0, 0.1)


def rows() -> list[tuple[str, ...]]:
    """The price of a million output tokens: of the stack at two loads, and of the hosts."""
    heads = (f"your stack at {load:.0%} load".replace("%", " %") for load in LOADS)
    return [("models", "GPU nodes, spot", "mode", "$ per month", *heads, "hosted"), *map(_row, PAIRS)]


def _row(models: tuple[str, ...]) -> tuple[str, ...]:
    choice = proposed(models)
    prices = [choice.usd_per_million_tokens(load) for load in LOADS]
    own = [f"${in_range(price, 2)}" for price in prices if price]
    hosted = [price for price in map(hosted_price, models) if price]
    assert len(own) == len(LOADS)
    assert len(hosted) == len(models)
    names = " and ".join(f"`{name}`" for name in models)
    setup = (nodes(choice), MODES[choice.cell.way], f"{choice.bill.usd_per_month:,.0f}")
    return (names, *setup, *own, ", ".join(map(_range, hosted)))


def _range(price: HostedPrice) -> str:
    return f"${price.lowest:.2f}–{price.highest:.2f}"


def machine() -> str:
    """The price of one virtual machine for the first pair, with its disk and its address."""
    choice = proposed(PAIRS[0])
    alone, stack = node_usd(choice.cell.pool, choice.config), choice.bill.usd_per_hour
    return (
        f"With its disk and address, a {choice.cell.instance.name} on spot in us-east-1 costs ${alone:.2f} per hour. "
        f"The cheapest stack with it costs\n${stack:.2f}.\n"
    )


def source() -> str:
    """Where the prices of the hosts are from."""
    [date] = {price.date for models in PAIRS for name in models if (price := hosted_price(name))}
    return (
        f"Hosts: lowest and highest price in the list of litellm of {date}, on demand. "
        "Stacks: one slot for each model.\n"
    )
