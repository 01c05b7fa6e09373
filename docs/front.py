"""The first screen of the README: one measured claim, one price, and what pairs of models cost."""

import re
from pathlib import Path

from sharing.modes.modes import MPS_PER_MODEL
from sharing.stack.config import StackConfig
from sharing.verdict.matrix import Cell, cells
from tandem.columns import speed_cell

REPORT = "docs/benchmarks/gpu-nvidia-h100-80gb-hbm3-2026-11-26.md"
WITHIN, AT_MOST = 1.0, 5.0
"""Percent: what the claim says of most settings, and of the worst one."""
PAIRS = {
    "the classic pair": ("llama2:7b", "mistral:7b"),
    "two chat models": ("qwen3.5:9b", "gemma4:e4b"),
    "answers from documents": ("qwen3.5:9b", "embeddinggemma:300m"),
    "a large one beside a small one": ("qwen3:14b", "llama3.2:3b"),
}
STACK = {
    "aws:region": "us-east-1",
    "sharing": {"mode": "timeslice", "replicas": 2},
    "gpu-nodes": {"instance-types": ["g4dn.xlarge"]},
    "cluster": {"nat": "none", "system-nodes": {"count": 1}},
}
"""As `tandem init` writes it: the cheapest that works."""
SHARED = {"timeslice": "`timeslice`", "mps": "`mps`", MPS_PER_MODEL: "`mps`, `limits: per-model`"}


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
    """What each pair costs on one GPU, and with a GPU for each: the cheapest stack on spot, then the fastest."""
    head = ("models", "on one GPU, spot", "mode", "$ per hour, all included", "a GPU for each", "tokens/s, all busy")
    return [head, *(_row(use, models) for use, models in PAIRS.items())]


def cheapest_of(config: StackConfig) -> Cell:
    """The cheapest stack for these models on one kind of node, then the fastest; its GPU nodes are on spot."""
    return min(_planned(config, tuple(SHARED)), key=lambda cell: (_usd(cell), -cell.tokens_per_s))


def _row(use: str, models: tuple[str, ...]) -> tuple[str, ...]:
    config = StackConfig.model_validate({**STACK, "models": [{"name": name} for name in models]})
    best = cheapest_of(config)
    dedicated = min(map(_usd, _planned(config, ("exclusive",))))
    names = " and ".join(f"`{name}`" for name in models)
    speed = speed_cell(best.slowest_busy)
    nodes = f"{best.nodes} × {best.instance.name}"
    return (f"{use}: {names}", nodes, SHARED[best.way], f"{_usd(best):.2f}", f"{dedicated:.2f}", speed)


def _planned(config: StackConfig, ways: tuple[str, ...]) -> list[Cell]:
    return [cell for cell in cells(config, ways=ways, provisioners=["node-group"]) if cell.plans and cell.is_spot]


def _usd(cell: Cell) -> float:
    """The price of the whole stack per hour, in cents as people read it."""
    assert cell.verdict.cost is not None
    return round(cell.verdict.cost.usd_per_hour, 2)
