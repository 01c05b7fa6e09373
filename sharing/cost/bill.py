"""Cost of a stack in USD per hour, line by line, and of the same models on dedicated GPUs."""

import datetime
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from sharing import artifacts
from sharing.cost.quotas import added_nodes, added_system_nodes
from sharing.hardware import prices
from sharing.modes.modes import Exclusive
from sharing.schedule.week import HOURS_PER_WEEK
from sharing.sections.cluster import SYSTEM_VOLUME_GIB, support_ends
from sharing.sections.config import StackConfig
from sharing.sections.pools import Capacity, GpuPool

HOURS_PER_MONTH = 730
"""AWS's own convention for a month."""
REPLACED_MINUTES = 30
"""Minutes of a month in which the extra nodes of a replacement run. An assumption: one replacement a month, of half an
hour.

A node group is replaced by a change only, such as an upgrade: a Kubernetes version leaves support three times a year.
The new node needs about ten minutes for its images and models (`data/durations.csv`); EKS drains the old one for at
most 15 (EKS user guide, managed-node-update-behavior.html: "If the Pods don't leave the node within 15 minutes"). A
node of Karpenter expires after 720 hours, and drains for at most ten minutes while its successor starts.
"""
UNCOUNTED = "Not counted: data transfer to the internet and between zones, CloudWatch, SQS and EventBridge, taxes."


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One item of the bill."""

    item: str
    usd_per_hour: float
    note: str = ""
    doubt: str = ""
    """The reason why this is not the exact price: the last part of the note."""
    capacity: Capacity | None = None
    """Of GPU nodes."""
    short: str = ""
    """A name for small items, which a short bill adds up in one line; empty for the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Week:
    """The bill of an average week of a stack that is parked at times."""

    running_hours: float
    parked_hours: float
    running_usd_per_hour: float
    parked_lines: tuple[Line, ...]
    """What still costs while the stack is parked."""

    @property
    def parked_usd_per_hour(self) -> float:
        return sum(line.usd_per_hour for line in self.parked_lines)

    @property
    def usd(self) -> float:
        return self.running_hours * self.running_usd_per_hour + self.parked_hours * self.parked_usd_per_hour

    @property
    def unparked_usd(self) -> float:
        """The same week without the schedule."""
        return HOURS_PER_WEEK * self.running_usd_per_hour


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The bill of a running stack."""

    lines: tuple[Line, ...]
    cheapest_usd_per_hour: float
    """The bill with the GPU nodes of each pool at its cheapest instance type; the lines have the most expensive one."""
    replacing_usd_per_hour: float
    """The highest cost while nodes are updated or replaced, including the extra nodes."""
    replaced_usd_per_month: float
    """The cost of a month's replacements: of the extra nodes, for `REPLACED_MINUTES`."""
    week: Week | None
    """A week with the schedule of `park`; None without one."""
    idle_usd_per_hour: float | None
    """The cost while all models have scaled to zero; None if they do not."""
    models: int
    dedicated_usd_per_hour: float
    """The cost of the same stack, at the same capacity type, with one GPU per model."""
    awake_usd_per_hour: float
    """The cost when every parked pool has its nodes again."""
    first_start_gib: float
    """Download of the first start: images and model files. Parked pools start nothing."""
    first_start_usd: float
    """NAT charge for that download, once."""
    price_region: str
    """Region of the GPU prices; with several pools it may be more than one."""
    price_date: str
    """Date of the oldest of these prices."""
    price_source: prices.Source
    """The source of those prices: the built-in tables, or AWS."""
    price_age_days: int
    """Age of the oldest price on the day of the plan, in days."""
    unpriced: tuple[str, ...] = ()
    """GPU instance types whose price in the stack's region is unknown: the bill uses another price."""

    @property
    def price_origin(self) -> str:
        """`price_basis` with the age of the prices on the day of the plan."""
        return f"{self.price_basis}, {self.price_age}"

    @property
    def price_age(self) -> str:
        """The age of the prices on the day of the plan, in words."""
        return {0: "today", 1: "yesterday"}.get(self.price_age_days, f"{self.price_age_days:,} days ago")

    @property
    def price_basis(self) -> str:
        """Region, source and date of the GPU prices, as text that stays true."""
        source = "read from AWS on " if self.price_source == "aws" else ""
        return f"GPU prices of {self.price_region}, {source}{self.price_date}"

    @property
    def usd_per_hour(self) -> float:
        return sum(line.usd_per_hour for line in self.lines)

    @property
    def usd_per_week(self) -> float:
        """With the schedule of `park`, if there is one."""
        return self.week.usd if self.week else self.usd_per_hour * HOURS_PER_WEEK

    @property
    def usd_per_month(self) -> float:
        """With the schedule of `park`, if there is one, and with replacements: what `max-usd-per-month` limits."""
        return self.usd_per_week * HOURS_PER_MONTH / HOURS_PER_WEEK + self.replaced_usd_per_month

    @property
    def usd_per_month_unparked(self) -> float:
        """The same month without the schedule."""
        return self.usd_per_hour * HOURS_PER_MONTH + self.replaced_usd_per_month

    @property
    def cheapest_usd_per_month(self) -> float:
        """`usd_per_month` with the GPU nodes of each pool at its cheapest instance type."""
        running = (self.week.running_hours / HOURS_PER_WEEK if self.week else 1) * HOURS_PER_MONTH
        return self.usd_per_month - running * (self.usd_per_hour - self.cheapest_usd_per_hour)

    @property
    def per_model_hour(self) -> float:
        return self.usd_per_hour / self.models


