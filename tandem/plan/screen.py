"""A plan for people, on one screen: verdict and price, memory of each GPU, cost, startup. `details` has the rest."""

import re
from collections.abc import Iterator, Sequence

from rich.console import Console

from sharing.cost.bill import Cost, Line, gpu_nodes
from sharing.cost.hosted import hosted_price
from sharing.fit.shares import place_guests
from sharing.hardware.prices import FRESH_DAYS
from sharing.hardware.spot_risk import reclaimed_part, spot_risks
from sharing.models.importance import NORMAL, PRIORITIES
from sharing.models.served import ServedModel
from sharing.printable import counted
from sharing.sections.config import StackConfig
from sharing.sections.pools import GpuPool
from sharing.sections.startup import after_a_reclaim
from sharing.speed.estimate import Estimate
from sharing.speed.forecast import PROMPT_TOKENS, Speed
from sharing.verdict.features import features_of
from sharing.verdict.full import Fit
from sharing.verdict.rules.budget import limits_of
from sharing.verdict.speed import usd_per_million_tokens
from stacks.stack_file.judge import Plan
from tandem.dry_run.program import Planned
from tandem.dry_run.startup import name_stages
from tandem.search.base_stack import models_of
from tandem.terminal import KEPT_SPACE, hint_at_left_out, in_range, in_words, print_rows, say, say_about

TITLES = {
    "exclusive": "one model per GPU",
    "timeslice": "time-slicing",
    "mps": "MPS",
    "mps-per-model": "MPS with limits per model",
    "mig-single": "MIG",
    "mig-mixed": "MIG",
}
"""Names of the sharing modes within a sentence, by `Mode.way`."""
BAR = 24
"""Characters of a bar that stands for an entire GPU."""
MODEL_HEAD = ("", "GiB", "context", "tokens/s", "all busy", f"{PROMPT_TOKENS}-token prompt")
"""Of the row of a model: memory, then one request alone, each model busy, and the first token after that prompt."""
SHORT_HEAD = "prompt"
"""Of its last column, where there is no room for the whole head and for ranges."""
MEASURED = "*"
"""Stands behind each figure that is not a forecast."""
RANGE = re.compile(r" \(.*\)")
FILLS, FREE = "█▓", "░"
"""Neighbouring models fill their parts of a bar with different characters."""


def show(console: Console, plan: Plan, planned: Planned, *, is_up: bool, more: str, named: bool = True) -> None:
    """Prints the plan of an accepted stack; `more` ends the screen. A stack without a file is not `named`.

    For a deployed stack (`is_up`) the startup time is left out: the switch shows how long the change takes.
    """
    starts = not is_up and planned.starts_models
    _verdict(console, plan, named=named)
    ready = f"ready in about {counted(round(planned.startup.minutes), 'minute')}".replace(" ", KEPT_SPACE)
    _price(console, plan, f"; {ready}" if starts else "")
    for pool in plan.config.pools:
        _memory(console, plan.config, pool, [fit for fit in plan.verdict.fits if fit.pool == pool])
    _token_price(console, plan)
    _placement(console, plan.config)
    _cost(console, plan.config, bill_of(plan))
    if named:  # else the line above the plan has the limits
        _budget(console, plan.config, bill_of(plan))
    _network(console, plan.config)
    _reclaims(console, plan.config)
    _features(console, plan.config)
    _registry(console, plan.config)
    _existing(console, plan)
    if starts:
        stages = [f"{name} {minutes:.1f} min" for name, minutes in name_stages(planned.startup.path, plan.config)]
        steps = " ".join(f"→ {stage}".replace(" ", KEPT_SPACE) for stage in stages)
        say_about(console, "Startup", f"  {steps.removeprefix(f'→{KEPT_SPACE}')}")
    say(console, f"{len(planned.graph)} resources, including the stack.{more}")


def bill_of(plan: Plan) -> Cost:
    """The bill of an accepted stack."""
    assert plan.verdict.cost is not None
    return plan.verdict.cost


def describe_nodes(config: StackConfig, pool: GpuPool) -> str:
    """E.g. `1 × g4dn.xlarge (T4, spot), time-slicing`."""
    nodes = f"{config.nodes_of(pool)} × {' or '.join(pool.instance_types)} ({pool.smallest.gpu.title}, {pool.capacity})"
    slices = " + ".join(f"{shares.per_gpu} × {shares.profile}" for shares in pool.offers if shares.profile)
    sharing = f"{TITLES[pool.sharing.way]} {slices}".rstrip()
    return f"{nodes}, {sharing}{'' if pool in config.active_pools else ', parked'}"


