"""Rules about models that may run on other pools when their own has no free share (`models[].spill`)."""

from collections.abc import Iterator

from sharing.fit.shares import judge_guests
from sharing.problems import Problem
from sharing.stack.setup import Pool, Setup, Tenant


def find_obstacles(setup: Setup) -> Iterator[Problem]:
    """What keeps a model from another pool, whatever its size."""
    pools = {pool.name: pool for pool in setup.pools}
    for tenant in setup.tenants:
        if tenant.spill and tenant.cache == "volume":
            rule = "has one zone, so the model cannot spill to another pool"
            yield Problem(f"{tenant.path}.cache", "volume", rule, "Write `cache: node`, or remove `spill`.")
            continue
        home = pools.get(tenant.pool)
        for index, name in enumerate(tenant.spill):
            if home and name in pools and (rule := _obstacle(setup, home, pools[name])):
                yield Problem(f"{tenant.path}.spill[{index}]", name, rule, "Remove it.")


def _obstacle(setup: Setup, home: Pool, pool: Pool) -> str:
    here, there = _resources(home), _resources(pool)
    if not here or not there:  # the error of another rule
        return ""
    if here != there:
        return f"has {there}, but {home.name} has {here}: a pod requests the same resource on every pool"
    if " " in here:
        return f"has {there}: a model of such a pool cannot spill, because its slice is chosen on its own pool"
    if setup.park and home.provisioner == "node-group" and pool.provisioner == "karpenter":
        return "is on Karpenter: a waiting model of a node group would start a node there while the stack is parked"
    return ""


def _resources(pool: Pool) -> str:
    return " and ".join(shares.resource for shares in pool.offers)


def find_misfits(setup: Setup) -> Iterator[Problem]:
    """Models that do not fit a pool to which they may spill, with the models that they may meet there."""
    obstacles = {problem.path for problem in find_obstacles(setup)}
    for pool in setup.pools:
        if not pool.known_types or not pool.offers:
            continue  # the error of another rule
        for tenant, verdict in judge_guests(setup, pool):
            path = _path(tenant, pool)
            if path not in obstacles and not verdict.fits:
                found = f"{tenant.served.model.name} on {pool.name} ({verdict.found})"
                rule = f"{verdict.rule}, counting the models that it may meet there ({pool.sharing.mode} on "
                fix = f"Remove {pool.name} from `spill`, or use a smaller model, a shorter context or a larger GPU."
                yield Problem(path, found, f"{rule}{pool.smallest.gpu.title})", fix)


def _path(tenant: Tenant, pool: Pool) -> str:
    return f"{tenant.path}.spill[{tenant.spill.index(pool.name)}]"
