"""Plans side by side: one stack in several sharing modes, or several stacks."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from sharing.cost.bill import Cost
from sharing.modes.modes import Sharing, mode_names
from sharing.problems import did_you_mean
from sharing.sections.changes import with_room
from sharing.sections.config import SECTIONS, StackConfig
from sharing.sections.pools import GpuPool
from sharing.speed.estimate import Estimate
from sharing.speed.forecast import Speed
from sharing.verdict.choices import isolation
from sharing.verdict.matrix import WAYS
from sharing.verdict.quick import Fit
from sharing.verdict.speed import slowest_busy, usd_per_million_tokens
from stacks.stack_file.judge import Judged
from stacks.stack_file.yaml import Source, read
from tandem.columns import NOTES, PER_MILLION, TOKENS_PER_S, Column, price_cell, print_table, speed_cell
from tandem.dry_run.program import Planned, run
from tandem.plan_json.report import report
from tandem.search.base_stack import sharing_values, without_shares
from tandem.terminal import CallError, hint_at_left_out, say, say_about


@dataclass(frozen=True, slots=True)
class Option:
    """One of the compared plans."""

    name: str
    """The mode, or the stack."""
    judged: Judged
    planned: Planned | None
    """None where it is refused."""

    @property
    def bill(self) -> Cost | None:
        """What it costs; None where it is refused."""
        return None if self.judged.refused else self.judged.verdict.cost

    @property
    def usd_per_million_tokens(self) -> Estimate | None:
        """The price of its tokens at full load; None where it is refused, or generates none."""
        return usd_per_million_tokens(self.speeds, self.bill)

    @property
    def speeds(self) -> list[Speed | None]:
        """Those of its models."""
        return [fit.speed for fit in self.judged.verdict.fits]

    @property
    def gpus(self) -> str:
        """The GPUs of its nodes by pool, e.g. `2 × T4`."""
        return ", ".join(
            f"{self._nodes(pool) * pool.smallest.gpus} × {pool.smallest.gpu.title}" for pool in self._pools
        )

    @property
    def isolation(self) -> str:
        """What keeps its models apart, by pool."""
        return ", ".join(dict.fromkeys(isolation(pool.offers[0]) for pool in self._pools))

    @property
    def shares(self) -> int:
        """Shares of all its GPUs."""
        return sum(self._nodes(pool) * pool.shares_per_node for pool in self._pools)

    @property
    def _pools(self) -> list[GpuPool]:
        return self.judged.config.pools

    def _nodes(self, pool: GpuPool) -> int:
        """Nodes that run; of a parked pool, those that it would have."""
        return self.judged.config.nodes_of(pool) or pool.planned_nodes

    @property
    def tightest(self) -> float:
        """The smallest part of its memory that any model has left."""
        return min(map(_room, self.judged.verdict.fits))


def _room(fit: Fit) -> float:
    placement = fit.placement
    return placement.room / (placement.unit_mib if placement.share_mib is None else placement.share_mib)


Judge = Callable[[Source, str], Judged]
"""Judges the values of a stack file, at the prices that the user chose; the text is the file's name."""


def compare_stacks(paths: Sequence[Path], judge: Judge) -> list[Option]:
    """The plans of several stack files."""
    stacks = [judge(read(path, SECTIONS), path.name) for path in paths]
    return [_plan(judged.stack, judged) for judged in stacks]


def compare_modes(path: Path, names: Sequence[str], judge: Judge) -> list[Option]:
    """The plans of a stack file in several sharing modes, on as many nodes as each needs.

    Raises `CallError` if the file has a list of pools.
    """
    source = read(path, SECTIONS)
    judged = judge(source, path.name)
    pools = judged.config.pools
    if len(pools) > 1 or pools[0].listed:
        raise CallError(f"{path.name} has a list of pools, each with its own mode. Compare stack files instead.")
    if not pools[0].known_types:
        judged.plan()  # which says that the instance types are unknown
    return [_plan(name, _in_mode(source, judged, name, judge)) for name in names]


def read_modes(text: str) -> list[str]:
    """The names of sharing modes, with commas between; raises `CallError` for an unknown one."""
    modes = list(dict.fromkeys((*mode_names(), *WAYS)))
    names = list(dict.fromkeys(part.strip() for part in text.split(",")))
    for name in names:
        if name not in modes:
            raise CallError(f"unknown sharing mode '{name}'. {did_you_mean(name, modes)}")
    return names


def _plan(name: str, judged: Judged) -> Option:
    return Option(name, judged, None if judged.refused else run(judged.plan()))


def _in_mode(source: Source, own: Judged, name: str, judge: Judge) -> Judged:
    """The stack in that mode: as in the file if it is the file's own, else with settings that hold the models."""
    if name in _names_of(own.config.pools[0].sharing):
        return own
    first: Judged | None = None
    for trial in _trials(source, own.config, name):
        judged = judge(trial, own.name)
        if not judged.refused:
            return judged
        first = first or judged
    assert first is not None, "each mode has settings to try"
    return first


def _names_of(sharing: Sharing) -> set[str]:
    """How the user may name the mode of these settings: `mps` is that with equal limits, `mig` any strategy."""
    return {sharing.way} if sharing.mode in WAYS else {sharing.way, sharing.mode}