def cost(config: StackConfig) -> Cost:
    """The bill of `config`, all of whose types must be known."""
    gpu = [_node_price(pool, config) for pool in config.pools]
    oldest = min(gpu, key=lambda price: price.date)
    pulled = _first_start_gib(config)
    through_nat = pulled if config.cluster.nat_gateways else 0.0
    lines = tuple(_lines(config))
    running, replaced = sum(line.usd_per_hour for line in lines), _replacements(config)
    is_awake = len(config.active_pools) == len(config.pools)
    return Cost(
        lines=lines,
        cheapest_usd_per_hour=running - _cheaper_types(config),
        replacing_usd_per_hour=running + replaced + _unplanned_nodes(config),
        replaced_usd_per_month=replaced * REPLACED_MINUTES / 60,
        week=_week(config, lines),
        idle_usd_per_hour=_idle(config),
        models=len(config.models),
        dedicated_usd_per_hour=sum(line.usd_per_hour for line in _lines(_dedicated(config))),
        awake_usd_per_hour=sum(line.usd_per_hour for line in (lines if is_awake else _lines(_awake(config)))),
        first_start_gib=pulled,
        first_start_usd=through_nat * prices.service("nat-gateway-gb", config.region).usd_per_hour,
        price_region=", ".join(dict.fromkeys(price.region for price in gpu)),
        price_date=oldest.date,
        price_source=oldest.source,
        price_age_days=max((config.today - datetime.date.fromisoformat(oldest.date)).days, 0),
        unpriced=unpriced(config, *config.pools),
    )


def _week(config: StackConfig, lines: tuple[Line, ...]) -> Week | None:
    if config.park is None:
        return None
    return Week(
        running_hours=config.park.times.running_hours,
        parked_hours=config.park.times.parked_hours,
        running_usd_per_hour=sum(line.usd_per_hour for line in lines),
        parked_lines=tuple(line for line in _lines(config.without_gpu_nodes()) if line.usd_per_hour),
    )


def _idle(config: StackConfig) -> float | None:
    if not config.scale_to_zero.enabled:
        return None
    return sum(line.usd_per_hour for line in _lines(config.without_gpu_nodes()))


def in_extended_support(kubernetes: str, today: datetime.date) -> bool:
    """Whether EKS charges the extended-support price for that version on that day."""
    ends = support_ends(kubernetes)
    return ends is not None and today >= ends[0]


