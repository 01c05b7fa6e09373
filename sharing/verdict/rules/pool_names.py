"""Rules about the names of pools, and the models that refer to them. The other rules rely on these names."""

from collections.abc import Iterator

from sharing.problems import OBJECT, Problem, did_you_mean
from sharing.sections.config import StackConfig


def find_wrong_names(config: StackConfig) -> Iterator[Problem]:
    """Finds duplicate names of pools, and models on no pool or on an unknown one."""
    names = [pool.name for pool in config.pools]
    pools = list(dict.fromkeys(names))
    for index, pool in enumerate(config.pools):
        if pool.name in names[:index]:
            yield Problem(f"{pool.path}.name", pool.name, "is the name of another pool", "Give each pool its own name.")
    for served in config.models:
        path = f"{served.path}.pool"
        if not served.pool:
            fix = f"Write the name of a pool. Known: {', '.join(pools)}."
            yield Problem(path, "", "is missing, and the stack has several pools", fix)
        elif served.pool not in pools:
            yield Problem(path, f"'{served.pool}'", "unknown pool", did_you_mean(served.pool, pools), OBJECT)
    yield from _find_wrong_spill(config, pools)


def _find_wrong_spill(config: StackConfig, pools: list[str]) -> Iterator[Problem]:
    """Finds pools of `spill` that are unknown, the model's own, or listed twice."""
    for served in config.models:
        for place, name in enumerate(served.spill):
            path = f"{served.path}.spill[{place}]"
            if name not in pools:
                yield Problem(path, f"'{name}'", "unknown pool", did_you_mean(name, pools), OBJECT)
            elif name == served.pool:
                yield Problem(path, name, "is the model's own pool", "Remove it.")
            elif name in served.spill[:place]:
                yield Problem(path, name, "is listed twice", "Keep one of the two.")