def _trials(source: Source, config: StackConfig, name: str) -> Iterator[Source]:
    """The stack file with each setting of a mode that may hold its models, the fewest nodes first."""
    [pool] = config.pools
    models = tuple(config.models)
    written = source.sections.get("gpu-nodes")
    for way in WAYS:
        if way == name or (name not in WAYS and way.startswith(f"{name}-")):
            for sharing in WAYS[way](models, pool.smallest):
                needed = with_room(pool.changed(own_sharing=sharing, max=1), config)
                counts = {"max": needed.max, "volume-gib": needed.volume_gib}
                if config.park is None:
                    counts |= {"min": 0, "desired": needed.desired}
                nodes = {**(written if isinstance(written, dict) else {}), **counts}
                own: dict[str, Any] = {"sharing": sharing_values(sharing), "gpu-nodes": nodes}
                if not sharing.needs_node_daemon:
                    own["models"] = without_shares(source.sections["models"])
                yield replace(source, sections={**source.sections, **own})


def _compared(options: Sequence[Option]) -> list[Option]:
    """The accepted ones; parked stacks only if all are parked."""
    accepted = [option for option in options if option.planned]
    return [option for option in accepted if option.judged.config.active_pools] or accepted


def cheapest(options: Sequence[Option]) -> list[Option]:
    """Those that cost the least, parked stacks only if all are parked; none if all are refused."""
    compared = _compared(options)
    prices = [round(option.bill.usd_per_month, 4) if option.bill else 0.0 for option in compared]
    return [option for option, usd in zip(compared, prices, strict=True) if usd == min(prices)]


def _cheaper_per_token(options: Sequence[Option], best: Sequence[Option], per: str) -> str:
    """Says which option is cheapest per token, if it is none of `best`."""
    usd = [(usd, option) for option in _compared(options) if (usd := option.usd_per_million_tokens)]
    if not usd:
        return ""
    least, option = min(usd, key=lambda pair: pair[0].value)
    if any(least.value == usd_of.value for each in best if (usd_of := each.usd_per_million_tokens)):
        return ""
    return f"cheapest: per {per}; per output token: {option.name}, ${price_cell(least)} per million."


def as_dict(options: Sequence[Option]) -> dict[str, Any]:
    """The comparison as `--json` prints it: each plan as `tandem plan --json` does, without its resources."""
    best = cheapest(options)
    return {
        "schema_version": 1,
        "options": [
            {
                "name": option.name,
                "cheapest": option in best,
                "isolation": None if option.judged.refused else option.isolation,
                "plan": {**report(option.judged, option.planned).model_dump(), "resources": []},
            }
            for option in options
        ],
    }


def show(console: Console, title: str, options: Sequence[Option]) -> None:
    """The table and the reasons."""
    best = cheapest(options)
    has_schedule = any(option.bill and option.bill.week for option in options)
    say(console, title, "bold")
    columns = [column for column in COLUMNS if has_schedule or column is not MONTH]
    columns.append(Column("", lambda option: "cheapest" * (option in best)))
    left_out = print_table(console, columns, options, LEAST)
    hint_at_left_out(console, left_out)
    if priced := [option.bill for option in options if option.bill]:
        most = ", with its most expensive instance types" * any(
            bill.cheapest_usd_per_hour < bill.usd_per_hour for bill in priced
        )
        origins = "; ".join(dict.fromkeys(bill.price_origin for bill in priced))
        say_about(console, "$", f" is the whole stack{most}. {origins}.")
        notes = [note for head, note in NOTES.items() if head not in left_out]
        if notes and any(any(option.speeds) for option in options):
            say(console, f"{'; '.join(notes)}.")
        if note := _cheaper_per_token(options, best, "month" if has_schedule else "hour"):
            say(console, note)
    for option in options:
        for problem in option.judged.problems:
            say_about(console, f"{option.name}:", f" {problem}", "red")
        for warning in option.judged.verdict.warnings:
            if option.planned and warning.path.endswith("sharing.mode"):
                say_about(console, f"{option.name}:", f" {warning}", "yellow")


def _ready(option: Option) -> str:
    """How long until its models answer."""
    if option.planned and option.planned.starts_models:
        return f"{option.planned.startup.minutes:.0f} min"
    return "on request" if option.judged.config.active_pools else "parked"


def _column(head: str, cell: Callable[[Option], str], to_the_right: bool = False) -> Column[Option]:
    """A column of accepted plans: it is empty where one is refused."""
    return Column(head, lambda option: cell(option) if option.bill else "", to_the_right)


MONTH = _column("$/month", lambda option: f"{option.bill.usd_per_month:.2f}" if option.bill else "", True)
COLUMNS: tuple[Column[Option], ...] = (
    Column("", lambda option: option.name),
    Column("$/hour", lambda option: f"{option.bill.usd_per_hour:.3f}" if option.bill else "refused", True),
    MONTH,
    _column(TOKENS_PER_S, lambda option: speed_cell(slowest_busy(option.speeds)), True),
    _column(PER_MILLION, lambda option: price_cell(option.usd_per_million_tokens), True),
    _column("ready in", _ready, True),
    _column("isolation", lambda option: option.isolation),
    _column("shares", lambda option: f"{option.shares}", True),
    _column("margin", lambda option: f"{option.tightest:.0%}", True),
    _column("GPUs", lambda option: option.gpus),
)
"""From left to right."""
LEAST = ("shares", "margin", "ready in", PER_MILLION, "isolation", TOKENS_PER_S)
"""What a narrow terminal lacks first."""
