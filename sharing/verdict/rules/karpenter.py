"""Settings that conflict with Karpenter, or have another effect with it."""

from collections.abc import Iterator

from sharing.fit.karpenter import MOST_REPLICAS, count_controllers
from sharing.hardware import prices
from sharing.problems import Problem
from sharing.sections.config import StackConfig


def no_partitions(config: StackConfig) -> Iterator[Problem]:
    """Rejects MIG: mig-manager restarts the kubelet of a new node, and on AL2023 only a new instance may help then.

    Karpenter replaces no unready node by default: its feature gate `nodeRepair` is off.
    """
    for pool in config.karpenter_pools:
        if pool.sharing.needs_mig_manager:
            rule = (
                "does not support MIG: partitioning restarts the kubelet, which may leave a node unready "
                "(gpu-operator#2415)"
            )
            fix = f"Write `{pool.path}.provisioner: node-group`."
            yield Problem(f"{pool.path}.provisioner", "karpenter", rule, fix)


def settings_without_effect(config: StackConfig) -> Iterator[Problem]:
    """Warns about counts: Karpenter launches as many nodes as pods need."""
    # With `park`, the file has no counts but `max`: they are those of the schedule.
    for pool in config.karpenter_pools:
        for key, value, default in () if config.park else (("min", pool.min, 0), ("desired", pool.desired, 1)):
            if value not in (0, default):
                rule = "has no effect with Karpenter, which launches as many nodes as the models need"
                yield Problem(f"{pool.path}.{key}", str(value), rule, f"Remove it: `max: {pool.max}` is the limit.")
        if pool.replacement != "create-first":
            rule = "has no effect with Karpenter, which always keeps a drifted node until its replacement is ready"
            yield Problem(f"{pool.path}.replacement", pool.replacement, rule, "Remove it.")


def on_demand_instead(config: StackConfig) -> Iterator[Problem]:
    """Warns that cost and budget use the on-demand price, which is usually more than the stack costs."""
    for pool in config.karpenter_pools:
        offers = [prices.on_demand(kind.name, config.region, config.book).usd_per_hour for kind in pool.known_types]
        if pool.capacity == "spot" and pool.on_demand_fallback and offers:
            rule = (
                f"lets Karpenter launch on-demand nodes at up to ${max(offers):.3f} per hour when spot is unavailable"
            )
            fix = "Write `on-demand-fallback: false` to wait for spot."
            yield Problem(f"{pool.path}.on-demand-fallback", "true", rule, fix)


def unequal_counts(config: StackConfig) -> Iterator[Problem]:
    """Warns about mixed sizes: 17 pods for five small nodes went to one g4dn.metal, at three times the price."""
    for pool in config.karpenter_pools:
        counts = sorted({kind.gpus for kind in pool.known_types})
        if pool.has_unequal_counts:
            most = pool.most_nodes(pool.smallest)
            rule = (
                "make Karpenter limit GPUs instead of nodes while many pods wait, and choose one large node where "
                f"small ones are cheaper; quotas and budget allow for {most} nodes instead of {pool.max}"
            )
            types = f"types with {', '.join(map(str, counts[:-1]))} and {counts[-1]} GPUs"
            fix = "Keep types with one number of GPUs."
            yield Problem(f"{pool.path}.instance-types", types, rule, fix)


def lonely_controller(config: StackConfig) -> Iterator[Problem]:
    """Warns about one system node, which has room for one controller."""
    if config.karpenter_pools and count_controllers(config.cluster.system_nodes.count) < MOST_REPLICAS:
        rule = "limits Karpenter to one controller: while its node is replaced, no GPU node starts or stops"
        fix = f"Write `count: {MOST_REPLICAS}` for a second controller."
        yield Problem("cluster.system-nodes.count", str(config.cluster.system_nodes.count), rule, fix)
