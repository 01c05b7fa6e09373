"""Pods: which ones a release makes, what they need, and on which node the scheduler puts them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from sandbox.world.nodes import TYPE_LABEL, ZONE_LABEL, labels, nodes, taints
from sandbox.world.storage import bound, claims, class_named, driver_missing, zones
from sandbox.world.things import POD, RELEASE, Key, Thing, Things, value_at
from sharing.gpus import instance_types
from sharing.mig import fits, profiles
from sharing.modes import CONFIG_LABEL, LAYOUT_LABEL, LAYOUT_STATE_LABEL

GPU_PRESENT = "nvidia.com/gpu.present"
COUNTED_ON = "countedOn"
"""Where a node of Karpenter's says which extended resources it was bought for."""
Values = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """What the scheduler looks at. CPU and memory are not modelled."""

    name: str
    selector: dict[str, str] = field(default_factory=dict)
    tolerations: tuple[dict[str, Any], ...] = ()
    needs: dict[str, int] = field(default_factory=dict)
    """Extended resources."""
    claims: tuple[str, ...] = ()
    claim_is_the_charts: bool = False
    """The chart makes the claim, of `storage_class`."""
    storage_class: str | None = None
    avoids: tuple[str, ...] = ()
    """Labels that a node must not have."""
    apart: str = ""
    """Pods of the same word never share a node (required anti-affinity by host name)."""
    is_waited_for: bool = True
    """False where Helm's wait does without it: it counts replicas minus maxUnavailable (seen by running it)."""


def chart(inputs: Values) -> str:
    """Name of a release's chart: the last part of its reference."""
    return str(inputs.get("chart") or "").rstrip("/").rpartition("/")[2]


def _ollama(release: str, values: Values) -> list[Pod]:
    name = str(values.get("fullnameOverride") or release)
    gpu = value_at(values, "ollama.gpu") or {}
    needs = (
        {str(gpu.get("nvidiaResource") or "nvidia.com/gpu"): int(gpu.get("number") or 1)} if gpu.get("enabled") else {}
    )
    disk = values.get("persistentVolume") or {}
    claim = str(disk.get("existingClaim") or name) if disk.get("enabled") else ""
    count = values.get("replicaCount")
    return [
        Pod(
            name=f"{name}-{index}",
            selector=dict(values.get("nodeSelector") or {}),
            tolerations=tuple(values.get("tolerations") or ()),
            needs=needs,
            claims=(claim,) if claim else (),
            claim_is_the_charts=not disk.get("existingClaim"),
            storage_class=disk.get("storageClass"),
        )
        for index in range(1 if count is None else int(count))
    ]


def _device_plugin(release: str, values: Values) -> list[Pod]:
    """Feature discovery's two Deployments. Its DaemonSets count for nothing in Helm's wait."""
    if not value_at(values, "gfd.enabled") and not value_at(values, "nfd.enabled"):
        return []
    return [Pod(name=f"{release}-node-feature-discovery-{part}") for part in ("master", "gc")]


_CRITICAL = {"key": "CriticalAddonsOnly", "operator": "Exists"}


def _karpenter(release: str, values: Values) -> list[Pod]:
    count = values.get("replicas")
    return [
        Pod(
            name=f"{release}-{index}",
            tolerations=(_CRITICAL,),
            avoids=("karpenter.sh/nodepool",),
            apart=release,
            is_waited_for=index == 0,
        )
        for index in range(2 if count is None else int(count))
    ]


def _operator(release: str, values: Values) -> list[Pod]:
    parts = ["gpu-operator", f"{release}-node-feature-discovery-master", f"{release}-node-feature-discovery-gc"]
    return [Pod(name=part) for part in parts]


# What the pinned charts make of our values, from rendering and running them. Others have no pods here.
CHARTS: dict[str, Callable[[str, Values], list[Pod]]] = {
    "ollama": _ollama,
    "nvidia-device-plugin": _device_plugin,
    "karpenter": _karpenter,
    "gpu-operator": _operator,
}


def pods_of(inputs: Values) -> list[Pod]:
    """The pods of a release with these inputs."""
    make = CHARTS.get(chart(inputs))
    return make(str(inputs.get("name")), inputs.get("values") or {}) if make else []


def offered(things: Things, node: Thing) -> dict[str, int]:
    """Extended resources of a node. Where Karpenter counted on fewer, no more of them: the pods of an `up` come
    together, and it decides before the node's plugin has spoken.
    """
    counted = node.outputs.get(COUNTED_ON)
    shared = _shared(things, node)
    return shared if counted is None else {key: min(count, counted.get(key, 0)) for key, count in shared.items()}


