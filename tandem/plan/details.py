"""Details that do not fit on one screen: all numbers of memory and cost, quotas, every step of the startup, and the
resources as a tree.
"""

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.tree import Tree

from sandbox.graph import STACK_TYPE, Graph, Resource
from sharing.cost.bill import HOURS_PER_MONTH, REPLACED_MINUTES, UNCOUNTED, Cost, Week
from sharing.cost.hosted import hosted_price
from sharing.cost.quotas import needs
from sharing.fit.slices import in_mig
from sharing.hardware.spot_risk import reclaimed_part, spot_risks
from sharing.models.catalogue import MIB
from sharing.modes.base import Shares
from sharing.printable import counted
from sharing.schedule.week import Timetable
from sharing.sections.config import StackConfig
from sharing.sections.pools import GpuPool
from sharing.sections.startup import after_a_reclaim
from sharing.verdict.full import Fit
from sharing.verdict.speed import usd_per_million_tokens
from stacks.stack_file.judge import Plan
from tandem.dry_run.program import Planned
from tandem.dry_run.startup import CLUSTER, STAGES, Startup, name_stage
from tandem.plan.diagram import kind_of
from tandem.plan.screen import MEASURED, MODEL_HEAD, bill_of, dollars, mark, per_request
from tandem.terminal import in_markup, in_range, in_words, print_rows, say

ORDER = (CLUSTER, *STAGES)


def show(console: Console, plan: Plan, planned: Planned) -> None:
    """Prints all details, each part under its title."""
    for pool in plan.config.pools:
        if fits := [fit for fit in plan.verdict.fits if fit.pool == pool]:
            _memory(console, pool, fits, plan.config.region)
    _speed(console, plan)
    _cost(console, plan.config, bill_of(plan))
    _quotas(console, plan.config)
    if planned.starts_models:
        _startup(console, planned.startup, plan.config)


def _title(console: Console, text: str) -> None:
    console.print()
    say(console, text, "bold")


def _memory(console: Console, pool: GpuPool, fits: Sequence[Fit], region: str) -> None:
    gpu, offers = pool.smallest.gpu, pool.offers
    _title(console, f"Memory{f' on {pool.name}' if pool.listed else ''}, in MiB")
    derived = " (derived, not measured)" if gpu.cuda_is_derived else ""
    each = " and ".join(_share_count(shares) for shares in offers)
    daemon = f"; the MPS daemon takes {gpu.cuda_mib - offers[0].unit_mib}" * offers[0].own_limits
    usable = f"{gpu.nvml_mib:,}, of which CUDA can use {gpu.cuda_mib:,}{derived}{daemon}"
    say(console, f"  {gpu.title}: {usable}; {each} per GPU")
    print_rows(console, [(fit.served.model.short_name, _needs(fit)) for fit in fits])
    if any(not fit.served.given_limit_mib for fit in fits) and offers[0].own_limits:
        say(console, "  A limit without `memory-gib` is what the model needs, and an equal part of what is left.")
    if not offers[0].enforced:
        fullest = max((fit.placement for fit in fits), key=lambda placement: placement.crowd_mib / placement.unit_mib)
        unit = "slice" if offers[0].profile else "GPU"
        most = f"the models on one {unit} need up to {fullest.crowd_mib:,.0f} of {fullest.unit_mib:,} MiB"
        say(console, f"  Nothing limits the memory of a model: {most}.")
    if offers[0].profile:
        models = tuple(fit.served for fit in fits)
        choices = [
            f"{choice.instance_type} {choice.layout} ${choice.usd_per_hour:.2f}" for choice in in_mig(models, region)
        ]
        say(console, f"  Cheapest for these models with MIG, on demand, per hour: {'; '.join(choices)}")