def dollars(least: float, most: float, digits: int = 3) -> str:
    """A price or, where its ends differ, a range: `$0.464–0.575`."""
    low, high = f"{least:,.{digits}f}", f"{most:,.{digits}f}"
    return f"${high}" if low == high else f"${low}–{high}"


def mark(speed: Speed, figure: str) -> str:
    """What stands behind a figure of that name."""
    return MEASURED * (figure in speed.measured)


def _verdict(console: Console, plan: Plan, *, named: bool) -> None:
    """Which models run on which nodes, in one sentence."""
    config = plan.config
    pools = [describe_nodes(config, pool) for pool in config.pools]
    nodes = f"{len(pools)} pools" if len(pools) > 1 else pools[0]
    word = f"✓ {plan.stack}:" if named else "✓"
    say_about(console, word, f" {models_of(config)} on {nodes}", "bold green")


def _price(console: Console, plan: Plan, ready: str) -> None:
    bill = bill_of(plan)
    hour = bill.cheapest_usd_per_hour, bill.usd_per_hour
    month = bill.cheapest_usd_per_month, bill.usd_per_month
    price = f"{'about ' if bill.unpriced else ''}{dollars(*hour)} per hour"
    longer = f"{dollars(*month, digits=0)} per month{' with its schedule' * (bill.week is not None)}"
    say_about(console, f"  {price}", f", {longer}{ready}")
    unknown = f"; no price known for {in_words(bill.unpriced)} in {plan.config.region}" if bill.unpriced else ""
    newest = "run `tandem prices`" if bill.price_source == "aws" else "newer: --live-prices"
    is_old = bill.price_age_days > FRESH_DAYS
    newer = f"; {newest}" if is_old else ""
    say(console, f"  {bill.price_origin}{unknown}{newer}", "yellow" if is_old else "")


def _memory(console: Console, config: StackConfig, pool: GpuPool, fits: Sequence[Fit]) -> None:
    """A bar for each GPU, and the memory that each model needs."""
    # The line of the budget takes the place of the empty one: a screen has 24 lines.
    if pool.listed or not limits_of(config).is_set:
        console.print()
    if pool.listed:
        empty = "" if fits else ", without models"
        say_about(console, f"{pool.name}:", f" {describe_nodes(config, pool)}{empty}")
    if not fits:
        return
    bar = min(BAR, console.width - 36)
    for title, needs, total in _loads(config, pool, fits):
        # The sum of what the rows below show.
        used = sum(round(need / 1024, 1) for need in needs)
        free = f"{used:,.1f} of {_gib(total)} GiB"
        say(console, f"{title}  {_draw_bar([need / total for need in needs], bar)}  {free}")
    rows, left_out = _model_rows(fits, console.width)
    print_rows(console, rows, range(1, 5))
    hint_at_left_out(console, left_out)
    if shared := _per_request(fits):
        say(console, f"  {shared}")
    if any(fit.speed and fit.speed.measured - {"full_tokens_per_s"} for fit in fits):
        say(console, f"  {MEASURED} measured")


def _token_price(console: Console, plan: Plan) -> None:
    """What a million tokens cost at full load, and the cheapest host of one of the models if it asks for less."""
    full = usd_per_million_tokens([fit.speed for fit in plan.verdict.fits], plan.verdict.cost)
    if full is None:
        return
    price = f"${in_range(full, 2)} per million output tokens"
    offers = filter(None, (hosted_price(served.model.name) for served in plan.config.models))
    cheaper = [offer for offer in offers if offer.lowest < full.low]
    best = min(cheaper, key=lambda offer: offer.lowest, default=None)
    hosted = f"; hosted: {best.model} from ${best.lowest:.2f}" if best else ""
    say(console, f"  {price}{hosted}")


def _placement(console: Console, config: StackConfig) -> None:
    """Importance and spill, if the stack file has any."""
    spilling = [(pool, guests) for pool in config.pools if (guests := config.guests_of(pool))]
    if config.has_importance or spilling:
        console.print()
    if config.has_importance:
        ranks = (
            (rank, [tenant for tenant in config.models if (tenant.importance or NORMAL) == rank]) for rank in PRIORITIES
        )
        text = "; ".join(f"{rank}: {_listed(tenants)}" for rank, tenants in ranks if tenants)
        say_about(console, "Importance", f"  {text}")
    if spilling:
        text = "; ".join(
            f"to {pool.name}{'' if pool.desired else ', now parked'}: {_spilled(config, pool, guests)}"
            for pool, guests in spilling
        )
        say_about(console, "Spill", f"  {text}")


def _listed(tenants: Sequence[ServedModel]) -> str:
    return ", ".join(served.model.short_name for served in tenants)


