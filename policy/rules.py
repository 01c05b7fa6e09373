"""The rules of the pack. Each finds what `tandem plan` would refuse, and says it in the same sentences."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import combinations
from typing import NamedTuple, Self

from policy.program import (
    NODE_POOL,
    UNKNOWN,
    Group,
    Json,
    Plugin,
    Program,
    Resource,
    Server,
    at,
    items,
    mapping,
    number,
    read_program,
)
from sharing.existing.scheduling import Node, may_run
from sharing.fit.memory import need
from sharing.hardware.gpus import Gpu
from sharing.models.catalogue import KvType, models
from sharing.models.served import DEFAULT_CONTEXT, ServedModel
from sharing.modes.base import LAYOUT_LABEL
from sharing.modes.layouts import Slices
from sharing.modes.modes import Exclusive, Mig, Mps, Sharing, TimeSlicing
from sharing.problems import Problem
from sharing.sections.config import StackConfig
from sharing.sections.pools import POOL, GpuPool
from sharing.verdict.full import judge_fully
from sharing.verdict.rules.table import RULES

CONFIG_LABEL = "nvidia.com/device-plugin.config"
WITHOUT_OPERATOR = ("nvidia.com/gpu.deploy.operands", "nvidia.com/gpu.deploy.device-plugin")
"""Node labels that keep the operator's plugin off, with `false`. Source: gpu-operator v26.7.0 state_manager.go."""
DISCOVERED = re.compile(r"(nvidia\.com|karpenter\.k8s\.aws|(feature\.node|node|topology|beta)?\.?kubernetes\.io)/")
"""Labels that nodes get after they join, without being declared."""
EMPTY = StackConfig.model_validate(
    {"aws:region": "us-east-1", "sharing": {"mode": "exclusive"}, "models": [{"name": "llama2:7b"}]}
)
DEFAULT_CONTEXTS = ((47 * 1024, 262_144), (23 * 1024, 32_768))
"""Ollama's own context length by MiB of its GPU; less memory: `DEFAULT_CONTEXT`. Source: v0.32.15 server/routes.go."""
WORDS = {
    r"gpu-nodes\.instance-types": "instanceTypes",
    r"gpu-nodes\.max": "maxSize",
    r"gpu-nodes\.desired": "desiredSize",
    r"models\[\d+\]\.context": "OLLAMA_CONTEXT_LENGTH",
    r"models\[\d+\]\.slots": "OLLAMA_NUM_PARALLEL",
    r"models\[\d+\]\.kv-type": "OLLAMA_KV_CACHE_TYPE",
    r"sharing\.(\w+)": r"\1",
    r"models\[\d+\]": "the first of these servers",
    r" \(\$[\d.]+ per hour\)": "",
}
"""What fixes call a setting, and its name in a program. The price is that of a stack of ours."""


class Finding(NamedTuple):
    """What a rule refuses, and why."""

    urn: str
    name: str
    message: str

    @classmethod
    def of(cls, resource: Resource, sentence: str, fix: str) -> Self:
        """A finding about a resource, whose name begins the message."""
        return cls(resource.urn, resource.name, f"{resource.name}: {sentence}. {fix}")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One policy of the pack."""

    name: str
    description: str
    find: Callable[[Program], Iterator[Finding]]
    refuses: bool = True


@dataclass(frozen=True, kw_only=True)
class Shared:
    """A group of nodes, how its GPUs are shared, and the servers on them."""

    group: Group
    plugin: Plugin | None
    sharing: Sharing
    servers: Sequence[Server]

    def stack(self, *, known: bool = False) -> tuple[StackConfig, list[Server]]:
        """The group as a stack, and the server of each model; only of models that are `known`."""
        nodes = GpuPool.model_construct(
            name=POOL,
            instance_types=[*self.group.types],
            # An autoscaler may start them all.
            desired=self.group.most_nodes,
            max=self.group.most_nodes,
            provisioner="karpenter" if NODE_POOL.fullmatch(self.group.of.type) else "node-group",
            volume_gib=16384,
            check_offers=False,
        )
        pool = nodes.placed("gpu-nodes", self.sharing)
        tenants = [each for each in self.servers for _ in range(each.pods) if each.models or not known]
        served = [_serve(each, pool).placed(index, f"m{index}", POOL) for index, each in enumerate(tenants)]
        region = self.group.of.region or EMPTY.region
        return EMPTY.changed(region=region, pools=[pool], models=served), tenants

    def say(self, problem: Problem, tenants: Sequence[Server]) -> Finding:
        """The problem of a stack as one of the program."""
        index = re.match(r"models\[(\d+)\]", problem.path)
        at_plugin = problem.path.startswith("sharing") and self.plugin
        where = tenants[int(index[1])].of if index else self.plugin.of if at_plugin and self.plugin else self.group.of
        fix = problem.fix
        for words, name in WORDS.items():
            fix = re.sub(words, name, fix)
        return Finding.of(where, problem.sentence, fix)


def _serve(server: Server, pool: GpuPool) -> ServedModel:
    """The largest model of a server, which unloads the others; for none, the smallest that there is."""
    gpu = pool.smallest.gpu if pool.known_types else None
    given, kinds = server.settings.get, {kind.value: kind for kind in KvType}
    served = [
        ServedModel.of(
            model,
            context=number(given("OLLAMA_CONTEXT_LENGTH"), _context(gpu)),
            slots=number(given("OLLAMA_NUM_PARALLEL"), 1),
            kv_type=kinds.get(str(given("OLLAMA_KV_CACHE_TYPE")), KvType.F16),
        )
        for model in server.models
    ]
    if not served:
        return ServedModel.of(min(models().values(), key=lambda model: model.weights_bytes))
    return max(served, key=lambda each: need(each, gpu).bound if gpu else each.model.weights_bytes)


def _context(gpu: Gpu | None) -> int:
    mib = gpu.cuda_mib if gpu else 0
    return next((context for least, context in DEFAULT_CONTEXTS if mib >= least), DEFAULT_CONTEXT)


def share_groups(program: Program) -> Iterator[Shared]:
    """The groups of a program whose types are known, with the servers that only they can run."""
    for group in program.groups:
        if group.types:
            plugin = _plugin_of(group, program)
            servers = [each for each in program.servers if _groups_of(each, program) == [group]]
            yield Shared(group=group, plugin=plugin, sharing=_sharing_of(group, plugin), servers=servers)


def _plugin_of(group: Group, program: Program) -> Plugin | None:
    """The plugin of the group's nodes, if what it does there is known."""
    found = [each for each in program.plugins if _runs_on(each, group, program)]
    layout = group.labels.get(LAYOUT_LABEL, "all-disabled")
    is_read = layout == "all-disabled" or all(each.layouts is not UNKNOWN for each in found)
    if len(found) > 1:
        program.leave(group.of, "its device plugin, of which it may have several")
    elif layout == "all-enabled" or not is_read:
        program.leave(group.of, f"the MIG layout {layout}")
    elif found and found[0].is_known:
        return found[0]
    return None


