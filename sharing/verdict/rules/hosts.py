"""Rules about the CPU, RAM and number of pods of GPU nodes and system nodes."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sharing.fit import host
from sharing.fit.node_pods import NodePod, on_each_system_node, on_gpu_node, on_system_nodes
from sharing.fit.prompt_cache import STEP_MIB, enough_mib, slow_copies, state_mib
from sharing.hardware.gpus import InstanceType, instance_types
from sharing.hardware.system_instances import SystemType, system_types
from sharing.models.catalogue import Served
from sharing.problems import Problem
from sharing.stack.pools import NODE_CPU_MILLIS, POD_CPU_MILLIS
from sharing.stack.setup import Pool, Setup, Tenant

FEW_VCPUS, MOST_PODS_OF_FEW, MOST_PODS = 30, 110, 250
"""EKS allows 110 pods on a node with fewer than 30 vCPUs, and 250 on others, however many addresses they have.

That applies to managed node groups. Karpenter's nodes take as many pods as they have addresses; the rule uses the same
limits there, which matter only from about 100 models per node. Sources: karpenter-provider-aws v1.14.1
pkg/providers/instancetype/types.go, `pods`; https://docs.aws.amazon.com/eks/latest/userguide/choosing-instance-type.html.
"""
FEWER = "Use fewer models per node."


def cpu_and_ram(setup: Setup) -> Iterator[Problem]:
    """A GPU node has enough CPU and RAM for the models that may be placed on it."""
    for pool in setup.pools:
        for path, node in _typed(pool):
            needs = host.crowd(setup, pool, node)
            if (cpu := _cpu_millis(len(needs))) > node.vcpu * 1000:
                rule = f"is less than the {cpu / 1000:g} vCPU that {_models(len(needs))} on one {node.name} request"
                yield Problem(path, f"{node.vcpu} vCPU", rule, _larger(setup, pool, node, needs))
            if missing := _missing_mib(setup, pool, node, needs):
                room = host.room_mib(node, pool.sharing, metrics=setup.metrics)
                needed = f"{room + missing:,} MiB of RAM that {_models(len(needs))} on one {node.name} need"
                rule = f"is {missing:,} MiB less than the {needed}"
                fix = _smaller_caches(setup, pool, node) or _larger(setup, pool, node, needs)
                yield Problem(path, f"{room:,} MiB for models", rule, fix)


def wasted_caches(setup: Setup) -> Iterator[Problem]:
    """A prompt cache saves time: copies cost less than reading, and two conversations that fill their slots fit."""
    for pool in setup.pools:
        for tenant in setup.tenants_of(pool):
            if size := tenant.served.prompt_cache_mib:
                yield from _wasted_caches(setup, pool, tenant, size)


def _wasted_caches(setup: Setup, pool: Pool, tenant: Tenant, size: int) -> Iterator[Problem]:
    served, path = tenant.served, f"{tenant.path}.prompt-cache-mib"
    if served.model.encoder:
        rule = f"has no effect: the embedding model {served.model.name} never reuses a prompt"
        yield Problem(path, str(size), rule, "Remove the key.")
    elif gpu := slow_copies(served, pool):
        reason = f"on the {gpu.title}, reading a prompt again takes {served.model.name} less time than the copies"
        yield Problem(path, str(size), f"makes requests slower: {reason}", "Write `prompt-cache-mib: 0`.")
    elif size < (two := 2 * state_mib(served)):
        enough = enough_mib(served)
        rule = f"is less than the {-(-two // 1):,.0f} MiB of two full conversations with {served.model.name}"
        fix = f"Write `prompt-cache-mib: {enough}`, which holds two, or 0 for none."
        if _lacks_ram(setup, tenant, enough):
            fix = f"Write `prompt-cache-mib: 0`; the node has no room for {enough:,} MiB."
        yield Problem(path, str(size), rule, fix)


def _lacks_ram(setup: Setup, tenant: Tenant, mib: int) -> bool:
    larger = replace(tenant, served=replace(tenant.served, prompt_cache_mib=mib))
    tenants = tuple(larger if each is tenant else each for each in setup.tenants)
    return any(cpu_and_ram(replace(setup, tenants=tenants)))


def pods_on_gpu_nodes(setup: Setup) -> Iterator[Problem]:
    """A GPU node has room for the pods of its models, besides the stack's own pods."""
    for pool in setup.pools:
        for path, node in _typed(pool):
            needs, others = host.crowd(setup, pool, node), len(on_gpu_node(pool.sharing, metrics=setup.metrics))
            if len(needs) + others > _most_pods(node):
                rule = f"is too few on one {node.name} for {_models(len(needs))} and {others} other pods"
                yield Problem(path, f"a limit of {_most_pods(node)} pods", rule, _larger(setup, pool, node, needs))


def system_nodes(setup: Setup) -> Iterator[Problem]:
    """System nodes have room for all pods that run on them."""
    known = [system_types()[name] for name in setup.system_types if name in system_types()]
    if known and (wrong := _overfull(setup, known)):
        found = f"{setup.system_nodes} × {known[0].name}"
        yield Problem("cluster.system-nodes", found, wrong, _roomier(setup, known))


def _models(count: int) -> str:
    return f"{count} model{'s' if count > 1 else ''}"


def _typed(pool: Pool) -> Iterator[tuple[str, InstanceType]]:
    # Another rule refuses the GPUs of other vendors.
    return ((path, known) for path, known in pool.placed_types if known.gpu.vendor == "nvidia")


