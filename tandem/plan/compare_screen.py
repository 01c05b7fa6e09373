"""Plans side by side for people: a row for each, the cheapest marked, then refusals and warnings about modes."""

from collections.abc import Sequence

from rich.console import Console

from tandem.plan.compare import Option, cheapest
from tandem.terminal import has_room, hint_at_columns, line, say

HEAD = ("", "$/hour", "$/month", "ready in", "isolation", "shares", "margin", "GPUs")
LESS_IMPORTANT = ("isolation", "margin")
"""Columns that a narrow terminal does not get."""
TO_THE_RIGHT = ("$/hour", "$/month", "ready in", "shares", "margin")


def show(console: Console, title: str, options: Sequence[Option]) -> None:
    """The table and the reasons."""
    hidden: tuple[str, ...] = () if has_room(console) else LESS_IMPORTANT
    if not any(option.bill and option.bill.week for option in options):
        hidden += ("$/month",)
    shown = [at for at, name in enumerate(HEAD) if name not in hidden]
    rows = [tuple(row[at] for at in shown) for row in (HEAD, *map(_row, options))]
    head = rows[0]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    best = cheapest(options)
    line(console, title, "bold")
    for row, option in zip(rows, [None, *options], strict=True):
        cells = [
            f"{cell:>{width}}" if name in TO_THE_RIGHT else f"{cell:<{width}}"
            for name, cell, width in zip(head[:-1], row, widths, strict=False)
        ]
        is_best = option in best
        line(
            console,
            "  ".join([*cells, row[-1], "cheapest" * is_best]),
            "green" if is_best else "" if option else "bold",
        )
    hint_at_columns(console)
    if priced := [option.bill for option in options if option.bill]:
        most = ", with its most expensive instance types" * any(
            bill.cheapest_usd_per_hour < bill.usd_per_hour for bill in priced
        )
        origins = "; ".join(dict.fromkeys(bill.price_origin for bill in priced))
        say(console, 0, "$", f"is the whole stack{most}. {origins}.", "bold")
    for option in options:
        for problem in option.judged.problems:
            say(console, 0, f"{option.name}:", str(problem), "red")
        for warning in option.judged.warnings:
            if option.planned and warning.path.endswith("sharing.mode"):
                say(console, 0, f"{option.name}:", str(warning), "yellow")


def _row(option: Option) -> tuple[str, ...]:
    if option.bill is None or option.planned is None:
        return option.name, "refused", *("" for _ in HEAD[2:])
    later = "on request" if option.judged.config.awake else "parked"
    ready = f"{option.planned.startup.minutes:.0f} min" if option.planned.starts_models else later
    usd = f"{option.bill.usd_per_hour:.3f}"
    month = f"{option.bill.usd_per_month:.2f}"
    return option.name, usd, month, ready, option.isolation, str(option.shares), f"{option.tightest:.0%}", option.gpus
