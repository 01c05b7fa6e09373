"""What a stack of your own costs beside hosts of the same models: the table of the page about alternatives."""

from front import STACK, cheapest_of

from sharing.cost.bill import node_usd
from sharing.cost.hosted import HostedPrice, hosted_price
from sharing.stack.config import StackConfig
from sharing.verdict.speed import usd_per_million_tokens

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
    return [("models", "GPU nodes, spot", "$ per month", *heads, "hosted"), *map(_row, PAIRS)]


def _row(models: tuple[str, ...]) -> tuple[str, ...]:
    cell = cheapest_of(StackConfig.model_validate({**STACK, "models": [{"name": name} for name in models]}))
    bill = cell.verdict.cost
    assert bill is not None
    prices = [usd_per_million_tokens(cell.speeds, bill, load) for load in LOADS]
    own = [f"${price.value:,.2f}" for price in prices if price]
    hosted = [price for price in map(hosted_price, models) if price]
    assert len(own) == len(LOADS)
    assert len(hosted) == len(models)
    names = " and ".join(f"`{name}`" for name in models)
    nodes = f"{cell.nodes} × {cell.instance.name}"
    return (names, nodes, f"{bill.usd_per_month:,.0f}", *own, ", ".join(map(_range, hosted)))


def _range(price: HostedPrice) -> str:
    return f"${price.lowest:.2f}–{price.highest:.2f}"


def machine() -> str:
    """The price of one virtual machine for the first pair, with its disk and its address."""
    config = StackConfig.model_validate({**STACK, "models": [{"name": name} for name in PAIRS[0]]})
    cell = cheapest_of(config)
    assert cell.verdict.cost is not None
    alone, stack = node_usd(cell.pool, cell.config), cell.verdict.cost.usd_per_hour
    return (
        f"With its disk and address, a {cell.instance.name} on spot in us-east-1 costs ${alone:.2f} per hour. "
        f"The cheapest stack with it costs\n${stack:.2f}.\n"
    )


def source() -> str:
    """Where the prices of the hosts are from."""
    [date] = {price.date for models in PAIRS for name in models if (price := hosted_price(name))}
    return (
        f"Hosts: lowest and highest price in the list of litellm of {date}, on demand. "
        "Stacks: one slot for each model.\n"
    )
