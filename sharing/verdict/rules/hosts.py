"""Rules about the CPU, RAM and number of pods of GPU nodes and system nodes."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from sharing.fit import host
from sharing.fit.node_pods import NodePod, on_each_system_node, on_gpu_node, on_system_nodes
from sharing.fit.prompt_cache import STEP_MIB, enough_mib, slow_copies, state_mib
from sharing.hardware import offerings
from sharing.hardware.gpus import InstanceType
from sharing.hardware.system_instances import SystemType, system_types
from sharing.models.served import ServedModel
from sharing.printable import counted
from sharing.problems import Problem
from sharing.sections.config import StackConfig
from sharing.sections.pools import NODE_CPU_MILLIS, POD_CPU_MILLIS, GpuPool
from sharing.verdict.features import find_system_pods

PAGE = "open-webui"
"""Name of the page's pod in `data/node_pods.csv`."""


def cpu_and_ram(config: StackConfig) -> Iterator[Problem]:
    """A GPU node has enough CPU and RAM for the models that may be placed on it."""
    for pool in config.pools:
        for path, node in pool.placed_nvidia_types:
            needs = host.crowd(config, pool, node)
            if (cpu := _cpu_millis(len(needs))) > node.vcpu * 1000:
                models = f"{counted(len(needs), 'model')} on one {node.name}"
                rule = f"is less than the {cpu / 1000:g} vCPU that {models} request"
                yield Problem(path, f"{node.vcpu} vCPU", rule, _larger(config, pool, node, needs))
            if missing := _missing_mib(config, pool, node, needs):
                room = host.room_mib(config, pool, node)
                needed = f"{room + missing:,} MiB of RAM that {counted(len(needs), 'model')} on one {node.name} need"
                rule = f"is {missing:,} MiB less than the {needed}"
                fix = _smaller_caches(config, pool, node) or _larger(config, pool, node, needs)
                yield Problem(path, f"{room:,} MiB for models", rule, fix)


def wasted_caches(config: StackConfig) -> Iterator[Problem]:
    """A prompt cache saves time: copies cost less than reading, and two conversations that fill their slots fit."""
    for pool in config.pools:
        for served in config.models_of(pool):
            if size := served.prompt_cache_mib:
                yield from _wasted_caches(config, pool, served, size)


def _wasted_caches(config: StackConfig, pool: GpuPool, served: ServedModel, size: int) -> Iterator[Problem]:
    path = f"{served.path}.prompt-cache-mib"
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
        if _lacks_ram(config, served, enough):
            fix = f"Write `prompt-cache-mib: 0`; the node has no room for {enough:,} MiB."
        yield Problem(path, str(size), rule, fix)


def _lacks_ram(config: StackConfig, served: ServedModel, mib: int) -> bool:
    models = [each.changed(prompt_cache_mib=mib) if each is served else each for each in config.models]
    return any(cpu_and_ram(config.changed(models=models)))


def pods_on_gpu_nodes(config: StackConfig) -> Iterator[Problem]:
    """A GPU node has room for the pods of its models, besides the stack's own pods."""
    for pool in config.pools:
        for path, node in pool.placed_nvidia_types:
            needs = host.crowd(config, pool, node)
            others = len(on_gpu_node(config, pool))
            if len(needs) + others > node.max_pods:
                rule = f"is too few on one {node.name} for {counted(len(needs), 'model')} and {others} other pods"
                yield Problem(path, f"a limit of {node.max_pods} pods", rule, _larger(config, pool, node, needs))


def system_nodes(config: StackConfig) -> Iterator[Problem]:
    """System nodes have room for all pods that run on them. Those of an existing cluster are unknown."""
    if config.cluster.existing:
        return
    kinds = [system_types()[name] for name in config.cluster.system_nodes.instance_types if name in system_types()]
    if kinds and (wrong := _overfull(config, kinds)):
        nodes = f"{config.cluster.system_nodes.count} × {kinds[0].name}"
        yield Problem("cluster.system-nodes", nodes, wrong, _roomier(config, kinds) + _unbound(config, kinds))


def _unbound(config: StackConfig, kinds: list[SystemType]) -> str:
    """Another fix, without cost: a page that any node can run; empty if it does not help."""
    helps = config.ui.kept_gib and not _overfull(config.changed(ui=config.ui.changed(storage_gib=0)), kinds)
    return " Or write `ui.storage-gib: 0`, which keeps no accounts." if helps else ""


def _cpu_millis(models: int) -> int:
    return models * POD_CPU_MILLIS + NODE_CPU_MILLIS


def _missing_mib(config: StackConfig, pool: GpuPool, node: InstanceType, needs: list[int]) -> int:
    wanted = sum(needs) + len(needs) * host.LEAST_PAGE_CACHE_MIB
    return max(0, wanted - host.room_mib(config, pool, node))


