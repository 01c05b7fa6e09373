"""`tandem plan MODEL …`: the plan of the cheapest setup for models, without a stack file."""

import argparse
import datetime
import shlex
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sharing.aws.partitions import HOME_REGION
from sharing.hardware.offerings import regions_beside
from sharing.hardware.prices import Book
from sharing.speed.measured import Measurement
from sharing.verdict.choices import Choice, Choices, choose
from sharing.verdict.quick import judge_quickly
from sharing.verdict.rules.budget import Limits, least_per_hour, least_per_month, limits_of
from stacks.stack_file.judge import Judged, judge, stack_name
from stacks.stack_file.yaml import Source
from tandem.arguments import isolations
from tandem.columns import speed_cell
from tandem.lookup import called, require_region, stack_file
from tandem.search import base_stack
from tandem.search.base_stack import CAPACITIES, BaseStack, Values
from tandem.search.contexts import describe_lowered, with_context, with_slots
from tandem.search.hours import DAYTIME, describe_hours, hours_of, read_hours
from tandem.search.screen import describe_limits, describe_nothing
from tandem.search.smaller import ALTERNATIVES, describe_rest, fits_if_smaller
from tandem.search.unit import require_likely
from tandem.terminal import FAILED, CallError

STACK = "mine"
"""Its name while it has no file, as in `tandem init`."""
KEPT_APART = {
    "memory": "a limit",
    "hardware": "a slice",
    "own GPU": "a GPU",
}
"""What each model of such a setup has, which isolates it."""


