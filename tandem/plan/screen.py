"""A plan for people: verdict, fit and cost first, then what would be created and how long it takes."""

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.tree import Tree

from sandbox.graph import Graph, Resource
from sharing.assessment import Fit
from sharing.cost import HOURS_PER_MONTH, UNCOUNTED, Cost
from sharing.modes import Shares
from sharing.quotas import needs
from sharing.setup import Pool, Setup
from sharing.slices import in_mig
from stacks.stack_file.judge import Plan
from tandem.planned.plan import Planned
from tandem.planned.startup import Startup
from tandem.terminal import in_markup, new_table

STACK_TYPE = "pulumi:pulumi:Stack"


def headline(console: Console, file: str, plan: Plan) -> None:
    """An accepted stack in one line."""
    bill, pools = plan.assessment.cost, plan.setup.pools
    assert bill is not None
    nodes = [
        f"{plan.setup.nodes_of(pool)} × {' or '.join(pool.instance_types)}, {pool.sharing.mode}"
        + (", parked" if pool not in plan.setup.awake else "")
        for pool in pools
    ]
    if pools[0].listed:
        nodes = [f"{node} ({pool.name}, {pool.capacity})" for node, pool in zip(nodes, pools, strict=True)]
    *others, last = nodes
    told = f"{', '.join(others)} and {last}" if others else last
    models = len(plan.setup.tenants)
    about = "about " if bill.unpriced else "up to " if bill.cheapest_usd_per_hour < bill.usd_per_hour else ""
    console.print(
        f"[bold green]ok[/] {in_markup(file)}: {models} model{'s' * (models != 1)} on {told}, "
        f"{about}[bold]${bill.usd_per_hour:.3f}[/] per hour ({_prices(bill, plan.setup.region)})",
        soft_wrap=not console.is_terminal,
    )


def _prices(bill: Cost, region: str) -> str:
    """Where the GPU prices of the bill come from, and how old they are."""
    unknown = f"; no price known for {' and '.join(bill.unpriced)} in {region}" if bill.unpriced else ""
    return f"{bill.price_origin}{unknown}"


def rules(console: Console, plan: Plan) -> None:
    """Fit and cost of an accepted stack."""
    assessment = plan.assessment
    assert assessment.cost is not None
    console.print()
    for pool in plan.setup.pools:
        if fits := [fit for fit in assessment.fits if fit.pool == pool]:
            _fit(console, pool, fits, plan.setup.region)
    _cost(console, assessment.cost, is_parked=not plan.setup.awake)
    _quotas(console, plan.setup)


def resources(console: Console, planned: Planned, *, is_up: bool = False) -> None:
    """The resources of the stack and, unless it is up, the time to the first token."""
    _tree(console, planned.graph)
    if not is_up and not planned.is_parked:
        _first_token(console, planned.startup)


def _fit(console: Console, pool: Pool, fits: Sequence[Fit], region: str) -> None:
    gpu, offers = pool.smallest.gpu, pool.offers
    derived = " (derived)" if gpu.cuda_is_derived else ""
    each = " + ".join(_share_count(shares) for shares in offers)
    name = f" on {pool.name}" if pool.listed else ""
    table = new_table(f"Fit{name}, in MiB: {gpu.title} with {gpu.cuda_mib:,}{derived} for CUDA, {each} per GPU")
    table.add_column("model", no_wrap=True)
    for title in ("context", "slots", "weights", "KV", "CUDA, buffers", "needs", "may use"):
        table.add_column(title, justify="right")
    for fit in fits:
        table.add_row(*_fit_row(fit))
    margins = sorted(round(fit.verdict.need.margin) for fit in fits)
    margin = f"{margins[0]}" if margins[0] == margins[-1] else f"{margins[0]} to {margins[-1]}"
    caption = f"A margin of {margin} MiB is added to each need."
    if not offers[0].enforced:
        fullest = max((fit.verdict for fit in fits), key=lambda verdict: verdict.crowd_mib / verdict.card_mib)
        most = f"at most {fullest.crowd_mib:,.0f} of {fullest.card_mib:,} MiB are taken together"
        caption += f" Memory is not divided{' within a slice' if offers[0].profile else ''}: {most}."
    table.caption = caption
    table.caption_justify = "left"
    console.print(table)
    console.print()
    if offers[0].profile:
        models = tuple(fit.tenant.served for fit in fits)
        choices = [f"{one.instance_type} {one.layout} ${one.usd_per_hour:.2f}" for one in in_mig(models, region)]
        console.print(f"The cheapest that hold these models in MIG, on demand: {'; '.join(choices)}\n", highlight=False)


def _share_count(shares: Shares) -> str:
    kind = (
        f"slice{'s' * (shares.per_gpu > 1)} {shares.profile}"
        if shares.profile
        else "share" + "s" * (shares.per_gpu > 1)
    )
    return f"{shares.per_gpu} {kind}"