def _spilled(config: StackConfig, pool: GpuPool, guests: Sequence[ServedModel]) -> str:
    most = max(placement.crowd_mib for _, placement in place_guests(config, pool))
    unit = pool.offers[0].unit_mib
    return f"{_listed(guests)} (at most {_gib(most)} of {_gib(unit)} GiB on a GPU)"


def _loads(config: StackConfig, pool: GpuPool, fits: Sequence[Fit]) -> Iterator[tuple[str, list[float], int]]:
    """For each GPU: its name, the MiB that each model needs, and the MiB it has."""
    total, needs = pool.smallest.gpu.cuda_mib, [fit.placement.need.bound for fit in fits]
    gpus = (config.nodes_of(pool) or pool.planned_nodes) * pool.smallest.gpus
    if pool.shares_per_node == pool.smallest.gpus:
        yield from ((f"GPU {number}", [need], total) for number, need in enumerate(needs, 1))
    elif gpus == 1:
        yield "GPU memory", needs, total
    elif pool.offers[0].profile:
        yield f"{gpus} GPUs", needs, gpus * total
    else:
        # The scheduler decides which models share a GPU; the rules assume that the largest ones do.
        yield f"fullest of {gpus} GPUs", [max(fit.placement.crowd_mib for fit in fits)], total


def _draw_bar(parts: Sequence[float], width: int) -> str:
    """A bar of that many characters, filled by parts of a whole."""
    bar, filled = "", 0.0
    for index, part in enumerate(parts):
        filled += part
        bar += FILLS[index % len(FILLS)] * (min(round(filled * width), width) - len(bar))
    return bar + FREE * (width - len(bar))


def _model_row(fit: Fit) -> tuple[str, ...]:
    served, placement, speed = fit.served, fit.placement, fit.speed
    slots = served.effective_slots
    is_whole = placement.shares.per_gpu == 1 and not placement.shares.profile
    limit = "" if placement.share_mib is None or is_whole else f" of {_gib(placement.share_mib)}"
    context = f"{f'{slots} × ' if slots > 1 else ''}{served.effective_context:,}"
    speeds: tuple[str, ...] = ("", "", "")
    if speed:
        speeds = (
            in_range(speed.tokens_per_s) + mark(speed, "tokens_per_s"),
            in_range(speed.busy_tokens_per_s) + mark(speed, "busy_tokens_per_s"),
            _first_token(speed),
        )
    return served.model.short_name, f"{_gib(placement.need.bound)}{limit}", context, *speeds


def _model_rows(fits: Sequence[Fit], width: int) -> tuple[list[tuple[str, ...]], list[str]]:
    """The head and a row for each model. Where the last column has no room, its range goes first, then the column.

    Also the heads that are left out. Without room for the others either, the last column gets lines of its own.
    """
    whole = [MODEL_HEAD, *map(_model_row, fits)]
    shorter = [(*others, RANGE.sub("", last)) for *others, last in whole]
    shorter[0] = (*MODEL_HEAD[:-1], SHORT_HEAD)
    ways: list[tuple[list[tuple[str, ...]], list[str]]] = [(whole, []), (shorter, [])]
    ways.append(([row[:-1] for row in whole], [MODEL_HEAD[-1]]))
    return next((way for way in ways if _columns(way[0]) <= width), ways[0])


def _columns(rows: Sequence[Sequence[str]]) -> int:
    return sum(max(map(len, column)) + 2 for column in zip(*rows, strict=True))


def _per_request(fits: Sequence[Fit]) -> str:
    """What one of several requests to a model gets while all slots of all models are in use."""
    several = [(fit, each) for fit in fits if fit.served.effective_slots > 1 and (each := per_request(fit))]
    slots = {fit.served.effective_slots for fit in fits if fit.speed}
    if not several:
        return ""
    if len(slots) == 1:
        speeds = in_words([in_range(each) for _, each in several])
        which = "each model" if len(several) > 1 else several[0][0].served.model.short_name
        return f"{slots.pop()} requests to {which}: {speeds} tokens/s per request"
    said = [f"{fit.served.model.short_name} {in_range(each)}" for fit, each in several]
    return f"all slots in use, tokens/s per request: {', '.join(said)}"


def per_request(fit: Fit) -> Estimate | None:
    """Tokens per second of each of a model's requests while all slots of all models are in use."""
    return fit.speed.full_tokens_per_s.times(1 / fit.served.effective_slots) if fit.speed else None


def _first_token(speed: Speed) -> str:
    seconds = speed.first_token_ms.times(0.001)
    shown = "<0.1" if seconds.high < 0.1 else in_range(seconds, 1)
    return f"{shown} s{mark(speed, 'first_token_ms')}"


def _gib(mib: float) -> str:
    return f"{mib / 1024:,.1f}"