class NothingFitsError(CallError):
    """No setup holds the models at that price."""

    exit_code = FAILED


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The cheapest setup for models, as a stack without a file."""

    base: BaseStack
    choice: Choice
    judged: Judged
    lowered: str
    """The models with a shorter context than the call said, in words; empty if none has."""
    hours: str | None
    """When GPU nodes run, as in `8-20 Europe/Paris`; None for always."""
    keep: str
    """The command of `tandem init` that writes exactly this stack."""
    limited: Choice | None = None
    """A setup at the same price that isolates the models, where this one does not."""
    written: Path | None = None

    @property
    def head(self) -> Iterator[str]:
        """What the plan below it is of."""
        limits = describe_limits(limits_of(self.base.config))
        under = f" under {limits}" * bool(limits)
        if not self.written:
            yield f"Cheapest setup in {self.base.config.region}{under}; nothing is written."
        if park := self.base.config.park:
            yield f"GPU nodes run {describe_hours(park)}."

    @property
    def beside(self) -> str:
        """The setup at the same price that isolates the models, in words; empty if there is none."""
        if self.limited is None:
            return ""
        busy = self.limited.cell.slowest_busy
        speed = f", {speed_cell(busy).partition(' ')[0]} tokens/s" if busy else ""
        doubts = "".join(f" But {doubt}." for doubt in self.limited.doubts if doubt not in self.choice.doubts)
        what = f"Same price, with {KEPT_APART[self.limited.isolation]} for each model: `--isolation memory`"
        return f"{what} ({self.limited.cell.way}{speed}).{doubts}"

    @property
    def foot(self) -> str:
        """How to keep it, or what to do with the file."""
        if self.written:
            name = called(self.written)
            deploy = f"`tandem sandbox up {name}`, or `pulumi stack init {name}`"
            return f"Next: {deploy}"
        in_project = (stack_file(STACK).parent / "Pulumi.yaml").is_file()
        return "To keep it, add `--write NAME`." if in_project else f"To keep it: {self.keep}"

    def write(self, target: Path) -> "Found":
        """The same, in a stack file."""
        from tandem.search import new_stack_file

        base = self.base.in_region(self.choice.config.region)
        return replace(self, written=new_stack_file.write(base, self.choice, target, "plan"))


def find_cheapest(
    parsed: argparse.Namespace, names: Sequence[str], book: Book | None, measured: tuple[Measurement, ...]
) -> Found:
    """The cheapest setup for models, by the arguments of the call.

    Raises `NothingFitsError` if there is none, and `CallError` for a usage error.
    """
    region = parsed.region or HOME_REGION
    require_region(region)
    hours = hours_of(parsed)
    others = read_hours(hours, region) if hours else {}
    models = with_slots(with_context(names, parsed.context), parsed.slots)
    base = _base(models, region, parsed, others)
    base = replace(base, config=base.config.under(replace(base.config.circumstances, book=book, measured=measured)))
    isolated = isolations(parsed.isolation)
    choices = choose(base.config, CAPACITIES, isolated=isolated, every=False)
    if not choices.fitting:
        rested = None if hours else _base(models, region, parsed, read_hours(DAYTIME, region))
        raise NothingFitsError(_nothing(base, choices, rested, isolated))
    require_likely(parsed.under, choices)
    choice = choices.fitting[choices.proposed]
    stack = stack_name(parsed.write) if parsed.write else STACK
    source = Source(base.sections_of(choice.config), base.provider)
    judged = judge(source, f"Pulumi.{stack}.yaml", book=book, strict=parsed.strict, measured=measured)
    said = _in_words(base) if base.config.park else None
    return Found(
        base=base,
        choice=choice,
        judged=judged,
        lowered=describe_lowered(models, parsed.context, parsed.slots),
        hours=said,
        keep=_init_command(parsed, names, region, said),
        limited=choices.limited,
    )


def _base(models: Sequence[Values], region: str, parsed: argparse.Namespace, others: Values) -> BaseStack:
    limits = parsed.under.settings if parsed.under else {}
    try:
        return base_stack.of_models(models, region, limits, datetime.date.today(), others=others)
    except CallError as error:
        names = {"name": "MODEL", "context": "--context", "slots": "--slots"}
        raise CallError(base_stack.about_arguments(str(error), names)) from None


def _in_words(base: BaseStack) -> str:
    """The hours of the section `park` that `read_hours` wrote, as it reads them."""
    park = base.sections["park"]
    begin, end = (park[key].split()[1] for key in ("wake", "schedule"))
    return f"{begin}-{end} {park['timezone']}"


def _init_command(parsed: argparse.Namespace, names: Sequence[str], region: str, hours: str | None) -> str:
    words = ["tandem", "init", STACK, "--region", region]
    words += [word for name in names for word in ("--model", name)]
    words += ["--context", f"{parsed.context}"] if parsed.context else []
    words += ["--slots", f"{parsed.slots}"] if parsed.slots else []
    words += ["--budget", f"{parsed.under.usd:g}/{parsed.under.unit}"] if parsed.under else []
    words += ["--hours", hours] if hours else []
    words += ["--isolation", parsed.isolation] if parsed.isolation else []
    return shlex.join([*words, "--yes"])


def _nothing(base: BaseStack, choices: Choices, rested: BaseStack | None, isolated: Collection[str]) -> str:
    """Why nothing fits, with the cheapest setup that does, and changes that would help.

    `rested` is the same stack with its nights off, unless they are.
    """
    if (nearest := choices.nearest) is None:
        return describe_nothing(base.config, choices)
    limits, bill = limits_of(base.config), nearest.bill
    nodes = f"{nearest.cell.nodes} × {nearest.cell.instance.name}, {nearest.cell.way}, {nearest.cell.pool.capacity}"
    if limits.usd_per_month is not None:
        price = f"${bill.usd_per_month:,.2f} per month{' with its schedule' * bool(base.config.park)}"
        enough = f"{least_per_month(bill)}/month"
    else:
        price = f"up to ${bill.replacing_usd_per_hour:.3f} per hour while its nodes are replaced"
        enough = f"{least_per_hour(bill):.2f}"
    rest = describe_rest(nearest.config, limits)
    steps = [*_nights_off(rested, isolated), *_move(base, nearest, limits)]
    if limits.usd_per_hour is not None and bill.usd_per_hour <= limits.usd_per_hour:
        steps.append(f"use --under {least_per_month(bill)}/month, which counts replacements as minutes")
    steps.append(f"raise --under to {enough}")
    if rest:
        steps.append(f"take something cheaper: {ALTERNATIVES}")
    elif fits_if_smaller(base.config, isolated):
        steps.append("use a smaller model or quantization")
    said = "; or ".join(steps)
    return (
        f"no setup in {base.config.region} fits the models under {describe_limits(limits, bill)}. "
        f"{rest}{' ' * bool(rest)}The cheapest is {nodes}: {price}. {said[0].upper()}{said[1:]}."
    )


def _nights_off(rested: BaseStack | None, isolated: Collection[str]) -> Iterator[str]:
    """No nodes at night, if that is cheap enough."""
    if rested:
        for cheapest in choose(rested.config, CAPACITIES, isolated=isolated, every=False).fitting[:1]:
            yield f"add --nights-off (${cheapest.bill.usd_per_month:,.2f} per month)"


def _move(base: BaseStack, nearest: Choice, limits: Limits) -> Iterator[str]:
    """The region where the nearest setup costs least, if that is cheap enough."""
    # Prices that were read from AWS are those of one region.
    config = nearest.config.under(replace(nearest.config.circumstances, book=None))
    bills = []
    for region in regions_beside(base.config.region):
        verdict = judge_quickly(config.changed(region=region))
        bill = verdict.cost
        if verdict.accepted and bill and not bill.unpriced and not limits.passed_by(bill):
            bills.append((bill.usd_per_month, region))
    if bills:
        usd, region = min(bills)
        yield f"use --region {region} (${usd:,.2f} per month)"
