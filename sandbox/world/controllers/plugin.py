"""The device plugin, feature discovery, the GPU Operator and its MIG manager: a node's shares, labels and slices."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sandbox.cloud.identity import digest
from sandbox.world import tokens
from sandbox.world.controllers.nodes import gpu_count, labels
from sandbox.world.controllers.pods import DISCOVERY, Values, chart, releases
from sandbox.world.entities import Entities, Entity, GpuState, value_at
from sharing.modes.base import LAYOUT_LABEL, LAYOUT_STATE_LABEL

CONFIG_LABEL = "nvidia.com/device-plugin.config"
OPERANDS = "nvidia.com/gpu.deploy.operands"
"""If this label is `false`, the operator runs nothing on the node.

Source: gpu-operator v26.7.0, controllers/state_manager.go, hasOperandsDisabled.
"""


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration of the device plugin."""

    name: str
    content: dict[str, Any]

    @property
    def is_mps(self) -> bool:
        """Whether it shares GPUs by MPS: they are in EXCLUSIVE_PROCESS mode, and processes are clients of the MPS
        server.

        Source: k8s-device-plugin cmd/mps-control-daemon/mps/daemon.go.
        """
        return bool(value_at(self.content, "sharing.mps"))


@dataclass(frozen=True, slots=True)
class Offer:
    """One resource that a node advertises."""

    count: int
    """Number on the entire node."""
    replicas: int
    """Number per GPU or slice."""
    strategy: str
    """The sharing strategy, as feature discovery names it: `none`, `time-slicing` or `mps`."""


def config_of(entities: Entities, node: Entity) -> Config | None:
    """The current configuration of a node's plugin. None without a GPU or a working plugin."""
    plugin = _plugin(entities, node)
    if plugin is None or not gpu_count(node):
        return None
    configs, default = _configs(plugin)
    return Config(default, json.loads(configs[default])) if default in configs else None


def gpu_state(entities: Entities, node: Entity) -> GpuState:
    """The recorded state of a node's plugin."""
    return entities.gpus.setdefault(node.id, GpuState())


def start_plugins(entities: Entities) -> None:
    """Starts the plugin's pods of new and changed releases, and applies changed labels."""
    nodes = entities.of(tokens.NODE)
    entities.gpus = {node.id: gpu_state(entities, node) for node in nodes}
    for node in nodes:
        state, plugin = entities.gpus[node.id], _plugin(entities, node)
        template = _template(plugin) if plugin else ""
        is_same = template == state.template
        state.lost_shares = plugin is not None and ((is_same and state.lost_shares) or _loses_shares(plugin, node))
        state.template = template


def plugins_on(entities: Entities, node: Entity) -> list[Entity]:
    """The releases that run a device plugin on a node. Two of them would both register with the kubelet."""
    return [entity for entity in entities.within(node.cluster, tokens.RELEASE) if _is_plugin(entities, entity, node)]


def _template(plugin: Entity) -> str:
    # Changed values change the template, which has a checksum of the ConfigMap as annotation.
    return digest(plugin.id, json.dumps(_values(plugin)))


def _loses_shares(plugin: Entity, node: Entity) -> bool:
    """Whether the plugin's pod stops advertising the node's shares, until the pod is recreated.

    It starts with the default configuration, whatever the node's label says. If the label names another one, signals
    then apply it. They restart the plugin twice within milliseconds, after which the kubelet considers the
    resource unhealthy until the pod is recreated (NVIDIA/k8s-device-plugin#1645, docs/decisions/0001).
    """
    return labels(node).get(CONFIG_LABEL, "") not in ("", _configs(plugin)[1])


def advertised(entities: Entities, node: Entity) -> dict[str, Offer]:
    """The resources that a node's plugin advertises under its configuration, by name."""
    plugin, config = _plugin(entities, node), config_of(entities, node)
    if plugin is None or config is None:
        return {}
    values, sharing = _values(plugin), config.content.get("sharing") or {}
    # The operator's strategy is an environment variable, which overrides that of the configuration.
    strategy = value_at(values, "mig.strategy") or value_at(config.content, "flags.migStrategy") or "none"
    slices = cut(entities, node) if strategy != "none" else {}
    shared = (sharing.get("mps") if _labels_features(entities, plugin) else None) or sharing.get("timeSlicing") or {}
    if config.is_mps and (slices or not shared):
        # The MPS daemon only runs on nodes with the label nvidia.com/mps.capable, and does not support slices.
        return {}
    rows = {one["name"]: int(one["replicas"]) for one in shared.get("resources") or ()}
    found = _named(slices, strategy) if slices else {"nvidia.com/gpu": 1}
    how = "mps" if config.is_mps else "time-slicing"
    each = 0 if gpu_state(entities, node).lost_shares else gpu_count(node)
    return {
        name: Offer(each * count * rows.get(name, 1), rows.get(name, 1), how if name in rows else "none")
        for name, count in found.items()
    }


