"""Rules about models that may run on other pools when their own has no free share (`models[].spill`)."""

from collections.abc import Iterator

from sharing.fit.shares import place_guests
from sharing.models.served import ServedModel
from sharing.problems import Problem
from sharing.sections.config import StackConfig
from sharing.sections.pools import GpuPool


def find_obstacles(config: StackConfig) -> Iterator[Problem]:
    """What keeps a model from another pool, whatever its size."""
    pools = {pool.name: pool for pool in config.pools}
    for served in config.models:
        if served.spill and served.cache == "volume":
            rule = "has one zone, so the model cannot spill to another pool"
            yield Problem(f"{served.path}.cache", "volume", rule, "Write `cache: node`, or remove `spill`.")
            continue
        home = pools.get(served.pool)
        for index, name in enumerate(served.spill):
            if home and name in pools and (rule := _obstacle(config, home, pools[name])):
                yield Problem(f"{served.path}.spill[{index}]", name, rule, "Remove it.")


def _obstacle(config: StackConfig, home: GpuPool, pool: GpuPool) -> str:
    here, there = _resources(home), _resources(pool)
    if not here or not there:  # the error of another rule
        return ""
    if here != there:
        return f"has {there}, but {home.name} has {here}: a pod requests the same resource on every pool"
    if " " in here:
        return f"has {there}: a model of such a pool cannot spill, because its slice is chosen on its own pool"
    for own in (home, pool):
        if own.sharing.needs_node_daemon:
            return f"is not possible: {own.name} has `limits: per-model`, and a limit is that of one pool"
    if config.park and home.provisioner == "node-group" and pool.provisioner == "karpenter":
        return "is on Karpenter: a waiting model of a node group would start a node there while the stack is parked"
    return ""


def _resources(pool: GpuPool) -> str:
    return " and ".join(shares.resource for shares in pool.offers)


def find_misfits(config: StackConfig) -> Iterator[Problem]:
    """Models that do not fit a pool to which they may spill, with the models that they may meet there."""
    obstacles = {problem.path for problem in find_obstacles(config)}
    for pool in config.pools:
        if not pool.offers:
            continue  # the error of another rule
        for served, placement in place_guests(config, pool):
            path = _path(served, pool)
            if path not in obstacles and not placement.fits:
                misfit = f"{served.model.name} on {pool.name} ({placement.needed})"
                rule = f"{placement.rule}, counting the models that it may meet there ({pool.sharing.mode} on "
                fix = f"Remove {pool.name} from `spill`, or use a smaller model, a shorter context or a larger GPU."
                yield Problem(path, misfit, f"{rule}{pool.smallest.gpu.title})", fix)


def _path(served: ServedModel, pool: GpuPool) -> str:
    return f"{served.path}.spill[{served.spill.index(pool.name)}]"
