"""The first screen of the README: one measured claim, one price, and what pairs of models cost."""

import datetime
import re
from collections.abc import Iterable
from pathlib import Path

from sharing import tables
from sharing.modes.modes import MPS_PER_MODEL
from sharing.sections.config import StackConfig
from sharing.sections.pools import Capacity
from sharing.verdict.choices import Choice, choose
from tandem.search.base_stack import of_models
from tandem.terminal import in_range

REPORT = "docs/benchmarks/gpu-nvidia-h100-80gb-hbm3-2026-11-26.md"
WITHIN, AT_MOST = 1.0, 5.0
"""Percent: what the claim says of most settings, and of the worst one."""
PAIRS = {
    "the classic pair": ("llama2:7b", "mistral:7b"),
    "two chat models": ("qwen3.5:9b", "gemma4:e4b"),
    "answers from documents": ("qwen3.5:9b", "embeddinggemma:300m"),
    "a large one beside a small one": ("qwen3:14b", "llama3.2:3b"),
}
HOME = "us-east-1"
CAPACITIES: tuple[Capacity, ...] = ("spot", "on-demand")
"""What `tandem plan MODELS` tries, too."""
MODES = {"timeslice": "`timeslice`", "mps": "`mps`", MPS_PER_MODEL: "`mps`, `limits: per-model`"}


def price(sentence: str) -> str:
    """The price of the cheapest stack as the first reason."""
    return f"- **Pay for one GPU instead of two.** {sentence}"


def claim(root: Path) -> str:
    """What was measured on a GPU, from the report of the run."""
    text = (root / REPORT).read_text(encoding="utf-8").partition("\n## Memory\n")[2].partition("\nMedian")[0]
    errors = [abs(float(found)) for found in re.findall(r"\| ([+-]\d+\.\d) % \|$", text, re.MULTILINE)]
    near = sum(error <= WITHIN for error in errors)
    assert errors
    assert max(errors) <= AT_MOST
    return (
        f"- **Measured.** On an H100, the memory of {near} of {len(errors)} model settings was predicted within "
        f"{WITHIN:.0f} %, and of the other within {AT_MOST:.0f} %.\n"
        "  Under MPS, each of two processes was refused more than its half. [The figures](docs/benchmarks/README.md)\n"
    )


def pairs() -> list[tuple[str, ...]]:
    """What each pair costs, as `tandem plan` prints it."""
    prices = ("$ per hour, all included", "a GPU for each", "$ per month")
    head = ("models", "on one GPU, spot", "mode", *prices, "tokens/s, all busy")
    return [head, *(_row(use, models) for use, models in PAIRS.items())]


def base(models: Iterable[str]) -> StackConfig:
    """The stack with which `tandem plan MODELS` and `tandem init` begin: the cheapest cluster that works."""
    named = [{"name": name} for name in models]
    return of_models(named, HOME, {}, datetime.date.fromisoformat(tables.read("gpu_prices").date)).config


def proposed(models: Iterable[str]) -> Choice:
    """The setup that `tandem plan MODELS` shows."""
    choices = choose(base(models), CAPACITIES, every=False)
    choice = choices.fitting[choices.proposed]
    assert choice.cell.is_spot, "the heads of the tables say so"
    return choice


def nodes(choice: Choice) -> str:
    """The GPU nodes of a setup."""
    return f"{choice.cell.nodes} × {choice.cell.instance.name}"


def _row(use: str, models: tuple[str, ...]) -> tuple[str, ...]:
    choice = proposed(models)
    bill, slowest = choice.bill, choice.cell.slowest_busy
    assert slowest is not None
    names = " and ".join(f"`{name}`" for name in models)
    usd = (f"{bill.usd_per_hour:.2f}", f"{bill.dedicated_usd_per_hour:.2f}", f"{bill.usd_per_month:,.0f}")
    return (f"{use}: {names}", nodes(choice), MODES[choice.cell.way], *usd, in_range(slowest))
