"""What every sharing mode has, and the shares that it offers: the base of `sharing.modes.modes`."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import Field

from sharing.hardware import mig
from sharing.hardware.gpus import Gpu
from sharing.hardware.prices import HOME, Market
from sharing.modes.layouts import LayoutSetting, Strategy
from sharing.problems import Problem
from sharing.section import Constructed, Section

GPU_RESOURCE = "nvidia.com/gpu"
ENTIRE_GPU_LABELS = {"nvidia.com/gpu.deploy.operands": "false"}
"""Label of nodes whose GPUs are not partitioned: the GPU Operator, if there is one, runs nothing on them.
Source: gpu-operator v26.7.0, controllers/state_manager.go, hasOperandsDisabled."""
LAYOUT_LABEL = "nvidia.com/mig.config"
"""Node label that selects the layout into which the MIG manager partitions the GPUs."""
LAYOUT_STATE_LABEL = "nvidia.com/mig.config.state"
"""Node label with the MIG manager's result: `pending`, `rebooting`, `success`, `failed`."""
MIG_CAPABLE_LABEL = "nvidia.com/mig.capable"
"""Node label that starts the MIG manager of the GPU Operator, which detects only A100, A30 and H100."""
MPS_LABEL = "nvidia.com/mps.capable"
"""Node label that schedules the MPS daemon of the plugin chart."""
WHOLE = "whole"
"""Layout of a GPU under every mode but MIG."""
WHOLE_WITH_DAEMON = "whole-mps"
"""The same on a node that runs an MPS daemon of its own."""
DEFAULT_REPLICAS = 2
MOST_TIME_SLICES = 64
"""The plugin has no limit; with more, the shares of every GPU are smaller than a CUDA context."""
AllocationPolicy = Literal["packed", "distributed"]
Limits = Literal["equal", "per-model"]
PER_MODEL: Limits = "per-model"
ONE_POD_PER_GPU = "For one pod per GPU, write `mode: exclusive`."
LAYOUTS = ["all-1g.24gb", [{"profile": "1g.24gb", "count": 2}]]
"""Examples of a layout: a preset, and a list of slices."""
MODE = "exclusive, timeslice, mps or mig."
LIMITS = (
    "MPS: `equal` (default) for equal shares of memory and threads, or `per-model` for limits that fit each model "
    "(`models[].share`), on nodes with one GPU."
)
UNUSED = "No effect in this mode; allowed so that you can switch `mode` alone."
STRATEGY = (
    "MIG: `single` (default) for equal slices of a GPU, or `mixed` for different ones, which pods request by name."
)
LAYOUT = (
    "MIG: the slices of each GPU, as a preset (`all-1g.24gb`, `all-balanced`) or a list of `{profile, count}`. "
    "Default: as many as possible of the smallest."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """Shares of one kind that a GPU offers: shares of the GPU, or of its slices of one profile."""

    resource: str
    """Extended resource that a pod requests."""
    per_gpu: int
    memory_mib: int | None
    """Memory of one share; None if every pod sees all of it, first come, first served, or has a limit of its own."""
    unit_mib: int
    """Memory of the GPU or slice that CUDA can use, shared by all of its pods."""
    sharers: int
    """Pods that may be placed on the same GPU or slice."""
    profile: str = ""
    """MIG profile of the slice, e.g. `1g.24gb`; empty for shares of an entire GPU."""
    own_limits: bool = False
    """Whether each pod has a memory limit of its own, and the device plugin only counts the pods."""
    threads: float = 1.0
    """Part of the threads of the GPU or slice that a pod may use at most."""

    @property
    def enforced(self) -> bool:
        """Whether a process that allocates more than its share fails."""
        return self.own_limits or self.memory_mib is not None

    @property
    def threads_percent(self) -> int | None:
        """Part of the threads in per cent, where each pod has limits of its own; else None."""
        return round(self.threads * 100) if self.own_limits else None

    @property
    def strategy(self) -> str:
        """Feature discovery's name for what the plugin does (k8s-device-plugin v0.20.0 api/config/v1/sharing.go)."""
        if self.sharers == 1:
            return "none"
        return "mps" if self.enforced and not self.own_limits else "time-slicing"


class Mode(Constructed, Section):
    """Interface of every mode."""

    mode: str
    limits: Limits | None = Field(default=None, description=LIMITS)

    needs_mig_manager: ClassVar[bool] = False
    """Whether the GPU must be partitioned before the device plugin starts."""

    @property
    def needs_mps_daemon(self) -> bool:
        """Whether the device plugin runs an MPS daemon, and CUDA processes on the GPU are its clients."""
        return False

    @property
    def needs_node_daemon(self) -> bool:
        """Whether the node runs an MPS daemon, and CUDA processes on the GPU are its clients, with their own limits."""
        return False

    @property
    def needs_mps(self) -> bool:
        """Whether CUDA processes on the GPU must be clients of any MPS daemon."""
        return self.needs_mps_daemon or self.needs_node_daemon

    @property
    def way(self) -> str:
        """Its name where kinds of a mode stand side by side: `mps` has equal limits, `mps-per-model` its own."""
        return self.mode

    @property
    def config_name(self) -> str:
        """Name of the device plugin's configuration for this mode, made from all of its settings."""
        return self.mode

    def node_labels(self, gpu: Gpu) -> dict[str, str]:
        """Labels that make a node with `gpu` offer this mode; it must have them when it joins."""
        return dict(ENTIRE_GPU_LABELS)

    @property
    def ready_labels(self) -> dict[str, str]:
        """Labels of a node whose GPUs are ready for this mode: no pod may run there earlier."""
        return {}

    def discovered_labels(self, gpu: Gpu) -> dict[str, str]:
        """Labels that GPU feature discovery writes onto a node with `gpu` once the plugin shares it as configured.

        Source: k8s-device-plugin v0.20.0 internal/lm: resource.go, baseLabeler and getReplicas (1 where nothing is
        replicated); nvml.go, newSharingLabeler, which writes `mps.capable` under every mode. `false` takes the MPS
        daemon off the node, and the GPU leaves EXCLUSIVE_PROCESS mode after that.
        """
        labels = {}
        for shares in self.offers(gpu):
            labels[f"{shares.resource}.sharing-strategy"] = shares.strategy
            labels[f"{shares.resource}.replicas"] = str(shares.sharers)
        return {**labels, MPS_LABEL: str(self.needs_mps_daemon).lower()}

    def cut(self, gpu: Gpu) -> str:
        """What a node has from its start: the complete name of its layout, and whether it runs an MPS daemon.

        Changing it requires a node without pods.
        """
        return WHOLE

    def layout_of(self, gpu: Gpu) -> mig.Layout:
        """The slices of one GPU; empty if it is not partitioned, or `gpu` does not support the layout."""
        return ()

    def plugin_config(self) -> dict[str, Any]:
        """The device plugin's config file, schema v1 (k8s-device-plugin api/config/v1)."""
        return {"version": "v1", "flags": {"migStrategy": "none"}}

    def without_effect(self) -> dict[str, Any]:
        """Settings of the file that have no effect in this mode, by their name there."""
        raise NotImplementedError

    def offers(self, gpu: Gpu) -> tuple[Shares, ...]:
        """The shares of one GPU by kind, the smallest first; empty if `check` finds an error in the layout."""
        raise NotImplementedError

    def check(self, gpu: Gpu, path: str = "sharing", market: Market = HOME, gpus: int = 1) -> list[Problem]:
        """Reasons why `gpu` cannot be shared in this mode on nodes with `gpus` of them.

        Prices in their fixes are those of `market`.
        """
        if self.limits != PER_MODEL:
            return []
        # A warning would not do: a user who writes it relies on limits that are enforced.
        fix = "Write `mode: mps`, or remove `limits`."
        return [Problem(f"{path}.limits", PER_MODEL, f"is not possible with `mode: {self.mode}`", fix)]

    def settings_of(self, *names: str) -> dict[str, Any]:
        """The given settings that are set, by their name in the file."""
        return self.model_dump(include={*names}, exclude_none=True, by_alias=True)


def replicated(key: str, resources: Iterable[str], replicas: int) -> dict[str, Any]:
    """The section `sharing` of the plugin's config: each resource, advertised several times."""
    return {
        key: {
            "renameByDefault": False,
            # Two shares are not a double share and may be on one GPU, so refuse a request for two.
            "failRequestsGreaterThanOne": True,
            "resources": [{"name": resource, "replicas": replicas} for resource in resources],
        }
    }


class EntireGpu(Mode):
    """A mode that does not partition the GPU."""

    strategy: Strategy | None = Field(default=None, description=STRATEGY)
    layout: LayoutSetting | None = Field(default=None, examples=LAYOUTS, description=LAYOUT)

    def without_effect(self) -> dict[str, Any]:
        return self.settings_of("strategy", "layout", "limits")
