"""The screen of `tandem watch`: tables on a terminal, plain lines elsewhere."""

import datetime
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sharing.models.catalogue import MIB
from tandem.deployed.ollama import Memory
from tandem.terminal import new_table, open_console, print_line
from tandem.watch.gpus import Gpu
from tandem.watch.watch import Look, ModelLook

NARROW = 72
"""Below this many columns, a look is printed line by line."""
EVENTS_SHOWN = 5
NEVER_YEARS = 50
"""Ollama writes "never" as a date some 290 years away."""
DAY = 24 * 60 * 60
UNITS = ((120, 1, "s"), (2 * 3600, 60, "min"), (2 * DAY, 3600, "h"), (2 * 365 * DAY, DAY, "days"))
"""Seconds below which a time is counted in a unit, the unit in seconds, and its name."""
NUMBERS = ("loaded", "on GPU", "context", "tokens/s", "memory", "use")
"""Titles of columns of numbers."""
NO_SPEED = "hint: Ollama does not report throughput; pass --probe to measure tokens/s"


def live(looks: Iterable[Look]) -> None:
    """Shows each look: in place on a terminal, else as lines."""
    console = open_console()
    if not console.is_terminal:
        for look in looks:
            for line in lines(look):
                print_line(line, sys.stdout)
        return
    events: deque[str] = deque(maxlen=EVENTS_SHOWN)
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as screen:
        for look in looks:
            events += [f"{_clock(look)} {event}" for event in look.events]
            screen.update(render(look, list(events), console.width), refresh=True)


def render(look: Look, events: Sequence[str], width: int) -> RenderableType:
    """One look in a terminal of `width` columns."""
    if width < NARROW:
        return Group(*(Text(line) for line in [*lines(look, events=False), *events]))
    parts: list[RenderableType] = [Text(f"{look.stack} at {_clock(look)}", "bold"), _models(look)]
    if look.gpus:
        parts.append(_gpus(look.gpus))
    parts += [Text(line, "red") for line in (*_troubles(look), *look.trouble)]
    if _without_speed(look):
        parts.append(Text(NO_SPEED, "dim"))
    return Group(*parts, *(Text(event, "yellow") for event in events))


def _table(*titles: str) -> Table:
    table = new_table("")
    for title in titles:
        table.add_column(title, justify="right" if title in NUMBERS else "left")
    return table


def _models(look: Look) -> Table:
    table = _table("model", "loaded", "on GPU", "context", "until", "tokens/s", "pod")
    for model in look.models:
        table.add_row(Text(model.id), *map(Text, _memory(model.memory, look.at)), _speed(model), Text(model.state))
    return table


def _gpus(gpus: Sequence[Gpu]) -> Table:
    table = _table("GPU", "node", "memory", "use")
    for gpu in gpus:
        table.add_row(Text(gpu.name), Text(gpu.node), _used(gpu), _percent(gpu.busy_percent))
    return table


def lines(look: Look, *, events: bool = True) -> Iterator[str]:
    """A look as plain lines."""
    yield f"{look.stack} at {_clock(look)}"
    for model in look.models:
        loaded, on_gpu, context, until = _memory(model.memory, look.at)
        yield f"{model.id}: {model.state}"
        if model.memory:
            yield f"  {loaded}, {on_gpu} on GPU"
            yield f"  context {context}, until {until}"
        elif model.ready and not model.trouble:
            yield "  not loaded"
        if model.tokens_per_s is not None:
            yield f"  {_speed(model)} tokens/s"
    for gpu in look.gpus:
        yield f"{gpu.name} on {gpu.node}:"
        yield f"  {_used(gpu)}, use {_percent(gpu.busy_percent)}"
    yield from _troubles(look)
    yield from look.trouble
    if _without_speed(look):
        yield NO_SPEED
    if events:
        yield from look.events


def _troubles(look: Look) -> Iterator[str]:
    yield from (f"{model.id} does not answer: {model.trouble}" for model in look.models if model.trouble)
    yield from (f"{model.id} is outside MPS: {model.outside_mps}" for model in look.models if model.outside_mps)


def _without_speed(look: Look) -> bool:
    return any(model.memory for model in look.models) and not any(model.tokens_per_s for model in look.models)


def _memory(memory: Memory | None, at: datetime.datetime) -> tuple[str, str, str, str]:
    if memory is None:
        return ("–",) * 4
    part = f"{100 * memory.size_vram / memory.size:.0f} %" if memory.size else "–"
    return f"{memory.size / MIB:,.0f} MiB", part, f"{memory.context:,}", _until(memory.expires, at)


def _until(expires: str, at: datetime.datetime) -> str:
    """Time until a model is unloaded."""
    try:
        when = datetime.datetime.fromisoformat(expires)
    except ValueError:
        return "–"
    if when.tzinfo is None:
        when = when.replace(tzinfo=datetime.UTC)
    left = when - at
    if left.days > NEVER_YEARS * 365 or when.year < at.year:
        return "never"
    seconds = max(int(left.total_seconds()), 0)
    size, unit = next(((size, unit) for most, size, unit in UNITS if seconds < most), (365 * DAY, "years"))
    return f"in {seconds // size} {unit}"


def _speed(model: ModelLook) -> str:
    return "–" if model.tokens_per_s is None else f"{model.tokens_per_s:.1f}"


def _used(gpu: Gpu) -> str:
    if gpu.used_mib is None:
        return "–"
    return f"{gpu.used_mib:,.0f}{f' of {gpu.total_mib:,.0f}' if gpu.total_mib is not None else ''} MiB"


def _percent(part: float | None) -> str:
    return "–" if part is None else f"{part:.0f} %"


def _clock(look: Look) -> str:
    return look.at.astimezone().strftime("%H:%M:%S")
