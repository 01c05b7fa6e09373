"""What a program declares for GPUs: groups of nodes, device plugins and Ollama servers, whatever its language."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from sharing.existing.scheduling import Taint
from sharing.hardware.gpus import InstanceType, instance_types
from sharing.hardware.offerings import family
from sharing.hardware.system_instances import system_types
from sharing.models.catalogue import Model, find
from sharing.names import GPU_TAINT, PLUGIN_CHART, TYPE_LABEL

GROUP, TEMPLATE = "aws:eks/nodeGroup:NodeGroup", "aws:ec2/launchTemplate:LaunchTemplate"
NODE_POOL = re.compile(r"kubernetes:karpenter\.sh/v\w+:NodePool")
RELEASE, CONFIG_MAP = "kubernetes:helm.sh/v3:Release", "kubernetes:core/v1:ConfigMap"
CHART = re.compile(rf"(?:.*/)?({PLUGIN_CHART}|gpu-operator|ollama)(?:-v?\d[^/]*\.tgz)?")
CLUSTER_POLICY = "kubernetes:nvidia.com/v1:ClusterPolicy"
"""Its `spec` has the values of the operator's chart."""
WORKLOADS = re.compile(r"kubernetes:apps/v1:(DaemonSet|Deployment|StatefulSet)")
"""Of manifests, and of charts that Pulumi renders itself (`Chart`)."""
PLUGIN_CONTAINER = f"{PLUGIN_CHART}-ctr"
"""The plugin's container in NVIDIA's chart and manifest; other containers have the same image."""
OLLAMA_IMAGE = re.compile(r"(?:.*/)?ollama(?:[:@].*)?")
PULLED = re.compile(r"\bollama (?:pull|run) ([\w./:-]+)")
MOST_PODS = 64
"""Pods of one server that are judged, to bound the time."""
NO_LIMIT = 100
"""Nodes of a group whose maximum is unknown: enough shares for all servers."""
OF_EKS = {"nodegroup": "nodeGroupName", "capacityType": "capacityType"}
"""Node labels that EKS sets, by the property of the group."""
FAMILY_LABEL, NAME_LABEL = "karpenter.k8s.aws/instance-family", "karpenter.k8s.aws/instance-gpu-name"
ATTRIBUTES: Mapping[str, Callable[[InstanceType], str]] = {
    TYPE_LABEL: lambda kind: kind.name,
    FAMILY_LABEL: lambda kind: family(kind.name),
    NAME_LABEL: lambda kind: re.sub(r"-\d+gb$", "", kind.gpu.name),
    "karpenter.k8s.aws/instance-category": lambda kind: re.split(r"\d", kind.name)[0],
    # EC2 reports none for a part of a GPU.
    "karpenter.k8s.aws/instance-gpu-count": lambda kind: str(0 if kind.gpu.is_slice else kind.gpus),
    "karpenter.k8s.aws/instance-gpu-manufacturer": lambda kind: kind.gpu.vendor,
    "kubernetes.io/arch": lambda kind: kind.arch,
}
"""Labels of Karpenter that choose among GPUs. Source: https://karpenter.sh/v1.14/reference/instance-types/."""
OF_INSTANCES = re.compile(rf"(karpenter\.k8s\.aws|beta\.kubernetes\.io)/|{TYPE_LABEL}|kubernetes\.io/arch")
"""Labels that choose among types, also those that are not read."""
NEW_TYPE = re.compile(r"(g|gr|p)\d.*\..*")
"""A type that has GPUs if the catalogue lacks it."""
TOLERATED = [{"key": GPU_TAINT, "operator": "Exists", "effect": "NoSchedule"}]
"""Default of the charts of NVIDIA: plugin 0.20.0, operator v26.7.0."""
SHARES = re.compile(r"nvidia\.com/(gpu|mig-.+?)(\.shared)?")
"""Resources of NVIDIA's plugin. Others belong to plugins of others, such as HAMi."""
Json = Mapping[str, Any]


class Unknown:
    """A value that Pulumi knows only after `up`."""

    def __str__(self) -> str:
        return "of unknown name"


UNKNOWN = Unknown()


@dataclass(frozen=True, kw_only=True)
class Resource:
    """A resource as the engine shows it to policies, in plain values."""

    urn: str
    type: str
    name: str
    props: Json
    needs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """URNs of the resources from which each property comes."""
    region: str = ""
    cluster: str = ""
    """What stands for its Kubernetes cluster: a provider, or what EKS's node groups name."""