def fitting_cache(config: StackConfig, pool: GpuPool, nodes: Sequence[InstanceType]) -> int | None:
    """The largest limit of the pool's prompt caches with which each of the nodes has enough RAM, in MiB.

    It is useful for each model with a cache, or 0: two full conversations fit, and no GPU reads faster than it copies.
    None if no limit helps.
    """
    caching = [served for served in config.residents_of(pool) if served.effective_prompt_cache_mib]
    if not caching:
        return None
    largest, least = max(served.prompt_cache_mib for served in caching), max(map(enough_mib, caching))
    slow = any(slow_copies(served, pool) for served in caching)
    sizes = [0] if slow else [0, *range(least, largest, STEP_MIB)]

    def is_too_much(mib: int) -> bool:
        tried = config.changed(models=[with_cache(served, mib) for served in config.models])
        return any(_missing_mib(tried, pool, node, host.crowd(tried, pool, node)) for node in nodes)

    fitting = bisect_left(sizes, True, key=is_too_much)
    return sizes[fitting - 1] if fitting else None


def with_cache(served: ServedModel, most_mib: int) -> ServedModel:
    """The model with a prompt cache of at most that size; embedding models have none."""
    most = most_mib if served.effective_prompt_cache_mib else served.prompt_cache_mib
    return served.changed(prompt_cache_mib=min(most, served.prompt_cache_mib))


def _smaller_caches(config: StackConfig, pool: GpuPool, node: InstanceType) -> str:
    """The largest prompt cache that lets the models fit; a change without cost."""
    mib = fitting_cache(config, pool, [node])
    return "" if mib is None else f"Write `prompt-cache-mib: {mib}` for each model with a larger cache."


def _larger(config: StackConfig, pool: GpuPool, node: InstanceType, needs: list[int]) -> str:
    """The cheapest type of the region with the same GPUs that has enough room."""
    others = len(on_gpu_node(config, pool))
    roomy = (
        each
        for each in offerings.cheapest_first(config.region, config.book)
        if (each.gpu, each.gpus, each.arch) == (node.gpu, node.gpus, node.arch)
        and each.vcpu * 1000 >= _cpu_millis(len(needs))
        and each.max_pods >= len(needs) + others
        and not _missing_mib(config, pool, each, needs)
    )
    return next((f"Write {each.name} instead." for each in roomy), "Use fewer models per node.")


def _overfull(config: StackConfig, kinds: list[SystemType]) -> str:
    """The shortage on nodes of the smallest of these types, in words; empty if there is none."""
    nodes, each = config.cluster.system_nodes.count, on_each_system_node()
    others = on_system_nodes(config, find_system_pods(config))
    pods = nodes * len(each) + sum(pod.count for pod in others)
    takes = nodes * min(kind.max_pods for kind in kinds)
    if pods > takes:
        return f"cannot run the stack's {pods} pods: the limit is {takes}"
    needed = nodes * sum(pod.memory_mib for pod in each) + sum(pod.count * pod.memory_mib for pod in others)
    least = min(kind.allocatable_mib for kind in kinds)
    room = nodes * least
    if needed > room:
        return f"cannot hold the stack's pods, which need {needed:,} MiB of RAM: only {room:,} MiB are free"
    bound = PAGE if config.ui.kept_gib else ""
    return _unplaced(others, nodes, least - sum(pod.memory_mib for pod in each), bound, config.system_zones)


def _with_system_nodes(config: StackConfig, count: int) -> StackConfig:
    cluster = config.cluster
    return config.changed(cluster=cluster.changed(system_nodes=cluster.system_nodes.changed(count=count)))


def _unplaced(pods: Sequence[NodePod], nodes: int, room: int, bound: str, zones: int) -> str:
    """The pod that finds no room on any of the nodes, in words; empty if all do.

    The scheduler prefers the node with the most free memory (kubernetes 1.36 pkg/scheduler/framework/plugins/
    noderesources/least_allocated.go). The largest pod may come last, when the others are spread over all nodes. The pod
    `bound` runs in the zone of its volume only, where half of the nodes are, and perhaps the fullest ones.
    """
    free = [room] * nodes
    for pod in sorted(pods, key=lambda pod: pod.memory_mib):
        for _ in range(pod.count):
            most = max(sorted(free)[: max(1, nodes // zones)] if pod.name == bound else free)
            if pod.memory_mib > most:
                return (
                    f"cannot hold {pod.name}, which needs {pod.memory_mib:,} MiB of RAM on one node: only {most:,} MiB "
                    "are free on each"
                )
            free[free.index(most)] -= pod.memory_mib
    return ""


def _roomier(config: StackConfig, kinds: list[SystemType]) -> str:
    """The cheapest fix: one more node, or another type."""
    highest, nodes = max(kind.usd_per_hour for kind in kinds), config.cluster.system_nodes.count
    offers = [
        (nodes * kind.usd_per_hour, f"Write `instance-types: [{kind.name}]`.")
        for kind in system_types().values()
        if kind.arch == kinds[0].arch and not _overfull(config, [kind])
    ]
    if not _overfull(_with_system_nodes(config, nodes + 1), kinds):
        offers.append(((nodes + 1) * highest, f"Write `count: {nodes + 1}`."))
    return min(offers)[1]