def _reaches(pod: Json, group: Group, program: Program, *, surely: bool = False) -> bool:
    """Whether a pod may run on the group; `surely` by what is declared, whatever labels its nodes get later."""
    node = Node(labels=group.labels, taints=group.taints, maybe=None if surely else DISCOVERED)
    try:
        return program.has_one_cluster and may_run(pod, node)
    except (AttributeError, KeyError, TypeError):
        # Not known before `up`, or no form that Kubernetes accepts.
        return False


def _runs_on(plugin: Plugin, group: Group, program: Program, *, surely: bool = False) -> bool:
    if plugin.is_operator and any(group.labels.get(key) == "false" for key in WITHOUT_OPERATOR):
        return False
    return _reaches(plugin.pod, group, program, surely=surely)


def _groups_of(server: Server, program: Program) -> list[Group]:
    return [group for group in program.groups if _reaches(server.pod, group, program)]


def _replicas(plugin: Plugin, group: Group) -> tuple[str, object]:
    """How the plugin shares each GPU, and how often; the replicas of MPS win, as in the plugin."""
    config = _config_of(plugin, group)
    for way in ("mps", "timeSlicing"):
        for each in items(at(config, "sharing", way, "resources")):
            return way, at(each, "replicas")
    return "", None


def _config_of(plugin: Plugin, group: Group) -> Json:
    sole = next(iter(plugin.configs)) if len(plugin.configs) == 1 else "default"
    # The operator falls back to none: v26.7.0 controllers/object_controls.go, FALLBACK_STRATEGIES.
    fallback = "" if plugin.is_operator else sole
    return mapping(plugin.configs.get(group.labels.get(CONFIG_LABEL) or plugin.default or fallback))


def _sharing_of(group: Group, plugin: Plugin | None) -> Sharing:
    if plugin is None:
        return Exclusive()
    way, times = _replicas(plugin, group)
    replicas = number(times, 0)
    layout = group.labels.get(LAYOUT_LABEL, "all-disabled")
    if layout != "all-disabled":
        strategy = plugin.strategy or at(_config_of(plugin, group), "flags", "migStrategy")
        parts = at(next(iter(items(at(plugin.layouts, layout))), None), "mig-devices")
        counts = mapping(parts).items()
        slices = [Slices.model_construct(profile=str(key), count=number(value, 1)) for key, value in counts]
        return Mig.model_construct(
            strategy="mixed" if strategy == "mixed" else "single", layout=slices or layout, replicas=replicas or None
        )
    if replicas < 2:
        return Exclusive()
    return (Mps if way == "mps" else TimeSlicing).model_construct(replicas=replicas)


def _by_table(*names: str, where: Callable[[Shared], object] = bool) -> Callable[[Program], Iterator[Finding]]:
    """What rules of `sharing` refuse in groups, `where` they apply."""
    rules = {rule.name: rule for rule in RULES}
    chosen = [rules[name] for name in names]

    def find(program: Program) -> Iterator[Finding]:
        for shared in filter(where, share_groups(program)):
            config, tenants = shared.stack()
            for rule in chosen:
                yield from (shared.say(problem, tenants) for problem in rule.check(config))

    return find


