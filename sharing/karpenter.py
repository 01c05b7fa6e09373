"""What Karpenter has to know of shared cards, and which settings do not go with it.

Karpenter counts cards, as EC2 reports them: without a word about shares it brings a node for every pod.
"""

from collections.abc import Iterator, Sequence

from sharing import prices
from sharing.gpus import InstanceType
from sharing.modes import Sharing
from sharing.problems import Problem
from sharing.setup import Pool, Setup

MOST_REPLICAS = 2
"""Controllers worth running: one works, the other waits. They never share a node: the chart keeps them apart."""


def overlay_capacity(sharing: Sharing, instance: InstanceType) -> dict[str, str]:
    """What a node of that type offers once the device plugin shares its cards: extended resource to count.

    The one place where Karpenter's numbers are made. They come from the mode, as the plugin's config does.
    """
    return {shares.resource: str(instance.gpus * shares.per_gpu) for shares in sharing.offers(instance.gpu)}


def limits(sharing: Sharing, types: Sequence[InstanceType], max_nodes: int) -> dict[str, str]:
    """The NodePool's `limits`: nodes, and the shares that so many of the largest nodes offer.

    Within one batch of pods Karpenter subtracts from its limits only what an instance type has, which is shares and
    no node: `nodes` alone would let 17 pods bring 17 nodes. It is still needed where types differ in their number of
    GPUs. Source: kubernetes-sigs/karpenter v1.14.1, pkg/controllers/provisioning/scheduling/scheduler.go, subtractMax.
    """
    largest = max(types, key=lambda known: known.gpus)
    shares = overlay_capacity(sharing, largest)
    return {"nodes": str(max_nodes), **{resource: str(max_nodes * int(count)) for resource, count in shares.items()}}


def reported_gpus(instance: InstanceType) -> int:
    """Value of the label `karpenter.k8s.aws/instance-gpu-count`: EC2 reports none for a type with a slice of a card."""
    return 0 if instance.gpu.is_slice else instance.gpus


def controller_replicas(system_nodes: int) -> int:
    """Controllers for that many system nodes: a second one on the only node would block every upgrade."""
    return min(MOST_REPLICAS, system_nodes)


def no_partitions(setup: Setup) -> Iterator[Problem]:
    """MIG's parts exist only after somebody has cut the card, and mig-manager restarts the kubelet for that."""
    for pool in pools(setup):
        if pool.sharing.needs_mig_manager:
            rule = "Karpenter takes a node whose kubelet restarts while its cards are cut for a broken one"
            fix = f"Write `provisioner: node-group` under {pool.path}."
            yield Problem(f"{pool.path}.provisioner", "karpenter", f"{rule} (gpu-operator#2415)", fix)


def settings_without_effect(setup: Setup) -> Iterator[Problem]:
    """Karpenter brings as many nodes as pods need."""
    for pool in pools(setup):
        for key, value, default in (("min", pool.min, 0), ("desired", pool.desired, 1)):
            if value not in (0, default):
                rule = "has no effect with Karpenter, which brings as many nodes as the models need"
                yield Problem(f"{pool.path}.{key}", str(value), rule, f"Leave it out; `max: {pool.max}` is the limit.")
        if pool.replacement != "create-first":
            rule = "has no effect with Karpenter, which always keeps a drifted node until its replacement is ready"
            yield Problem(f"{pool.path}.replacement", pool.replacement, rule, "Remove it.")


def on_demand_instead(setup: Setup) -> Iterator[Problem]:
    """Cost and budget are planned at the on-demand price, which is most of the time more than the stack costs."""
    for pool in pools(setup):
        offers = [prices.on_demand(known.name, setup.region, setup.book).usd_per_hour for known in pool.known_types]
        if pool.capacity == "spot" and pool.on_demand_fallback and offers:
            rule = f"without spot capacity, Karpenter buys on-demand at up to ${max(offers):.3f} per hour and node"
            fix = "Write `on-demand-fallback: false` to wait for spot."
            yield Problem(f"{pool.path}.on-demand-fallback", "true", rule, fix)


def unequal_counts(setup: Setup) -> Iterator[Problem]:
    """Seventeen pods that fit five small nodes went to one g4dn.metal, at about three times the price."""
    for pool in pools(setup):
        counts = sorted({known.gpus for known in pool.known_types})
        if pool.has_unequal_counts:
            most = pool.most_nodes(pool.smallest)
            rule = (
                "Karpenter may take one large node where small ones would be cheaper, and limits GPUs instead of nodes "
                f"while many pods wait: up to {most} nodes, not {pool.max}. Quotas and budget count with that"
            )
            found = f"types with {', '.join(map(str, counts[:-1]))} and {counts[-1]} GPUs"
            fix = "Keep types with one number of GPUs."
            yield Problem(f"{pool.path}.instance-types", found, rule, fix)


def lonely_controller(setup: Setup) -> Iterator[Problem]:
    """With one system node there is one controller."""
    if any(pools(setup)) and controller_replicas(setup.system_nodes) < MOST_REPLICAS:
        rule = "Karpenter's one controller stands still while its node is replaced: no GPU node comes or goes"
        fix = f"Write `count: {MOST_REPLICAS}` to have it twice."
        yield Problem("cluster.system-nodes.count", str(setup.system_nodes), rule, fix)


def pools(setup: Setup) -> Iterator[Pool]:
    """The pools whose nodes Karpenter brings."""
    return (pool for pool in setup.pools if pool.provisioner == "karpenter")