def labels_seen(entities: Entities, node: Entity) -> dict[str, str]:
    """A node's labels, including those set by the MIG manager and feature discovery.

    Names: k8s-device-plugin internal/lm/resource.go.
    """
    has, plugin = labels(node), _plugin(entities, node)
    if LAYOUT_LABEL in has:
        has[LAYOUT_STATE_LABEL] = "success" if cut(entities, node) else "failed"
    if plugin is not None and _labels_features(entities, plugin):
        # internal/lm/nvml.go, newSharingLabeler: the label is `false` under any other sharing mode.
        config = config_of(entities, node)
        has["nvidia.com/mps.capable"] = "true" if config is not None and config.is_mps else "false"
        for resource, offer in advertised(entities, node).items():
            has[f"{resource}.sharing-strategy"] = offer.strategy
            has[f"{resource}.replicas"] = str(offer.replicas)
    return has


def refuses_process(entities: Entities, node: Entity, alive: Iterable[Entity]) -> str | None:
    """Why a new process gets no CUDA context on a node's GPUs. None if it gets one. `alive` are pods with shares there.

    Under MPS, a GPU is in EXCLUSIVE_PROCESS mode and the server must be its only process. A process that started
    without the server keeps the server out. When MPS ends, the server stops, even if it still has clients.
    https://docs.nvidia.com/deploy/mps/ ("Compute modes") and daemon.go as above.
    """
    now = config_of(entities, node)
    for pod in alive:
        began = entities.processes.get(pod.id)
        if now is None or began is None or began.config == now.name or not (began.is_mps or now.is_mps):
            continue
        gpu = "GPU in EXCLUSIVE_PROCESS mode" if now.is_mps else "GPU that has lost its MPS server"
        return f"CUDA_ERROR_DEVICE_UNAVAILABLE ({gpu}, {now.name}: a process of {began.config} runs in {pod.id})"
    return None


def cut(entities: Entities, node: Entity) -> dict[str, int]:
    """Slices of each GPU of a node by profile, which the MIG manager creates by the layout in the node's label.

    Empty without a MIG manager, and for an unknown layout. Whether a GPU supports a layout is not emulated.
    """
    found = releases(entities, node.cluster, "gpu-operator") if _is_operated(entities, node) else []
    managers = [value_at(release.inputs, "values.migManager") or {} for release in found]
    layouts = [_layout(manager, node) for manager in managers if manager.get("enabled") is not False]
    return {name: int(count) for devices in layouts for name, count in devices.items()}


def _layout(manager: Values, node: Entity) -> Values:
    """The devices of the layout that the node's label names."""
    layouts = json.loads((value_at(manager, "config.data") or {}).get("config.yaml") or "{}").get("mig-configs", {})
    return dict(value_at(layouts.get(labels(node).get(LAYOUT_LABEL)), "mig-devices") or {})


def _plugin(entities: Entities, node: Entity) -> Entity | None:
    """The release whose plugin serves the node. Of two, it is the one that registered last; which one is undefined."""
    found = plugins_on(entities, node)
    return found[0] if len(found) == 1 else None


def _values(plugin: Entity) -> Values:
    """Values of the release. The operator's ConfigMap appears under the names of the plugin's chart."""
    values: Values = plugin.inputs.get("values") or {}
    if chart(plugin.inputs) != "gpu-operator":
        return values
    config = value_at(values, "devicePlugin.config") or {}
    return {**values, "config": {"map": config.get("data"), "default": config.get("default")}}


def _configs(plugin: Entity) -> tuple[dict[str, str], str]:
    """The plugin's configurations by name, and the name of the default."""
    values = _values(plugin)
    return value_at(values, "config.map") or {}, str(value_at(values, "config.default") or "")


def _named(slices: dict[str, int], strategy: str) -> dict[str, int]:
    """The resources of slices. With several profiles under `single`, the plugin fails and advertises nothing."""
    if strategy == "single":
        return {"nvidia.com/gpu": sum(slices.values())} if len(slices) == 1 else {}
    return {f"nvidia.com/mig-{profile.replace('+', '.')}": count for profile, count in slices.items()}


def _labels_features(entities: Entities, plugin: Entity) -> bool:
    """Whether GPU feature discovery and node feature discovery run, which together label the node."""
    return bool(value_at(_values(plugin), "gfd.enabled")) and _discovers(entities, plugin.cluster)


def _discovers(entities: Entities, server: str) -> bool:
    """Whether node feature discovery runs. It is a separate release, because a subchart would be a second instance."""
    return bool(releases(entities, server, DISCOVERY))


def _is_operated(entities: Entities, node: Entity) -> bool:
    """Whether the GPU Operator runs its operands on the node. tests/sandbox/gpu_operator.json has a trace of it.

    Source: gpu-operator v26.7.0, controllers/nodelabeling_controller.go.
    """
    if not releases(entities, node.cluster, "gpu-operator") or not _discovers(entities, node.cluster):
        return False
    return gpu_count(node) > 0 and labels(node).get(OPERANDS) != "false"


def _is_plugin(entities: Entities, release: Entity, node: Entity) -> bool:
    of = chart(release.inputs)
    if of not in ("gpu-operator", "nvidia-device-plugin"):
        return False
    values, has = release.inputs.get("values") or {}, labels(node)
    if of == "gpu-operator":
        return _is_operated(entities, node) and value_at(values, "devicePlugin.enabled") is not False
    # The affinity of our plugins selects the same pool.
    return all(has.get(key) == value for key, value in (values.get("nodeSelector") or {}).items())