def _wrong_replicas(program: Program) -> Iterator[Finding]:
    yield from _by_table("the GPU supports the mode")(program)
    for plugin in program.plugins:
        for name, config in plugin.configs.items():
            for way in ("mps", "timeSlicing"):
                for each in items(at(config, "sharing", way, "resources")):
                    # The plugin ends with this error: k8s-device-plugin v0.20.0 api/config/v1/replicas.go.
                    if number(times := at(each, "replicas"), 0) < 2:
                        rule = f"`{way}` in {name} must have at least 2 replicas, not {times}"
                        yield Finding.of(plugin.of, rule, "For one pod per GPU, remove `sharing`.")


def _misfits(program: Program) -> Iterator[Finding]:
    for shared in share_groups(program):
        several = [each for each in shared.servers if sum(each.requests.values()) == 1]
        config, tenants = Shared(**{**vars(shared), "servers": several}).stack(known=True)
        others = {problem for rule in RULES if rule.refuses for problem in rule.check(config)}
        for problem in judge_fully(config).problems if tenants else ():
            if problem not in others:
                yield shared.say(problem, tenants)


def _second_plugins(program: Program) -> Iterator[Finding]:
    for pair in combinations(program.plugins, 2):
        first, second = pair
        both = [each for each in program.groups if all(_runs_on(one, each, program, surely=True) for one in pair)]
        if both:
            rule = f"is a second device plugin on the nodes of {both[0].of.name}, beside {first.of.name}"
            fix = "Remove one, or give each a `nodeSelector` of its own nodes."
            yield Finding.of(second.of, f"{rule}; both register the same GPUs", fix)


def _wrong_requests(program: Program) -> Iterator[Finding]:
    for shared in share_groups(program):
        config, _ = shared.stack()
        pool = config.pools[0]
        offered = {each.resource: each for each in pool.offers}
        if not shared.plugin or not offered:
            continue
        refuses_two = _refuses_two(shared.plugin, shared.group)
        has_one_gpu = all(kind.gpus == 1 for kind in pool.known_types)
        for server in shared.servers:
            for resource, count in server.requests.items():
                # With `renameByDefault`, a share has the name of its GPU and this ending.
                shares = offered.get(resource.removesuffix(".shared"))
                if shares is None:
                    rule = f"requests {resource}, which the nodes of {shared.group.of.name} do not offer"
                    yield Finding.of(server.of, rule, f"Request {' or '.join(offered)}.")
                elif count > 1 < shares.sharers and (refuses_two or (has_one_gpu and shares.sharers == shares.per_gpu)):
                    rule = f"requests {count} × {resource}, but two shares of a GPU are not a double share"
                    yield Finding.of(server.of, rule, "Request 1.")


def _refuses_two(plugin: Plugin, group: Group) -> bool:
    """Whether it refuses pods with two shares, by default for MPS: plugin v0.20.0 api/config/v1/config.go."""
    way, _ = _replicas(plugin, group)
    refuses = at(_config_of(plugin, group), "sharing", way, "failRequestsGreaterThanOne")
    return way == "mps" if refuses is None else refuses is True


def _unchecked(program: Program) -> Iterator[Finding]:
    _ = [*share_groups(program)]
    for server in program.servers:
        if len(_groups_of(server, program)) != 1:
            program.leave(server.of, "its nodes, which are in no group here or in several")
    if program.unchecked:
        what = [f"{name} ({reason})" for name, reason in program.unchecked]
        yield Finding("", "", f"Not checked: {', '.join(what)}.")


POLICY_RULES = (
    Rule(
        name="gpu-instance-types",
        description="GPU nodes have instance types with an NVIDIA GPU that EC2 still offers.",
        find=_by_table("GPU types are known", "GPUs are NVIDIA's", "the region offers the types"),
    ),
    Rule(
        name="one-gpu-per-group",
        description="All instance types of a group that shares GPUs or runs Ollama have the same GPU.",
        find=_by_table("a pool has one kind of GPU", where=lambda it: it.servers or it.sharing.mode != "exclusive"),
    ),
    Rule(name="gpu-supports-mode", description="The GPU can be shared as configured.", find=_wrong_replicas),
    Rule(
        name="share-for-every-server",
        description="There are as many shares as servers.",
        find=_by_table("every model has a share", where=lambda shared: shared.plugin),
    ),
    Rule(name="models-fit", description="The models fit their shares of the GPU.", find=_misfits),
    Rule(name="one-device-plugin", description="A node has one device plugin.", find=_second_plugins),
    Rule(
        name="one-share-per-server",
        description="A server requests one share that its nodes offer.",
        find=_wrong_requests,
    ),
    Rule(name="unchecked", description="Nothing is left unchecked.", find=_unchecked, refuses=False),
)


def find_violations(rule: Rule, resources: Sequence[Resource], exceptions: Sequence[str] = ()) -> list[Finding]:
    """What `rule` refuses in a program, without resources whose name or URN is an exception."""
    found = dict.fromkeys(rule.find(read_program(resources)))
    return [
        each
        for each in found
        if not any(fnmatchcase(text, pattern) for text in (each.name, each.urn) for pattern in exceptions)
    ]