def _speed(console: Console, plan: Plan) -> None:
    """What the first screen has no room for: all slots in use, little load, and the hosts."""
    speeds = [fit.speed for fit in plan.verdict.fits]
    if not any(speeds):
        return
    known = [(fit, fit.speed) for fit in plan.verdict.fits if fit.speed]
    marks = [mark(speed, "full_tokens_per_s") for _, speed in known]
    parts = ["forecasts, and the range of nine in ten readings"] * (not all(marks))
    parts += [f"{MEASURED} measured, and the range of the repeats"] * any(marks)
    _title(console, f"Speed: {'; '.join(parts)}")
    rows = [
        (
            fit.served.model.short_name,
            f"{in_range(speed.full_tokens_per_s)}{stands} tokens/s in {_slots(fit)} while all are in use{_each(fit)}",
        )
        for (fit, speed), stands in zip(known, marks, strict=True)
    ]
    print_rows(console, rows)
    say(console, f"  {MODEL_HEAD[-1]}: the time until the first token after it, while the other models are idle")
    for load, words in ((1.0, "full load"), (0.1, "a tenth of it")):
        if usd := usd_per_million_tokens(speeds, plan.verdict.cost, load):
            say(console, f"  ${in_range(usd, 2)} per million output tokens at {words}")
    names = list(dict.fromkeys(fit.served.model.short_name for fit, _ in known))
    for name in names:
        if offer := hosted_price(name):
            usd_range = dollars(offer.lowest, offer.highest, 2)
            hosts = in_words([*offer.providers[:2], *[f"{len(offer.providers) - 2} more"] * (len(offer.providers) > 2)])
            say(
                console,
                f"  Hosted, {offer.model} costs {usd_range} per million output tokens: {hosts} (litellm's list, "
                f"{offer.date})",
            )
    unknown = [name for name in names if hosted_price(name) is None]
    missing = f" No hosted price known of {in_words(unknown)}." if unknown else ""
    say(console, f"  Hosts charge input tokens, too; our price leaves out the time to read prompts.{missing}")


def _slots(fit: Fit) -> str:
    return counted(fit.served.effective_slots, "slot")


def _each(fit: Fit) -> str:
    """What each request gets of it, if there are several."""
    each = per_request(fit)
    return f": {in_range(each)} per request" if each and fit.served.effective_slots > 1 else ""


def _share_count(shares: Shares) -> str:
    kind = "slice" if shares.profile else "share"
    return f"{counted(shares.per_gpu, kind)}{f' {shares.profile}' * bool(shares.profile)}"


def _needs(fit: Fit) -> str:
    served, need, share = fit.served, fit.placement.need, fit.placement.share_mib
    # The numbers shown add up: buffers absorb the rounding.
    rest = round(need.bound) - round(need.weights) - round(need.kv) - round(need.margin)
    limit = f" of its {share:,}" if share is not None else ""
    more = served.model.weights_spread / MIB
    derived = f" (derived; up to {more:,.0f} more)" if more else ""
    threads = ""
    if fit.placement.shares.own_limits and share is not None:
        limit = f" of its limit of {share:,}, {share - round(need.bound):,} left"
        threads = f"; {_threads(fit.placement.shares)}"
    return (
        f"reserves {need.bound:,.0f}{limit}: weights {need.weights:,.0f}{derived}, KV cache {need.kv:,.0f}, "
        f"CUDA and buffers {rest:,}, margin {need.margin:,.0f}; "
        f"context {served.effective_context:,}, slots {served.effective_slots}{threads}"
    )


def _threads(shares: Shares) -> str:
    return "all threads" if shares.threads == 1 else f"at most {shares.threads_percent} % of the threads"


def _cost(console: Console, config: StackConfig, bill: Cost) -> None:
    _title(console, "Cost per hour, in full")
    rows = [(line.item, f"${line.usd_per_hour:.4f}", line.note) for line in bill.lines]
    rows.append(
        (
            "total",
            f"${bill.usd_per_hour:.4f}",
            f"${bill.usd_per_month_unparked:,.0f} per month{', never parked' if bill.week else ''}",
        )
    )
    if bill.cheapest_usd_per_hour < bill.usd_per_hour:
        span = f"{dollars(bill.cheapest_usd_per_hour, bill.usd_per_hour)} per hour"
        rows.append(("with the cheapest types", f"${bill.cheapest_usd_per_hour:.4f}", span))
    peak = f"at most; a month includes {REPLACED_MINUTES} minutes of it"
    rows.append(("while nodes are replaced", f"${bill.replacing_usd_per_hour:.4f}", peak))
    if week := bill.week:
        rows.append(
            ("while parked", f"${week.parked_usd_per_hour:.4f}", ", ".join(line.item for line in week.parked_lines))
        )
    if config.active_pools:
        rows.append(("per model", f"${bill.per_model_hour:.4f}", "an equal part of the total"))
        more = round((bill.dedicated_usd_per_hour - bill.usd_per_hour) * HOURS_PER_MONTH)
        saving = f"the whole stack: ${more:,} per month more" if more > 0 else "the whole stack: the same"
        rows.append(("with a GPU for each model", f"${bill.dedicated_usd_per_hour:.4f}", saving))
    print_rows(console, rows, [1])
    if bill.week and config.park:
        _week(console, bill, bill.week, config.park.times)
    if bill.first_start_gib:
        nat = f"${bill.first_start_usd:.2f} for NAT" if config.cluster.owns_network else "and what your NAT costs"
        once = f"{bill.first_start_gib:.1f} GiB from the internet, {nat}"
        unsure = config.registry and not config.images_avoid_nat
        counted = " The way to your registry is unknown: its images count as if from the internet." if unsure else ""
        say(console, f"  First start: {once}.{counted}")
    _reclaims(console, config)
    say(console, f"  {UNCOUNTED}")