def _shared(things: Things, node: Thing) -> dict[str, int]:
    """A node's cards, as the device plugin is told to share them.

    The node's label picks the plugin's config, the release's default serves a node without it (NVIDIA/k8s-device-plugin
    README, "Per-node configuration").
    """
    kind = instance_types().get(labels(node).get(TYPE_LABEL, ""))
    plugins = [one for one in things.of(RELEASE) if one.cluster == node.cluster and _is_plugin(one, node)]
    if kind is None or len(plugins) != 1:
        # Of two plugins, the one that registered last with the kubelet has the node; which one that is, nobody knows.
        return {}
    values = plugins[0].inputs.get("values") or {}
    if chart(plugins[0].inputs) == "gpu-operator":
        values = {**values, "config": _as_the_plugin_has_it(values)}
    configs, default = value_at(values, "config.map") or {}, value_at(values, "config.default")
    text = configs.get(labels(node).get(CONFIG_LABEL, default))
    if text is None:
        # "specified config … does not exist": the pod crashes and the node offers nothing.
        return {} if configs else {"nvidia.com/gpu": kind.gpus}
    config = json.loads(text)
    sharing = config.get("sharing") or {}
    # As environment the operator's strategy beats that of each config.
    strategy = value_at(values, "mig.strategy") or value_at(config, "flags.migStrategy") or "none"
    slices = cut(things, node) if strategy != "none" else {}
    shared = (sharing.get("mps") if _is_on(values, "gfd") else None) or sharing.get("timeSlicing") or {}
    if sharing.get("mps") and (slices or not shared):
        # The MPS daemon lands only where feature discovery has set nvidia.com/mps.capable, and takes no slices.
        return {}
    rows = {one["name"]: int(one["replicas"]) for one in shared.get("resources") or ()}
    suffix = ".shared" if shared.get("renameByDefault") else ""
    found = _named(slices, strategy) if slices else {"nvidia.com/gpu": 1}
    return {f"{name}{suffix}": kind.gpus * count * rows.get(name, 1) for name, count in found.items()}


def _named(slices: dict[str, int], strategy: str) -> dict[str, int]:
    """The resources of slices. Several profiles under `single` are an error of the plugin: it offers nothing."""
    if strategy == "single":
        return {"nvidia.com/gpu": sum(slices.values())} if len(slices) == 1 else {}
    return {f"nvidia.com/mig-{profile.replace('+', '.')}": count for profile, count in slices.items()}


def _as_the_plugin_has_it(values: Values) -> Values:
    """The operator's config map, under the names that the plugin's chart has for the same."""
    config = value_at(values, "devicePlugin.config") or {}
    return {"map": config.get("data"), "default": config.get("default")}


def _is_on(values: Values, part: str) -> bool:
    """Whether a part is there that the plugin's chart leaves out, and the operator's brings, when nothing is said."""
    told = value_at(values, f"{part}.enabled")
    return bool("devicePlugin" in values if told is None else told)


def _is_plugin(release: Thing, node: Thing) -> bool:
    values = release.inputs.get("values") or {}
    if chart(release.inputs) == "gpu-operator":
        # It does nothing for a node without the labels of feature discovery (seen by running it).
        return value_at(values, "nfd.enabled") is not False and value_at(values, "devicePlugin.enabled") is not False
    is_seen = labels(node).get(GPU_PRESENT) == "true" or bool(value_at(values, "gfd.enabled"))
    return chart(release.inputs) == "nvidia-device-plugin" and is_seen


def cut(things: Things, node: Thing) -> dict[str, int]:
    """Slices of each card of a node by profile: what the MIG manager makes of the layout that the node's label names.

    Empty where there is no manager, or no such layout, or the card cannot be cut so: then the card stays whole.
    """
    kind = instance_types().get(labels(node).get(TYPE_LABEL, ""))
    for release in things.of(RELEASE):
        if release.cluster == node.cluster and chart(release.inputs) == "gpu-operator" and kind is not None:
            values = release.inputs.get("values") or {}
            manager = value_at(values, "migManager") or {}
            data = (value_at(manager, "config.data") or {}).get("config.yaml") or "{}"
            wanted = json.loads(data).get("mig-configs", {}).get(labels(node).get(LAYOUT_LABEL, ""), [])
            slices = {name: int(count) for one in wanted for name, count in (one.get("mig-devices") or {}).items()}
            known = profiles(kind.gpu)
            if slices.keys() <= known.keys() and known:
                layout = tuple((known[name], count) for name, count in slices.items())
                return slices if manager.get("enabled") is not False and fits(layout, kind.gpu) else {}
    return {}