@dataclass(frozen=True, kw_only=True)
class Group:
    """Nodes with GPUs: a node group of EKS or a NodePool of Karpenter."""

    of: Resource
    types: tuple[str, ...]
    """Empty if they are not known."""
    labels: Json
    taints: tuple[Taint, ...]
    most_nodes: int


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """What makes nodes offer their GPUs: NVIDIA's device plugin, or the GPU Operator, which installs it."""

    of: Resource
    pod: Json
    """What chooses its nodes."""
    configs: Json
    default: str
    is_operator: bool
    strategy: str
    layouts: Any
    """The MIG manager's configuration by the node's label; `UNKNOWN` if it is not in the program."""
    is_known: bool
    """Whether the program has its configuration."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """Ollama."""

    of: Resource
    pod: Json
    """What chooses its nodes."""
    models: tuple[Model, ...]
    settings: Json
    """Its environment."""
    requests: Mapping[str, int]
    """Resources of NVIDIA that one pod requests."""
    pods: int


@dataclass(kw_only=True)
class Program:
    """All that a program declares for GPUs."""

    groups: list[Group] = field(default_factory=list)
    plugins: list[Plugin] = field(default_factory=list)
    servers: list[Server] = field(default_factory=list)
    unchecked: dict[tuple[str, str], None] = field(default_factory=dict)
    """Name of a resource and what nobody could check there, each once."""

    @property
    def has_one_cluster(self) -> bool:
        """Whether all of it belongs together."""
        parts = [
            *(each.of for each in self.groups),
            *(each.of for each in self.plugins),
            *(each.of for each in self.servers),
        ]
        of_eks = {each.cluster for each in parts if each.type == GROUP}
        return len(of_eks) < 2 and len({each.cluster for each in parts if each.type != GROUP}) < 2

    def leave(self, resource: Resource, what: object) -> None:
        """Notes what is not checked."""
        self.unchecked[resource.name, str(what)] = None


def plain(value: Any, unknown: type[Exception]) -> Any:
    """A property without the proxies of pulumi-policy, which raise `unknown` at what Pulumi does not know yet.

    Whole numbers arrive as floats.
    """
    if isinstance(value, str) or not isinstance(value, Mapping | Sequence):
        return int(value) if isinstance(value, float) and value.is_integer() else value
    read: dict[Any, Any] = {}
    for key in value if isinstance(value, Mapping) else range(len(value)):
        try:
            read[key] = plain(value[key], unknown)
        except unknown:
            read[key] = UNKNOWN
    return read if isinstance(value, Mapping) else [*read.values()]


def at(value: Any, *path: str) -> Any:
    """The value at a path; None if there is none, `UNKNOWN` if a part of it is unknown."""
    for key in path:
        if not isinstance(value, Mapping):
            return UNKNOWN if value is UNKNOWN else None
        value = value.get(key)
    return value


def items(value: Any) -> list[Any]:
    """A list, without what is unknown in it; empty for anything else."""
    return [each for each in value if each is not UNKNOWN] if isinstance(value, list) else []


def labels(value: Any) -> dict[str, str]:
    """A mapping of text to text, without what is unknown in it; empty for anything else."""
    return {key: each for key, each in mapping(value).items() if isinstance(each, str)}


def mapping(value: Any) -> Json:
    """A mapping; empty for anything else."""
    return value if isinstance(value, Mapping) else {}


def number(value: Any, other: int) -> int:
    """A number, or `other` for what is none."""
    return int(value) if re.fullmatch(r"\d{1,9}", str(value)) else other


def read_program(resources: Iterable[Resource]) -> Program:
    """The parts of a program that concern GPUs."""
    program, by_urn = Program(), {each.urn: each for each in resources}
    maps = {
        name: at(each.props, "data")
        for each in by_urn.values()
        if each.type == CONFIG_MAP and isinstance(name := at(each.props, "metadata", "name"), str)
    }
    for each in by_urn.values():
        chart = CHART.fullmatch(str(each.props.get("chart"))) if each.type == RELEASE else None
        if each.type == GROUP:
            _read_group(each, by_urn, program)
        elif NODE_POOL.fullmatch(each.type):
            _read_node_pool(each, program)
        elif each.type == CLUSTER_POLICY:
            _read_plugin(each, at(each.props, "spec"), maps, program, is_operator=True)
        elif chart and chart[1] == "ollama":
            _read_release_of_ollama(each, program)
        elif chart:
            _read_plugin(each, at(each.props, "values"), maps, program, is_operator=chart[1] == "gpu-operator")
        elif WORKLOADS.fullmatch(each.type):
            _read_workload(each, maps, program)
        if chart and (each.props.get("values") is UNKNOWN or items(each.props.get("valueYamlFiles"))):
            program.leave(each, "its values")
    return program


def _read_group(group: Resource, by_urn: Mapping[str, Resource], program: Program) -> None:
    listed, own = items(group.props.get("instanceTypes")), labels(group.props.get("labels"))
    templates = [by_urn[urn] for urn in group.needs.get("launchTemplate", ()) if urn in by_urn]
    types = listed or [at(each.props, "instanceType") for each in templates if each.type == TEMPLATE]
    names = [each for each in types if isinstance(each, str)]
    keys = [str(at(each, "key")) for each in items(group.props.get("taints"))]
    # A label with `false` keeps NVIDIA's pods off nodes without GPUs.
    marks = [str(group.props.get("amiType")), *keys, *(key for key, value in own.items() if value != "false")]
    is_marked = "nvidia" in " ".join(marks).lower()
    vendors = {kind.gpu.vendor for name in names if (kind := instance_types().get(name))}
    unread = [name for name in names if name not in {**instance_types(), **system_types()}]
    if is_marked or "nvidia" in vendors or any(map(NEW_TYPE.fullmatch, unread)):
        is_read = names and not unread and (is_marked or vendors == {"nvidia"})
        if not is_read:
            program.leave(group, f"the instance type {unread[0]}" if unread else "its instance types")
        given = {f"eks.amazonaws.com/{key}": group.props.get(name) for key, name in OF_EKS.items()}
        most = number(at(group.props, "scalingConfig", "maxSize"), NO_LIMIT)
        every = {**labels(given), **own}
        _add_group(group, names if is_read else [], every, group.props.get("taints"), most, program)


def _read_node_pool(pool: Resource, program: Program) -> None:
    template, limits = at(pool.props, "spec", "template"), at(pool.props, "spec", "limits")
    needs = [(str(at(each, "key")), each) for each in items(at(template, "spec", "requirements"))]
    read = [(key, each) for key, each in needs if _is_read(key, each)]
    # Karpenter starts types without an NVIDIA GPU only for other pods.
    kinds = [
        kind
        for kind in instance_types().values()
        if kind.gpu.vendor == "nvidia"
        and all((ATTRIBUTES[key](kind) in each["values"]) == (each["operator"] == "In") for key, each in read)
    ]
    named = {key: each["values"] for key, each in read if each["operator"] == "In"}
    is_new = any(map(NEW_TYPE.fullmatch, {*map(str, named.get(TYPE_LABEL, ()))} - {*instance_types()}))
    if kinds or is_new or NAME_LABEL in named:
        wanted = [each for each in needs if OF_INSTANCES.match(each[0])]
        is_read = not is_new and all(each in read for each in wanted)
        is_named = not named.keys().isdisjoint((TYPE_LABEL, FAMILY_LABEL, NAME_LABEL))
        types = [kind.name for kind in kinds if is_read and is_named]
        if wanted and not types:
            program.leave(pool, "its requirements")
        # Where a NodeOverlay announces shares, the limit of GPUs is one of shares (docs/decisions/0050): fewer nodes.
        most = number(at(limits, "nvidia.com/gpu"), NO_LIMIT) // min((kind.gpus for kind in kinds), default=1)
        most = min(most, number(at(limits, "nodes"), NO_LIMIT))
        own = {"karpenter.sh/nodepool": at(pool.props, "metadata", "name")}
        every = labels({**own, **mapping(at(template, "metadata", "labels"))})
        _add_group(pool, types, every, at(template, "spec", "taints"), most, program)


def _is_read(key: str, need: Any) -> bool:
    values = at(need, "values")
    return key in ATTRIBUTES and at(need, "operator") in ("In", "NotIn") and items(values) == values


def _add_group(of: Resource, types: Sequence[str], own: Json, taints: Any, most: int, program: Program) -> None:
    only = {TYPE_LABEL: types[0]} if len(types) == 1 else {}
    read = tuple(_read_taint(labels(each)) for each in items(taints))
    program.groups.append(
        Group(of=of, types=tuple(types), labels={**only, **own}, taints=read, most_nodes=max(1, most))
    )


def _read_taint(taint: Mapping[str, str]) -> Taint:
    effect = taint.get("effect", "")
    # EKS writes NO_SCHEDULE, Kubernetes NoSchedule.
    plain_effect = effect.title().replace("_", "") if "_" in effect else effect
    return Taint(key=taint.get("key", ""), value=taint.get("value", ""), effect=plain_effect)


def _read_plugin(plugin: Resource, values: Any, maps: Json, program: Program, *, is_operator: bool) -> None:
    own = at(values, "devicePlugin") if is_operator else values
    if at(own, "enabled") is False:
        return
    name, of_migs = at(own, "config", "name"), at(values, "migManager", "config")
    texts = at(own, "config", "data" if is_operator else "map") or maps.get(str(name))
    is_known = texts is not UNKNOWN and (not name or bool(texts))
    if not is_known:
        program.leave(plugin, f"its configuration {name}" if name else "its configuration")
    layouts = at(of_migs, "data") or maps.get(str(at(of_migs, "name")), at(of_migs, "name"))
    text = at(layouts, "config.yaml")
    tolerations = at(values, "daemonsets", "tolerations") if is_operator else at(values, "tolerations")
    placed = {**mapping(values), "tolerations": tolerations if isinstance(tolerations, list) else TOLERATED}
    program.plugins.append(
        Plugin(
            of=plugin,
            pod=placed,
            configs={key: _parse(text) for key, text in labels(texts).items()},
            default=str(at(own, "config", "default") or ""),
            is_operator=is_operator,
            strategy=str(at(values, "mig", "strategy") or at(values, "migStrategy") or ""),
            layouts=UNKNOWN if layouts and not isinstance(text, str) else at(_parse(text), "mig-configs"),
            is_known=is_known,
        )
    )


def _parse(text: Any) -> Json:
    """The content of YAML or JSON; empty for text that the plugin itself refuses."""
    try:
        return mapping(yaml.safe_load(text) if isinstance(text, str) else None)
    except yaml.YAMLError:
        return {}


def _read_release_of_ollama(release: Resource, program: Program) -> None:
    values = at(release.props, "values")
    gpu, models, limits = at(values, "ollama", "gpu"), at(values, "ollama", "models"), at(values, "resources", "limits")
    if at(gpu, "enabled") is True and str(at(gpu, "type") or "nvidia") == "nvidia":
        own = {str(at(gpu, "nvidiaResource") or "nvidia.com/gpu"): number(at(gpu, "number"), 1) or 1}
        if at(gpu, "mig", "enabled") is True:
            slices = mapping(at(gpu, "mig", "devices"))
            own = {f"nvidia.com/mig-{key}": number(value, 1) for key, value in slices.items()}
        limits = {**own, **mapping(limits)}
    listed = items(models) + items(at(models, "pull")) + items(at(models, "run"))
    container = {"env": at(values, "extraEnv"), "lifecycle": at(values, "lifecycle"), "resources": {"limits": limits}}
    pods = number(at(values, "replicaCount"), 1)
    _add_server(release, container, values, pods, program, listed)


def _read_workload(workload: Resource, maps: Json, program: Program) -> None:
    pod = at(workload.props, "spec", "template", "spec")
    pods = number(at(workload.props, "spec", "replicas"), 1)
    for container in items(at(pod, "containers")):
        if at(container, "name") == PLUGIN_CONTAINER:
            env = {str(at(each, "name")): at(each, "value") for each in items(at(container, "env"))}
            names = [at(each, "configMap", "name") for each in items(at(pod, "volumes"))]
            config = {"name": next(filter(None, names), None), "default": env.get("DEFAULT_CONFIG")}
            values = {"config": config, "migStrategy": env.get("MIG_STRATEGY")}
            values |= {**pod, "tolerations": items(at(pod, "tolerations"))}
            _read_plugin(workload, values, maps, program, is_operator=False)
        elif OLLAMA_IMAGE.fullmatch(str(at(container, "image"))):
            _add_server(workload, container, pod, pods, program)


def _add_server(
    of: Resource, container: Json, pod: Any, pods: int, program: Program, listed: Sequence[Any] = ()
) -> None:
    words = json.dumps(at(container, "lifecycle", "postStart", "exec", "command"), default=str)
    arguments = [word for word in re.findall(r'"([\w./-]+:[\w.-]+)"', words) if find(word)]
    names = [*dict.fromkeys([*map(str, listed), *PULLED.findall(words), *arguments])]
    settings = {str(at(each, "name")): at(each, "value") for each in items(at(container, "env"))}
    asked = mapping(at(container, "resources", "limits")).items()
    requests = {key: number(value, 1) for key, value in asked if SHARES.fullmatch(str(key))}
    if not requests or not pods:
        return
    models = tuple(model for name in names if (model := find(name)))
    # On EKS, pods tolerate taints that are named after what they request (ExtendedResourceToleration).
    tolerations = [*items(at(pod, "tolerations")), *({"key": each, "operator": "Exists"} for each in requests)]
    placed = {**mapping(pod), "tolerations": tolerations}
    program.servers.append(
        Server(of=of, pod=placed, models=models, settings=settings, requests=requests, pods=min(pods, MOST_PODS))
    )
    for unknown in [f"the model {name}" for name in names if find(name) is None] or ([] if names else ["its models"]):
        program.leave(of, unknown)
    for name in (name for name, value in settings.items() if value is UNKNOWN and name.startswith("OLLAMA_")):
        program.leave(of, name)
