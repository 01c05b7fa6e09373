"""Rules about the registry of a stack: the region of one on ECR exists, and nodes can reach it."""

from collections.abc import Iterator

from sharing import tables
from sharing.problems import Problem, did_you_mean
from sharing.sections.config import StackConfig
from sharing.sections.registry import ecr_region


def unknown_region(config: StackConfig) -> Iterator[Problem]:
    """A registry on ECR in a region that AWS did not have, unless the file leaves regions to AWS."""
    region, regions = ecr_region(config.registry or ""), tables.read("regions")
    known = [row["region"] for row in regions.rows]
    if region and region not in {*known, config.region} and all(pool.check_offers for pool in config.pools):
        rule = f"is in a region that AWS did not have on {regions.date}"
        opened = f"If AWS has opened it since, write `{config.pools[0].path}.check-offers: false`."
        yield Problem("registry", f"'{config.registry}'", rule, f"{did_you_mean(region, known)} {opened}")


def on_this_machine(config: StackConfig) -> Iterator[Problem]:
    """A registry on localhost, which is another machine for each node."""
    host = (config.registry or "").partition("/")[0].partition(":")[0]
    if host == "localhost" or host.startswith("127."):
        rule = "is this machine, so nodes cannot pull from it"
        yield Problem("registry", f"'{config.registry}'", rule, "Write a host that nodes reach.")