def _fit_row(fit: Fit) -> tuple[str, ...]:
    served, need = fit.tenant.served, fit.verdict.need
    may_use = f"{fit.verdict.share_mib:,}" if fit.verdict.share_mib is not None else "the rest"
    # What is shown adds up: the rest takes the rounding.
    rest = round(need.total) - round(need.weights) - round(need.kv)
    numbers = (served.effective_context, served.effective_slots, need.weights, need.kv, rest, need.total)
    place = f"\n  on {fit.verdict.shares.profile}" if fit.verdict.shares.profile else ""
    return (in_markup(served.id) + place, *(f"{number:,.0f}" for number in numbers), may_use)


def _cost(console: Console, bill: Cost, *, is_parked: bool) -> None:
    table = new_table("Cost")
    table.add_column("item")
    table.add_column("$/hour", justify="right")
    table.add_column("note")
    for line in bill.lines:
        table.add_row(line.item, f"{line.usd_per_hour:.4f}", line.note)
    table.add_section()
    table.add_row("[bold]together[/]", f"[bold]{bill.usd_per_hour:.4f}[/]", f"${bill.usd_per_month:,.0f} per month")
    least, most = f"{bill.cheapest_usd_per_hour:.3f}", f"{bill.usd_per_hour:.3f}"
    if least != most:
        table.add_row("with the cheapest types", f"{bill.cheapest_usd_per_hour:.4f}", f"${least}–{most} per hour")
    peak = "at most, for some minutes: old and new nodes run side by side"
    table.add_row("while nodes are replaced", f"{bill.replacing_usd_per_hour:.4f}", peak)
    if not is_parked:
        table.add_row("a model", f"{bill.per_model_hour:.4f}", "an equal part of the whole")
        saved = (bill.dedicated_usd_per_hour - bill.usd_per_hour) * HOURS_PER_MONTH
        saving = f"${saved:,.0f} per month more" if saved >= 0.5 else "the same"
        table.add_row("a GPU for each model", f"{bill.dedicated_usd_per_hour:.4f}", f"the whole stack: {saving}")
    first = f"First start: {bill.first_start_gib:.1f} GiB from the internet, ${bill.first_start_usd:.2f} for NAT. "
    table.caption = first * bool(bill.first_start_gib) + UNCOUNTED
    table.caption_justify = "left"
    console.print(table)


def _quotas(console: Console, setup: Setup) -> None:
    """The vCPUs that the account must allow; `tandem quota` asks the account."""
    told = [
        f"{need.quota.title} {need.most} ({need.replacing} while nodes are replaced)"
        for need in needs(setup)
        if need.quota.unit == "vCPU"
    ]
    when = "" if setup.awake else " when it wakes"
    console.print(f"vCPU quotas needed{when}: {'; '.join(told)}\n", highlight=False)


def _tree(console: Console, graph: Graph) -> None:
    roots = [resource for resource in graph if resource.type == STACK_TYPE]
    count = len(graph) - len(roots)
    tree = Tree(f"[bold]{count} resources[/]")
    for root in roots:
        _branch(tree, graph, root)
    console.print(tree)


def _branch(tree: Tree, graph: Graph, parent: Resource) -> None:
    """Components as branches; what lies directly below one, counted by type."""
    children = graph.children(parent.urn)
    for child in children:
        if graph.children(child.urn):
            branch = tree.add(f"{_kind(child.type)} [bold]{in_markup(child.name)}[/] ({_below(graph, child)})")
            _branch(branch, graph, child)
    leaves = Counter(_kind(child.type) for child in children if not graph.children(child.urn))
    if leaves:
        tree.add(", ".join(f"{kind} × {count}" if count > 1 else kind for kind, count in sorted(leaves.items())))


def _below(graph: Graph, resource: Resource) -> int:
    return sum(1 + _below(graph, child) for child in graph.children(resource.urn))


def _kind(token: str) -> str:
    """`ec2 Subnet` for `aws:ec2/subnet:Subnet`, `kubernetes provider` for `pulumi:providers:kubernetes`."""
    package, module, kind = token.split(":")
    if package == "pulumi":
        return f"{kind} provider"
    area = module.split("/")[0]
    return kind if area == "index" else f"{area.split('.')[0]} {kind}"


def _first_token(console: Console, estimate: Startup) -> None:
    console.print(f"\n[bold]Time to first token: about {estimate.minutes:.0f} minutes (± {estimate.plus_minus:.0f})[/]")
    table = new_table("")
    table.add_column("waits for")
    table.add_column("minutes", justify="right")
    for step in estimate.path:
        if step.minutes >= 0.05:
            table.add_row(in_markup(step.urn.rsplit("::", 1)[1]), f"{step.minutes:.1f}")
    console.print(table)
