"""The device plugin, feature discovery and the MIG manager: what they make of a node's cards, and say of it."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sandbox.cloud.identity import digest
from sandbox.world import tokens
from sandbox.world.hardware import fits, profiles
from sandbox.world.nodes import kind, labels, meets
from sandbox.world.operator_labels import DEVICE_PLUGIN, GPU_PRESENT, MIG_MANAGER, discovers, operated
from sandbox.world.pods import Values, chart, releases
from sandbox.world.things import Thing, Things, value_at, values_at
from sharing.modes import LAYOUT_LABEL, LAYOUT_STATE_LABEL

CONFIG_LABEL = "nvidia.com/device-plugin.config"
PLUGIN_POD = "pluginPod"
"""Where a node says how its plugin's pod is: see `_pod`."""
COUNTED_ON = "countedOn"
"""Where a node of Karpenter's says which extended resources it was bought for."""
STARTED = "started"
"""Where a pod says under which config its process got its share: `{config, mps}`."""


@dataclass(frozen=True, slots=True)
class Config:
    """A config of the device plugin."""

    name: str
    content: dict[str, Any]

    @property
    def is_mps(self) -> bool:
        """Whether its cards are in compute mode EXCLUSIVE_PROCESS, and processes are clients of a server.

        Source: k8s-device-plugin cmd/mps-control-daemon/mps/daemon.go.
        """
        return bool(value_at(self.content, "sharing.mps"))


@dataclass(frozen=True, slots=True)
class Offer:
    """What a node advertises of one resource."""

    count: int
    """On the whole node."""
    replicas: int
    """Of each card or slice."""
    strategy: str
    """What feature discovery calls it: `none`, `time-slicing` or `mps`."""


def config_of(things: Things, node: Thing) -> Config | None:
    """The configuration that a node's plugin runs; None where there is no GPU, or no plugin that works."""
    plugin = _plugin(things, node)
    if plugin is None or kind(node) is None:
        return None
    configs, default = _configs(plugin)
    return Config(default, json.loads(configs[default])) if default in configs else None


def settle(things: Things) -> None:
    """The plugin's pods start where a release brings one or changes its template, and hear of a changed label."""
    for node in things.of(tokens.NODE):
        node.outputs[PLUGIN_POD] = _pod(things, node)


def plugins_on(things: Things, node: Thing) -> list[Thing]:
    """The releases that run a device plugin on a node. Two would both register with the kubelet."""
    return [one for one in things.within(node.cluster, tokens.RELEASE) if _is_plugin(things, one, node)]


def _pod(things: Things, node: Thing) -> dict[str, Any]:
    """The pod of a node's plugin: its release and template, and whether it offers 0 shares.

    It starts with the default configuration, whatever the node's label says. A label that names another one changes it
    by signals; two restarts of the plugin within milliseconds then leave the kubelet with a resource that it takes for
    unhealthy, until the pod is made again (NVIDIA/k8s-device-plugin#1645, docs/decisions/0001).
    """
    plugin = _plugin(things, node)
    if plugin is None:
        return {}
    label, (_, default) = labels(node).get(CONFIG_LABEL, ""), _configs(plugin)
    # Changed values change the template: its annotation is a checksum of the ConfigMap.
    key = digest(plugin.id, chart(plugin.inputs), json.dumps(_values(plugin), sort_keys=True))
    before = node.outputs.get(PLUGIN_POD) or {}
    was_lost = before.get("key") == key and before["lost"]
    return {"key": key, "lost": was_lost or label not in ("", default)}


def offered(things: Things, node: Thing) -> dict[str, int]:
    """Extended resources of a node. Where Karpenter counted on fewer, no more of them: the pods of an `up` come
    together, and it decides before the node's plugin has spoken.
    """
    counted = node.outputs.get(COUNTED_ON)
    shared = {resource: offer.count for resource, offer in advertised(things, node).items()}
    return shared if counted is None else {key: min(count, counted.get(key, 0)) for key, count in shared.items()}


def advertised(things: Things, node: Thing) -> dict[str, Offer]:
    """What a node's plugin makes of its cards, as its config tells it to share them, by resource."""
    plugin, what, config = _plugin(things, node), kind(node), config_of(things, node)
    if plugin is None or what is None or config is None:
        return {}
    values, sharing = _values(plugin), config.content.get("sharing") or {}
    # As environment the operator's strategy beats that of each config.
    strategy = value_at(values, "mig.strategy") or value_at(config.content, "flags.migStrategy") or "none"
    slices = cut(things, node) if strategy != "none" else {}
    shared = (sharing.get("mps") if _labels_features(things, plugin) else None) or sharing.get("timeSlicing") or {}
    if config.is_mps and (slices or not shared):
        # The MPS daemon lands only where feature discovery has set nvidia.com/mps.capable, and takes no slices.
        return {}
    rows = {one["name"]: int(one["replicas"]) for one in shared.get("resources") or ()}
    suffix = ".shared" if shared.get("renameByDefault") else ""
    found = _named(slices, strategy) if slices else {"nvidia.com/gpu": 1}
    how = "mps" if config.is_mps else "time-slicing"
    each = 0 if _pod(things, node).get("lost") else what.gpus
    return {
        f"{name}{suffix}": Offer(each * count * rows.get(name, 1), rows.get(name, 1), how if name in rows else "none")
        for name, count in found.items()
    }


