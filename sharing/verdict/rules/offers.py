"""Rules about the offers of a region: a missing type or region is an error, an unknown type a warning."""

from collections.abc import Iterator
from dataclasses import replace

from sharing import tables, versions
from sharing.aws.partitions import COMMERCIAL, partition_of
from sharing.hardware import offerings
from sharing.hardware.gpus import InstanceType
from sharing.problems import Problem
from sharing.sections.config import StackConfig
from sharing.sections.pools import GpuPool

ALIKE = 0.95
"""GPUs sold with the same memory differ by at most this factor: NVML shows 22,888 to 23,034 MiB of 24 GB."""


def not_offered(config: StackConfig) -> Iterator[Problem]:
    """Types that AWS has retired, or that the region does not offer."""
    for pool, path, kind in _types(config):
        if offerings.offered(kind.name, config.region, config.book) != "no":
            continue
        fix, day = _instead(kind, pool, config), offerings.known_since(config.region, config.book)
        if retired := offerings.retired(kind.name):
            yield Problem(path, kind.name, f"is retired: EC2 no longer listed it on {retired}", fix)
        elif pool.check_offers:
            if config.book is None or config.book.offered is None:
                fix += f" If AWS offers it now, write `{pool.path}.check-offers: false`."
            yield Problem(path, kind.name, f"is not available in {config.region} as of {day}", fix)


def unknown_region(config: StackConfig) -> Iterator[Problem]:
    """A region that AWS did not have when the table was made: an error, unless the file leaves offers to AWS."""
    if config.region not in _regions() and all(pool.check_offers for pool in config.pools):
        fix = offerings.suggest_region(config.region)
        key = f"{config.pools[0].path}.check-offers: false"
        yield _no_region(config, f"{fix} If AWS has opened it since, write `{key}`.")


def region_left_to_aws(config: StackConfig) -> Iterator[Problem]:
    """The same, as a warning: AWS opens regions more often than the table is made."""
    if config.region not in _regions() and not all(pool.check_offers for pool in config.pools):
        yield replace(_no_region(config, offerings.suggest_region(config.region)), judged=False)


def _no_region(config: StackConfig, fix: str) -> Problem:
    rule = f"is not an AWS region known on {tables.read('regions').date}"
    return Problem("aws:region", f"'{config.region}'", rule, fix)


def _regions() -> list[str]:
    return [row["region"] for row in tables.read("regions").rows]


def unknown_offers(config: StackConfig) -> Iterator[Problem]:
    """Types that the region may or may not offer. Another rule reports an unknown region."""
    if config.region not in _regions():
        return
    for pool, path, kind in _types(config):
        offered = offerings.offered(kind.name, config.region, config.book)
        if offered == "unknown":
            rule = f"is not checked: tandem does not know whether {config.region} offers it"
        elif offered == "no" and not pool.check_offers and not offerings.retired(kind.name):
            day = offerings.known_since(config.region, config.book)
            rule = f"is not checked: {config.region} did not offer it on {day}"
        else:
            continue
        yield Problem(path, kind.name, rule, ask_aws(config.region), judged=False)


def ask_aws(region: str) -> str:
    """How to find out the offers of a region."""
    if partition_of(region) != COMMERCIAL:
        return f"Ask AWS with `tandem quota --region {region}`."
    return read_prices(region)


def read_prices(region: str) -> str:
    """How to get prices of a region that the tables lack."""
    if partition_of(region) != COMMERCIAL:
        return f"Compare it with AWS's own price list of {region}."
    return f"Run `tandem prices --region {region}`, then plan with `--live-prices`."


def _types(config: StackConfig) -> Iterator[tuple[GpuPool, str, InstanceType]]:
    for pool in config.pools:
        yield from ((pool, path, kind) for path, kind in pool.placed_nvidia_types)


def _instead(kind: InstanceType, pool: GpuPool, config: StackConfig) -> str:
    """A type with the same GPU or as much memory, and the nearest region that offers this type."""
    fix = []
    if other := substitute(kind, pool, config):
        fix.append(f"Write `{other.name}` ({other.gpu.title})")
    if region := offerings.nearest(kind.name, config.region):
        fix.append(f"{'use' if fix else 'Use'} {region}, the nearest region that offers it")
    return f"{', or '.join(fix)}." if fix else "Use another region."


def substitute(kind: InstanceType, pool: GpuPool, config: StackConfig) -> InstanceType | None:
    """The cheapest type of the region that can replace `kind` in `pool`: preferably one with the same GPU.

    Otherwise one with as much memory on as many GPUs, the same architecture, and support for the pool's sharing mode.
    """
    here = [
        other
        for other in offerings.cheapest_first(config.region, config.book)
        if other.arch == kind.arch and other.gpus >= kind.gpus and other.gpu.vendor == "nvidia"
    ]
    same = (other for other in here if other.gpu == kind.gpu)
    alike = (
        other
        for other in here
        if other.gpu.nvml_mib >= ALIKE * kind.gpu.nvml_mib
        and other.gpu.min_driver <= versions.NVIDIA_DRIVER
        and not pool.sharing.check(other.gpu)
    )
    return next(same, None) or next(alike, None)