def placed(
    things: Things,
    server: str,
    namespace: str,
    pods: Iterable[Pod],
    ignored: Key | None = None,
    coming: Iterable[Thing] = (),
) -> list[Thing | str]:
    """For each pod its node, or why it has none. `ignored` is the release whose present pods make room, `coming` are
    nodes that are not there yet.
    """
    taken: dict[tuple[str, str], int] = {}
    for one in things.of(POD):
        if one.owner != ignored:
            values = one.outputs
            _take(taken, str(values.get("node") or ""), values.get("needs") or {}, values.get("apart") or "")
    there = [*nodes(things, server), *coming]
    found: list[Thing | str] = []
    for pod in pods:
        node = _node_for(things, server, namespace, pod, there, taken)
        if isinstance(node, Thing):
            _take(taken, node.id, pod.needs, pod.apart)
        found.append(node)
    return found


def _take(taken: dict[tuple[str, str], int], node: str, needs: dict[str, int], apart: str) -> None:
    for resource, count in {**needs, _group(apart): 1}.items():
        taken[node, resource] = taken.get((node, resource), 0) + count


def _group(apart: str) -> str:
    """A word that is no resource's name."""
    return f"apart: {apart}"


def _node_for(
    things: Things, server: str, namespace: str, pod: Pod, there: list[Thing], taken: dict[tuple[str, str], int]
) -> Thing | str:
    reasons: dict[str, int] = {}
    for name in pod.claims:
        if (problem := _claim_problem(things, server, namespace, pod, name)) is not None:
            return problem
    for node in there:
        reason = _unfit(things, server, namespace, pod, node, taken)
        if reason is None:
            return node
        reasons[reason] = reasons.get(reason, 0) + 1
    why = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
    return f"0/{len(there)} nodes are available" + (f": {why}." if why else ".")


def _claim_problem(things: Things, server: str, namespace: str, pod: Pod, name: str) -> str | None:
    if claims(things, server, namespace, name) is None:
        if not pod.claim_is_the_charts:
            return f'persistentvolumeclaim "{name}" not found'
        if class_named(things, server, pod.storage_class) is None:
            return f"pod has unbound immediate PersistentVolumeClaims ({name}: no storage class)"
    missing = driver_missing(things, server)
    return f"FailedAttachVolume for claim {name}: {missing}" if missing else None


def _unfit(
    things: Things, server: str, namespace: str, pod: Pod, node: Thing, taken: dict[tuple[str, str], int]
) -> str | None:
    """Why the scheduler does not take the node, in its words."""
    has = labels(node)
    if LAYOUT_LABEL in has:
        has[LAYOUT_STATE_LABEL] = "success" if cut(things, node) else "failed"
    if any(has.get(key) != value for key, value in pod.selector.items()) or any(key in has for key in pod.avoids):
        return "node(s) didn't match Pod's node affinity/selector"
    for taint in taints(node):
        if not _tolerates(pod, taint):
            return f"node(s) had untolerated taint {{{taint.get('key')}: {taint.get('value') or ''}}}"
    if pod.apart and taken.get((node.id, _group(pod.apart))):
        return "node(s) didn't match pod anti-affinity rules"
    for name in pod.claims:
        claim = claims(things, server, namespace, name)
        wanted = zones(bound(things, claim)) if claim else []
        if wanted and has.get(ZONE_LABEL) not in wanted:
            return "node(s) didn't match PersistentVolume's node affinity"
    offers = offered(things, node) if pod.needs else {}
    for resource, count in pod.needs.items():
        if offers.get(resource, 0) - taken.get((node.id, resource), 0) < count:
            return f"Insufficient {resource}"
    return None


def _tolerates(pod: Pod, taint: dict[str, Any]) -> bool:
    if taint.get("effect") == "PREFER_NO_SCHEDULE" or taint.get("key") in pod.needs:
        # EKS runs with ExtendedResourceToleration: a pod tolerates the taint named as the resource that it requests.
        return True
    return any(
        one.get("key") in (None, "", taint.get("key"))
        and (one.get("operator") == "Exists" or one.get("value") == taint.get("value"))
        for one in pod.tolerations
    )