def _cpu_millis(models: int) -> int:
    return models * POD_CPU_MILLIS + NODE_CPU_MILLIS


def _most_pods(node: InstanceType) -> int:
    return min(node.max_pods, MOST_PODS_OF_FEW if node.vcpu < FEW_VCPUS else MOST_PODS)


def _missing_mib(setup: Setup, pool: Pool, node: InstanceType, needs: list[int]) -> int:
    wanted = sum(needs) + len(needs) * host.LEAST_PAGE_CACHE_MIB
    return max(0, wanted - host.room_mib(node, pool.sharing, metrics=setup.metrics))


def fitting_cache(setup: Setup, pool: Pool, nodes: Sequence[InstanceType]) -> int | None:
    """The largest limit of the pool's prompt caches with which each of the nodes has enough RAM, in MiB.

    It is useful for each model with a cache, or 0: two full conversations fit, and no GPU reads faster than it copies.
    None if no limit helps.
    """
    caching = [tenant.served for tenant in setup.residents_of(pool) if tenant.served.effective_prompt_cache_mib]
    if not caching:
        return None
    largest, least = max(served.prompt_cache_mib for served in caching), max(map(enough_mib, caching))
    slow = any(slow_copies(served, pool) for served in caching)
    sizes = [0] if slow else [0, *range(least, largest, STEP_MIB)]

    def is_too_much(mib: int) -> bool:
        tenants = tuple(replace(one, served=with_cache(one.served, mib)) for one in setup.tenants)
        tried = replace(setup, tenants=tenants)
        return any(_missing_mib(tried, pool, node, host.crowd(tried, pool, node)) for node in nodes)

    fitting = bisect_left(sizes, True, key=is_too_much)
    return sizes[fitting - 1] if fitting else None


def with_cache(served: Served, most_mib: int) -> Served:
    """The model with a prompt cache of at most that size; embedding models have none."""
    most = most_mib if served.effective_prompt_cache_mib else served.prompt_cache_mib
    return replace(served, prompt_cache_mib=min(most, served.prompt_cache_mib))


def _smaller_caches(setup: Setup, pool: Pool, node: InstanceType) -> str:
    """The largest prompt cache that lets the models fit; a change without cost."""
    mib = fitting_cache(setup, pool, [node])
    return "" if mib is None else f"Write `prompt-cache-mib: {mib}` for each model with a larger cache."


def _larger(setup: Setup, pool: Pool, node: InstanceType, needs: list[int]) -> str:
    """The smallest type with the same GPUs that has enough room."""
    others = len(on_gpu_node(pool.sharing, metrics=setup.metrics))
    roomy = [
        each
        for each in instance_types().values()
        if (each.gpu, each.gpus, each.arch) == (node.gpu, node.gpus, node.arch)
        and each.vcpu * 1000 >= _cpu_millis(len(needs))
        and _most_pods(each) >= len(needs) + others
        and not _missing_mib(setup, pool, each, needs)
    ]
    best = min(roomy, key=lambda each: (each.memory_mib, each.vcpu), default=None)
    return f"Write {best.name} instead." if best else FEWER


def _overfull(setup: Setup, known: list[SystemType]) -> str:
    """The shortage on nodes of the smallest of these types, in words; empty if there is none."""
    nodes, each, others = setup.system_nodes, on_each_system_node(), on_system_nodes(setup)
    pods = nodes * len(each) + sum(pod.count for pod in others)
    takes = nodes * min(one.max_pods for one in known)
    if pods > takes:
        return f"cannot run the stack's {pods} pods: the limit is {takes}"
    needed = nodes * sum(pod.memory_mib for pod in each) + sum(pod.count * pod.memory_mib for pod in others)
    least = min(one.allocatable_mib for one in known)
    room = nodes * least
    if needed > room:
        return f"cannot hold the stack's pods, which need {needed:,} MiB of RAM: only {room:,} MiB are free"
    return _unplaced(others, nodes, least - sum(pod.memory_mib for pod in each))


def _unplaced(pods: Sequence[NodePod], nodes: int, room: int) -> str:
    """The pod that finds no room on any of the nodes, in words; empty if all do.

    The scheduler prefers the node with the most free memory (kubernetes 1.36 pkg/scheduler/framework/plugins/
    noderesources/least_allocated.go). The largest pod may come last, when the others are spread over all nodes.
    """
    free = [room] * nodes
    for pod in sorted(pods, key=lambda pod: pod.memory_mib):
        for _ in range(pod.count):
            most = max(free)
            if pod.memory_mib > most:
                return (
                    f"cannot hold {pod.name}, which needs {pod.memory_mib:,} MiB of RAM on one node: only {most:,} MiB "
                    "are free on each"
                )
            free[free.index(most)] -= pod.memory_mib
    return ""


def _roomier(setup: Setup, known: list[SystemType]) -> str:
    """The cheapest fix: more nodes or another type."""
    highest = max(one.usd_per_hour for one in known)
    offers = [
        (count * highest, f"Write `count: {count}`.")
        for count in range(setup.system_nodes + 1, 2 * setup.system_nodes + 2)
        if not _overfull(replace(setup, system_nodes=count), known)
    ]
    offers += [
        (setup.system_nodes * one.usd_per_hour, f"Write `instance-types: [{one.name}]`.")
        for one in system_types().values()
        if one.arch == known[0].arch and not _overfull(setup, [one])
    ]
    return min(offers)[1]