def labels_seen(things: Things, node: Thing) -> dict[str, str]:
    """A node's labels, with those that the GPU Operator, the MIG manager and feature discovery write.

    Names: k8s-device-plugin internal/lm/resource.go.
    """
    has, plugin = operated(things, node), _plugin(things, node)
    if LAYOUT_LABEL in has:
        has[LAYOUT_STATE_LABEL] = "success" if cut(things, node) else "failed"
    if plugin is not None and _labels_features(things, plugin):
        # internal/lm/nvml.go, newSharingLabeler: also `false` where the config shares in another way.
        config = config_of(things, node)
        has["nvidia.com/mps.capable"] = "true" if config is not None and config.is_mps else "false"
        for resource, offer in advertised(things, node).items():
            has[f"{resource}.sharing-strategy"] = offer.strategy
            has[f"{resource}.replicas"] = str(offer.replicas)
    return has


def card_refuses(things: Things, node: Thing, alive: Iterable[Thing]) -> str | None:
    """Why a new process gets no context on a node's cards; None when it does. `alive` are pods that hold shares there.

    Under MPS a card is in compute mode EXCLUSIVE_PROCESS, and the server is to be its one process: one that began
    without the server keeps it out. When the mode goes, the server goes, also under clients that live.
    https://docs.nvidia.com/deploy/mps/ ("Compute modes") and daemon.go as above.
    """
    now = config_of(things, node)
    for pod in alive:
        began = pod.outputs.get(STARTED)
        if now is None or not began or began["config"] == now.name or not (began["mps"] or now.is_mps):
            continue
        card = "EXCLUSIVE_PROCESS card" if now.is_mps else "card that has lost its MPS server"
        return f"CUDA_ERROR_DEVICE_UNAVAILABLE ({card} of {now.name}: a process of {began['config']} lives in {pod.id})"
    return None


def _plugin(things: Things, node: Thing) -> Thing | None:
    """The release that has the node. Of two, the one that registered last with the kubelet has it; which one that is,
    nobody knows.
    """
    found = plugins_on(things, node)
    return found[0] if len(found) == 1 else None


def _values(plugin: Thing) -> Values:
    """Values of the release. The operator's config map stands under the names that the plugin's chart has for it."""
    values: Values = plugin.inputs.get("values") or {}
    if chart(plugin.inputs) != "gpu-operator":
        return values
    config = value_at(values, "devicePlugin.config") or {}
    return {**values, "config": {"map": config.get("data"), "default": config.get("default")}}


def _configs(plugin: Thing) -> tuple[dict[str, str], str]:
    """The plugin's configurations by name, and the name of the default."""
    values = _values(plugin)
    return value_at(values, "config.map") or {}, str(value_at(values, "config.default") or "")


def _named(slices: dict[str, int], strategy: str) -> dict[str, int]:
    """The resources of slices. Several profiles under `single` are an error of the plugin: it offers nothing."""
    if strategy == "single":
        return {"nvidia.com/gpu": sum(slices.values())} if len(slices) == 1 else {}
    return {f"nvidia.com/mig-{profile.replace('+', '.')}": count for profile, count in slices.items()}


def _labels_features(things: Things, plugin: Thing) -> bool:
    """Whether somebody finds out about the GPUs, and somebody else writes that on the node."""
    return bool(value_at(_values(plugin), "gfd.enabled")) and discovers(things, plugin.cluster)


def _is_plugin(things: Things, release: Thing, node: Thing) -> bool:
    of = chart(release.inputs)
    if of not in ("gpu-operator", "nvidia-device-plugin"):
        return False
    values, has = release.inputs.get("values") or {}, operated(things, node)
    if of == "gpu-operator":
        return has.get(DEVICE_PLUGIN) == "true" and value_at(values, "devicePlugin.enabled") is not False
    selector = values.get("nodeSelector") or {}
    if any(has.get(key) != value for key, value in selector.items()):
        return False
    required = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    terms = values_at(values, required)
    if terms:
        return any(all(meets(has, one) for one in term.get("matchExpressions") or ()) for term in terms)
    # The chart's own terms: this label, or the one that feature discovery writes for NVIDIA's PCI devices.
    return has.get(GPU_PRESENT) == "true" or (kind(node) is not None and discovers(things, node.cluster))


def cut(things: Things, node: Thing) -> dict[str, int]:
    """Slices of each card of a node by profile: what the MIG manager makes of the layout that the node's label names.

    Empty where there is no manager, or no such layout, or the card cannot be cut so: then the card stays whole.
    """
    what = kind(node)
    if what is None or operated(things, node).get(MIG_MANAGER) != "true":
        return {}
    for release in releases(things, node.cluster, "gpu-operator"):
        manager = value_at(release.inputs, "values.migManager") or {}
        data = (value_at(manager, "config.data") or {}).get("config.yaml") or "{}"
        wanted = json.loads(data).get("mig-configs", {}).get(labels(node).get(LAYOUT_LABEL, ""), [])
        slices = {name: int(count) for one in wanted for name, count in (one.get("mig-devices") or {}).items()}
        known = profiles(what.gpu)
        if slices.keys() <= known.keys() and known:
            layout = tuple((known[name], count) for name, count in slices.items())
            return slices if manager.get("enabled") is not False and fits(layout, what.gpu) else {}
    return {}