def _lines(config: StackConfig) -> Iterator[Line]:
    if config.cluster.existing:
        yield Line(item=f"cluster {config.cluster.existing.name}", usd_per_hour=0, doubt="yours, not counted")
    else:
        yield _control_plane(config)
        yield _system_nodes(config)
    for pool in config.pools:
        yield gpu_nodes(pool, config)
    yield _volumes(config)
    if gateways := config.cluster.nat_gateways:
        hourly = prices.service("nat-gateway-hour", config.region)
        yield replace(_line(f"NAT gateway × {gateways}", gateways, hourly), short="NAT")
    nodes = config.cluster.own_system_nodes + sum(map(config.nodes_of, config.pools))
    if addresses := nodes if config.cluster.has_public_nodes else gateways:
        hourly = prices.service("public-ipv4-hour", config.region)
        yield replace(_line(f"public IPv4 × {addresses}", addresses, hourly), short="IPv4")


def _line(item: str, units: float, price: prices.Price, *words: str) -> Line:
    """A number of units at a price; the note has the words, then any doubt about the price."""
    return Line(item=item, usd_per_hour=units * price.usd_per_hour, note=_notes(*words, price.note), doubt=price.note)


def _control_plane(config: StackConfig) -> Line:
    support = "extended" if in_extended_support(config.cluster.kubernetes, config.today) else "standard"
    price = prices.service(f"eks-{support}", config.region)
    return _line(f"control plane, Kubernetes {config.cluster.kubernetes}", 1, price, f"{support} support")


def _system_nodes(config: StackConfig) -> Line:
    nodes = config.cluster.system_nodes
    offers = {name: prices.system_node(name, config.region, config.book) for name in nodes.instance_types}
    costliest = max(offers, key=lambda name: offers[name].usd_per_hour)
    return _line(f"system nodes {nodes.count} × {costliest}", nodes.count, offers[costliest], "on-demand")


def gpu_nodes(pool: GpuPool, config: StackConfig) -> Line:
    """The GPU nodes of a pool of known types: as many as run, at the price of its most expensive type."""
    price, nodes = _node_price(pool, config), config.nodes_of(pool)
    costliest = _costliest(pool, config)
    several = "most expensive type" if len(pool.instance_types) > 1 else ""
    seen = f"seen {price.date}" if pool.capacity == "spot" and "on-demand" not in price.note else ""
    name = f" ({pool.name})" if pool.listed else ""
    line = _line(f"GPU nodes {nodes} × {costliest}{name}", nodes, price, pool.capacity, several, seen)
    return replace(line, capacity=pool.capacity)


def _costliest(pool: GpuPool, config: StackConfig) -> str:
    return max(pool.instance_types, key=lambda name: _price(name, pool, config).usd_per_hour)


def _cheaper_types(config: StackConfig) -> float:
    """Savings in USD per hour if each pool gets its cheapest type instead of the most expensive one."""
    usd = 0.0
    for pool in config.pools:
        each = [_price(name, pool, config).usd_per_hour for name in pool.instance_types]
        usd += config.nodes_of(pool) * (max(each) - min(each))
    return usd


def unpriced(config: StackConfig, *pools: GpuPool) -> tuple[str, ...]:
    """GPU instance types of the pools whose price in the stack's region is unknown."""
    every = dict.fromkeys(name for pool in pools for name in pool.instance_types)
    return tuple(name for name in every if not prices.on_demand(name, config.region, config.book).own)


def _node_price(pool: GpuPool, config: StackConfig) -> prices.Price:
    """The price of the pool's most expensive type: the node that starts costs no more."""
    return _price(_costliest(pool, config), pool, config)


def _price(instance_type: str, pool: GpuPool, config: StackConfig) -> prices.Price:
    full = prices.on_demand(instance_type, config.region, config.book)
    if pool.capacity == "on-demand":
        return full
    if pool.on_demand_fallback:
        return _noted(full, "on-demand price because of the fallback")
    seen = prices.spot(instance_type, config.region, config.book)
    return seen or _noted(full, "no spot price known: on-demand price")