def _cost(console: Console, config: StackConfig, bill: Cost) -> None:
    """What costs most, line by line; small items are one line."""
    say(console, "Cost per hour", "bold")
    spot = [pool for pool in config.pools if pool.capacity == "spot"]
    unrated = [gpu_nodes(pool, config).item for pool in spot if not spot_risks(pool.instance_types, config.region)]
    rows = [
        _cost_row(line.item, [line], *["reclaim rate unknown"] * (line.item in unrated))
        for line in bill.lines
        if not line.short
    ]
    small = [line for line in bill.lines if line.short]
    rows.append(_cost_row(", ".join(line.short for line in small), small))
    total, dedicated = f"${bill.usd_per_hour:.3f}", f"${bill.dedicated_usd_per_hour:.3f}"
    other = f"{dedicated} with a GPU for each model" if len(config.models) > 1 and dedicated != total else ""
    if len(config.active_pools) < len(config.pools):
        other = f"${bill.awake_usd_per_hour:.3f} when no pool is parked"
    rows.append(("total", total, other))
    rows += [
        (hours.name, f"${hours.usd_per_hour:.3f}", hours.remark)
        for feature in features_of(config)
        for hours in feature.cheaper_hours(bill)
    ]
    print_rows(console, rows, [1])


def _budget(console: Console, config: StackConfig, bill: Cost) -> None:
    """What each limit of the stack leaves; the one per hour is for the peak while nodes are replaced."""
    limits, said = limits_of(config), []
    if limits.usd_per_month is not None:
        said.append(f"${bill.usd_per_month:,.0f} of ${limits.usd_per_month:,.0f} per month")
    if limits.usd_per_hour is not None:
        said.append(f"up to ${bill.replacing_usd_per_hour:.3f} of ${limits.usd_per_hour:,.2f} per hour")
    if said and not bill.unpriced:
        say(console, f"  budget  {'; '.join(said)}")


def _network(console: Console, config: StackConfig) -> None:
    """A VPC that the stack does not own."""
    if vpc := config.cluster.vpc:
        say_about(console, "Network", f"  your VPC {vpc.id}, which only `doctor` and `up` can check")


def _reclaims(console: Console, config: StackConfig) -> None:
    """How many spot nodes AWS reclaims, and how long the models of one then do not answer."""
    for pool in config.active_pools:
        if pool.capacity == "spot" and (known := spot_risks(pool.instance_types, config.region)):
            unknown = [name for name in pool.instance_types if name not in {risk.instance_type for risk in known}]
            more = f", unknown for {in_words(unknown)}" if unknown else ""
            part = f"{reclaimed_part(known)} of instances per month ({known[0].date[:7]}){more}"
            name = f"{pool.name}: " if pool.listed else ""
            cost = f"each costs about {after_a_reclaim(pool, config)[0]:.0f}{KEPT_SPACE}min"
            say_about(console, "Reclaimed", f"  {name}{part}; {cost}")


def _features(console: Console, config: StackConfig) -> None:
    """A line for each optional feature that has one, and the web pages of all."""
    features = features_of(config)
    lines = [(feature.word, feature.line(config)) for feature in features]
    if pages := [page for feature in features for page in feature.pages(config)]:
        lines.append(("Pages", f"{' and '.join(pages)}, reachable through a forwarded port only"))
    said = [(word, line) for word, line in lines if line]
    if said:
        console.print()
    for word, line in said:
        say_about(console, word, f"  {line}")


def _registry(console: Console, config: StackConfig) -> None:
    """Where images and charts come from, and that models do not: of three parts of a name, the first is a host
    (ollama v0.32.15 types/model/name.go).
    """
    if config.registry:
        names = [served.model.name for served in config.models]
        hosts = {name.partition("/")[0] if name.count("/") == 2 else "registry.ollama.ai" for name in names}
        text = f"  images and charts from {config.registry}; models from {in_words(sorted(hosts))}"
        console.print()
        say_about(console, "Registry", text)


def _existing(console: Console, plan: Plan) -> None:
    """What this command cannot know of a cluster that exists."""
    if existing := plan.config.cluster.existing:
        tell = f"only `tandem doctor {plan.stack}` and `up` can tell"
        say_about(console, "Cluster", f"  {existing.name} stays as it is. Whether it suits, {tell}")


def _cost_row(name: str, lines: Sequence[Line], *more: str) -> tuple[str, str, str]:
    """The price of these lines, and what there is to say about it."""
    remarks = dict.fromkeys(text for line in lines for text in (line.capacity, *more, line.doubt) if text)
    return name, f"${sum(line.usd_per_hour for line in lines):.3f}", ", ".join(remarks)