def _reclaims(console: Console, config: StackConfig) -> None:
    """What the Spot Advisor says of each type, and what a reclaim costs."""
    pools = [pool for pool in config.pools if pool.capacity == "spot"]
    for name in dict.fromkeys(name for pool in pools for name in pool.instance_types):
        if risks := spot_risks([name], config.region):
            past = f"AWS reclaimed {reclaimed_part(risks)} of the instances in the month before {risks[0].date}"
            say(console, f"  Spot, {name}: {past}, and saved {risks[0].savings_percent} % (Spot Advisor).")
        else:
            say(console, f"  Spot, {name}: not in the Spot Advisor's data of {config.region}.")
    for pool in pools:
        minutes, spread = after_a_reclaim(pool, config)
        node = f"node of {pool.name}" if pool.listed else "node"
        answer = f"the models of a reclaimed {node} answer after about {minutes:.0f} minutes (± {spread:.0f})"
        say(console, f"  If AWS has another, {answer}.")


def _week(console: Console, bill: Cost, week: Week, park: Timetable) -> None:
    """The schedule, and what it saves."""
    parts = [
        f"{hours:.4g} hours {state} at ${usd:.4f}"
        for hours, state, usd in (
            (week.running_hours, "running", week.running_usd_per_hour),
            (week.parked_hours, "parked", week.parked_usd_per_hour),
        )
    ]
    say(console, f"  Week: {' and '.join(parts)}: ${week.usd:,.2f}. Never parked: ${week.unparked_usd:,.2f}.")
    month = f"${bill.usd_per_month:,.2f} with its schedule and replacements (${bill.replaced_usd_per_month:.2f})"
    say(console, f"  Month: {month}. Never parked: ${bill.usd_per_month_unparked:,.2f}.")
    schedules = f"parks at `{park.schedule.for_cron_job()}`, wakes at `{park.wake.for_cron_job()}`"
    say(console, f"  Schedule, {park.timezone}: {schedules}.")


def _quotas(console: Console, config: StackConfig) -> None:
    """The vCPUs that the account's quotas must allow; `tandem quota` reads them from the account."""
    _title(console, f"vCPU quotas{'' if config.active_pools else ' when no pool is parked'}")
    for need in needs(config):
        if need.quota.unit == "vCPU":
            peak = f"{need.most} vCPUs, {need.replacing} while nodes are replaced"
            say(console, f"  {need.quota.title}: {peak}")


def _startup(console: Console, estimate: Startup, config: StackConfig) -> None:
    """Each resource that `up` waits for, beside the name of its step on the first screen."""
    _title(
        console,
        f"Startup: about {estimate.minutes:.0f} minutes (± {estimate.plus_minus:.0f}), step by step",
    )
    steps = [
        (step.urn.rsplit("::", 1)[1], f"{step.minutes:.1f} min", name_stage(step.urn, config))
        for step in estimate.path
        if step.minutes >= 0.05
    ]
    print_rows(console, steps, [1])


def show_resources(console: Console, graph: Graph) -> None:
    """Prints every component with the number of its resources by type."""
    console.print()
    tree = Tree(f"[bold]{len(graph)} resources[/], including the stack")
    for root in graph:
        if root.type == STACK_TYPE:
            _branch(tree, graph, root)
    console.print(tree)


def _branch(tree: Tree, graph: Graph, parent: Resource) -> None:
    """Adds the children of a component: first single resources, counted by type, then its own components."""
    children = sorted(graph.children(parent.urn), key=_rank)
    leaves = Counter(kind_of(child.type) for child in children if not graph.children(child.urn))
    if leaves:
        tree.add(", ".join(f"{kind} × {count}" if count > 1 else kind for kind, count in sorted(leaves.items())))
    for child in children:
        if graph.children(child.urn):
            branch = tree.add(f"{kind_of(child.type)} [bold]{in_markup(child.name)}[/] ({_below(graph, child)})")
            _branch(branch, graph, child)


def _rank(resource: Resource) -> int:
    return ORDER.index(resource.type) if resource.type in ORDER else len(ORDER)


def _below(graph: Graph, resource: Resource) -> int:
    return sum(1 + _below(graph, child) for child in graph.children(resource.urn))