@cache
def _noted(price: prices.Price, note: str) -> prices.Price:
    return replace(price, note=_notes(note, price.note))


def _replacements(config: StackConfig) -> float:
    """USD per hour of the extra nodes during a replacement, with their disks and addresses."""
    types = config.cluster.system_nodes.instance_types
    system = max(prices.system_node(name, config.region, config.book).usd_per_hour for name in types)
    usd = added_system_nodes(config) * (system + _disk_and_address(SYSTEM_VOLUME_GIB, config))
    return usd + sum(added_nodes(pool, config.nodes_of(pool)) * node_usd(pool, config) for pool in config.pools)


def _unplanned_nodes(config: StackConfig) -> float:
    """USD per hour of the nodes that Karpenter may launch for spilled models, and for types that differ in GPUs."""
    return sum(
        config.spilled_nodes(pool) * node_usd(pool, config) + _beyond_planned(pool, config) for pool in config.pools
    )


def _beyond_planned(pool: GpuPool, config: StackConfig) -> float:
    """USD per hour that Karpenter may spend beyond the planned nodes if its types differ in GPUs."""
    if pool.provisioner == "node-group" or not pool.has_unequal_counts:
        return 0.0
    disk = _disk_and_address(pool.volume_gib, config)
    most = max(
        pool.most_nodes(kind) * (_price(kind.name, pool, config).usd_per_hour + disk) for kind in pool.known_types
    )
    return max(most - pool_usd(pool, config), 0.0)


def pool_usd(pool: GpuPool, config: StackConfig) -> float:
    """USD per hour of the GPU nodes of a pool of known types, with their disks and addresses."""
    return config.nodes_of(pool) * node_usd(pool, config)


def node_usd(pool: GpuPool, config: StackConfig) -> float:
    """USD per hour of one GPU node of a pool of known types, with its disk and address."""
    return _node_price(pool, config).usd_per_hour + _disk_and_address(pool.volume_gib, config)


def _disk_and_address(volume_gib: int, config: StackConfig) -> float:
    """USD per hour of the disk and the address of a node."""
    month = prices.service("ebs-gp3", config.region).usd_per_hour / HOURS_PER_MONTH
    hourly = prices.service("public-ipv4-hour", config.region).usd_per_hour
    return volume_gib * month + (hourly if config.cluster.has_public_nodes else 0.0)


def _volumes(config: StackConfig) -> Line:
    roots = sum(config.nodes_of(pool) * pool.volume_gib for pool in config.pools)
    roots += config.cluster.own_system_nodes * SYSTEM_VOLUME_GIB
    gib = roots + sum(served.volume_gib for served in config.models) + config.ui.kept_gib
    month = prices.service("ebs-gp3", config.region)
    return replace(_line(f"EBS gp3 {gib} GiB", gib / HOURS_PER_MONTH, month), short="disks")


def _first_start_gib(config: StackConfig) -> float:
    images = 0.0 if config.images_avoid_nat else artifacts.images_mib() / 1024
    files = sum(served.model.file_bytes for pool in config.active_pools for served in config.models_of(pool))
    return sum(map(config.nodes_of, config.pools)) * images + files / 2**30


def _awake(config: StackConfig) -> StackConfig:
    """The same stack with the planned nodes in each parked pool."""
    return config.changed(pools=[pool.changed(desired=pool.desired or pool.max) for pool in config.pools])


def _dedicated(config: StackConfig) -> StackConfig:
    """The same stack with enough nodes in each pool for one GPU per model. A parked pool stays parked."""
    pools = []
    for pool in config.pools:
        nodes = -(-len(config.models_of(pool)) // pool.smallest.gpus) if pool in config.active_pools else 0
        pools.append(pool.changed(own_sharing=Exclusive(), desired=nodes, max=nodes))
    return config.changed(pools=pools)


def _notes(*notes: str) -> str:
    return "; ".join(note for note in notes if note)
