"""Sharing modes as data: a discriminated union whose members have the same methods.

A mode defines the resource that a pod requests, the configuration of the NVIDIA device plugin, the node labels, the
shares of a GPU, and which GPUs support it. No other code asks for the name of a mode.
"""

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from sharing.hardware import mig
from sharing.hardware.gpus import Gpu
from sharing.hardware.prices import HOME, Market
from sharing.modes import layouts
from sharing.modes.layouts import LayoutSetting, Strategy
from sharing.problems import LIMIT, Problem
from sharing.section import Fix

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
DEFAULT_REPLICAS = 2
MOST_TIME_SLICES = 64
"""The plugin has no limit; with more, the shares of every GPU are smaller than a CUDA context."""
MPS_MOST_REPLICAS = 48
MPS_MOST_REPLICAS_BEFORE_TURING = 16
"""Replicas of one GPU that the device plugin allows: 48 from compute capability 7.5 on, 16 before.

NVIDIA's MPS itself takes 48 clients from Volta (7.0) on. Source: k8s-device-plugin v0.20.0
cmd/mps-control-daemon/mps/device.go, where `isAtLeastVolta` compares with 7.5.
"""
MPS_SERVER_MIB = 30
"""GPU memory of the MPS server by nvidia-smi: 25 to 30 MiB. On an H100 it was 66, and each client held 278 less."""
TURING = (7, 5)
VOLTA = (7, 0)

AllocationPolicy = Literal["packed", "distributed"]
ONE_POD_PER_GPU = "For one pod per GPU, write `mode: exclusive`."
ONE_POD_PER_SLICE = "For one pod per slice, remove `replicas`."
LAYOUTS = ["all-1g.24gb", [{"profile": "1g.24gb", "count": 2}]]
"""Examples of a layout: a preset, and a list of slices."""
MODE = "exclusive, timeslice, mps or mig."
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
    """Memory of one share; None if every pod sees all of it, first come, first served."""
    unit_mib: int
    """Memory of the GPU or slice that CUDA can use, shared by all of its pods."""
    sharers: int
    """Pods that may be placed on the same GPU or slice."""
    profile: str = ""
    """MIG profile of the slice, e.g. `1g.24gb`; empty for shares of an entire GPU."""

    @property
    def enforced(self) -> bool:
        """Whether a process that allocates more than its share fails."""
        return self.memory_mib is not None


def sharing_strategy(sharers: int, enforced: bool) -> str:
    """Feature discovery's name for a sharing mode (k8s-device-plugin v0.20.0 api/config/v1/sharing.go)."""
    if sharers == 1:
        return "none"
    return "mps" if enforced else "time-slicing"


class Mode(BaseModel):
    """Interface of every mode. Field names are kebab-case in a stack file, snake_case in Python."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=lambda name: name.replace("_", "-"),
        validate_by_name=True,
        validate_by_alias=True,
    )

    mode: str

    needs_mig_manager: ClassVar[bool] = False
    """Whether the GPU must be partitioned before the device plugin starts."""
    needs_mps_daemon: ClassVar[bool] = False
    """Whether CUDA processes on the GPU are clients of an MPS server."""

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
            labels[f"{shares.resource}.sharing-strategy"] = sharing_strategy(shares.sharers, shares.enforced)
            labels[f"{shares.resource}.replicas"] = str(shares.sharers)
        return {**labels, MPS_LABEL: str(self.needs_mps_daemon).lower()}

    def cut(self, gpu: Gpu) -> str:
        """Complete name of the layout of the GPU. Changing it requires a node without pods."""
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

    def check(self, gpu: Gpu, path: str = "sharing", market: Market = HOME) -> list[Problem]:
        """Reasons why `gpu` cannot be shared in this mode; prices in their fixes are those of `market`."""
        return []

    def settings_of(self, *names: str) -> dict[str, Any]:
        """The given settings that are set, by their name in the file."""
        return self.model_dump(include={*names}, exclude_none=True, by_alias=True)


def _replicated(key: str, resources: Iterable[str], replicas: int) -> dict[str, Any]:
    """The section `sharing` of the plugin's config: each resource, advertised several times."""
    return {
        key: {
            "renameByDefault": False,
            # Two shares are not a double share and may be on one GPU, so refuse a request for two.
            "failRequestsGreaterThanOne": True,
            "resources": [{"name": resource, "replicas": replicas} for resource in resources],
        }
    }


class _Whole(Mode):
    """A mode that does not partition the GPU."""

    strategy: Strategy | None = Field(default=None, description=STRATEGY)
    layout: LayoutSetting | None = Field(default=None, examples=LAYOUTS, description=LAYOUT)

    def without_effect(self) -> dict[str, Any]:
        return self.settings_of("strategy", "layout")


def _of_entire_gpu(replicas: int, *, memory_mib: int | None, unit_mib: int) -> tuple[Shares, ...]:
    """The shares of a GPU that is not partitioned."""
    return (
        Shares(resource=GPU_RESOURCE, per_gpu=replicas, memory_mib=memory_mib, unit_mib=unit_mib, sharers=replicas),
    )


class Exclusive(_Whole):
    """One pod has the entire GPU."""

    mode: Literal["exclusive"] = Field(default="exclusive", description=MODE)
    replicas: int | None = Field(default=None, description=UNUSED)
    allocation_policy: AllocationPolicy | None = Field(default=None, description=UNUSED)

    def without_effect(self) -> dict[str, Any]:
        return self.settings_of("replicas", "allocation_policy", "strategy", "layout")

    def offers(self, gpu: Gpu) -> tuple[Shares, ...]:
        return _of_entire_gpu(1, memory_mib=gpu.cuda_mib, unit_mib=gpu.cuda_mib)


class _Replicated(_Whole):
    """A GPU that the device plugin advertises several times."""

    plugin_key: ClassVar[str]
    """Key of this mode in the plugin's config."""

    replicas: Annotated[int, Fix(ONE_POD_PER_GPU)] = Field(
        default=DEFAULT_REPLICAS, ge=2, le=MOST_TIME_SLICES, description="Shares per GPU."
    )
    allocation_policy: AllocationPolicy = Field(
        default="packed",
        description="On a node with several GPUs: fill one GPU before the next (`packed`) or spread (`distributed`).",
    )

    @property
    def config_name(self) -> str:
        return f"{self.mode}-{self.replicas}{_policy_suffix(self.allocation_policy)}"

    def plugin_config(self) -> dict[str, Any]:
        config = super().plugin_config()
        config["flags"]["plugin"] = {"sharedDevicesAllocationPolicy": self.allocation_policy}
        config["sharing"] = _replicated(self.plugin_key, [GPU_RESOURCE], self.replicas)
        return config


def _policy_suffix(policy: AllocationPolicy | None) -> str:
    return "-distributed" if policy == "distributed" else ""


class TimeSlicing(_Replicated):
    """Pods take turns on the GPU; each sees all of its memory, and none is protected from the others."""

    plugin_key: ClassVar[str] = "timeSlicing"
    mode: Literal["timeslice"] = Field(default="timeslice", description=MODE)

    def offers(self, gpu: Gpu) -> tuple[Shares, ...]:
        return _of_entire_gpu(self.replicas, memory_mib=None, unit_mib=gpu.cuda_mib)


class Mps(_Replicated):
    """Pods run at the same time through CUDA MPS; each client process has a hard memory limit."""

    plugin_key: ClassVar[str] = "mps"
    needs_mps_daemon: ClassVar[bool] = True
    mode: Literal["mps"] = Field(default="mps", description=MODE)
    replicas: Annotated[int, Fix(ONE_POD_PER_GPU)] = Field(
        default=DEFAULT_REPLICAS, ge=2, le=MPS_MOST_REPLICAS, description="Shares per GPU."
    )

    def offers(self, gpu: Gpu) -> tuple[Shares, ...]:
        return _of_entire_gpu(
            self.replicas, memory_mib=gpu.nvml_mib // self.replicas, unit_mib=gpu.cuda_mib - MPS_SERVER_MIB
        )

    def check(self, gpu: Gpu, path: str = "sharing", market: Market = HOME) -> list[Problem]:
        if gpu.compute_capability < VOLTA:
            return [Problem(f"{path}.mode", "mps", f"needs Volta or newer; {gpu.title} is older", "Use `timeslice`.")]
        most = MPS_MOST_REPLICAS if gpu.compute_capability >= TURING else MPS_MOST_REPLICAS_BEFORE_TURING
        if self.replicas <= most:
            return []
        rule = f"must be at most {most} for MPS on one {gpu.title}"
        return [Problem(f"{path}.replicas", str(self.replicas), rule, f"Write `replicas: {most}` or fewer.", LIMIT)]


class Mig(Mode):
    """Each pod has a hardware slice of the GPU, with memory and compute of its own."""

    mode: Literal["mig"] = Field(default="mig", description=MODE)
    strategy: Strategy = Field(default="single", description=STRATEGY)
    layout: LayoutSetting | None = Field(default=None, examples=LAYOUTS, description=LAYOUT)
    replicas: Annotated[int | None, Fix(ONE_POD_PER_SLICE)] = Field(
        default=None,
        ge=2,
        le=MOST_TIME_SLICES,
        description="Pods that take turns on a slice. Default: one pod per slice.",
    )
    allocation_policy: AllocationPolicy | None = Field(
        default=None, description="With `replicas`: which slice is filled first. Default: `packed`."
    )

    needs_mig_manager: ClassVar[bool] = True

    @property
    def config_name(self) -> str:
        turns = f"-x{self.replicas}{_policy_suffix(self.allocation_policy)}" if self.replicas else ""
        return f"mig-{self.strategy}{turns}"

    def node_labels(self, gpu: Gpu) -> dict[str, str]:
        return {LAYOUT_LABEL: self.cut(gpu), MIG_CAPABLE_LABEL: "true"}

    @property
    def ready_labels(self) -> dict[str, str]:
        # Until then the node offers the entire GPU under the name that `single` gives a slice, and a pod that takes it
        # prevents the GPU from being partitioned.
        return {LAYOUT_STATE_LABEL: "success"}

    def cut(self, gpu: Gpu) -> str:
        return mig.name(self.layout_of(gpu))

    def layout_of(self, gpu: Gpu) -> mig.Layout:
        return layouts.read(self.layout, gpu)

    def plugin_config(self) -> dict[str, Any]:
        config: dict[str, Any] = {"version": "v1", "flags": {"migStrategy": self.strategy}}
        if self.replicas:
            config["flags"]["plugin"] = {"sharedDevicesAllocationPolicy": self.allocation_policy or "packed"}
            # The plugin skips resources that a node lacks, so one config serves every layout of every GPU.
            names = [GPU_RESOURCE] if self.strategy == "single" else mig.every_resource()
            config["sharing"] = _replicated("timeSlicing", names, self.replicas)
        return config

    def without_effect(self) -> dict[str, Any]:
        return {} if self.replicas else self.settings_of("allocation_policy")

    def offers(self, gpu: Gpu) -> tuple[Shares, ...]:
        layout = sorted(self.layout_of(gpu), key=lambda pair: (pair[0].memory_mib, pair[0].name))
        return tuple(
            Shares(
                resource=GPU_RESOURCE if self.strategy == "single" else profile.resource,
                per_gpu=count * (self.replicas or 1),
                memory_mib=None if self.replicas else profile.memory_mib,
                unit_mib=profile.memory_mib,
                sharers=self.replicas or 1,
                profile=profile.name,
            )
            for profile, count in layout
        )

    def check(self, gpu: Gpu, path: str = "sharing", market: Market = HOME) -> list[Problem]:
        if not mig.profiles(gpu):
            return [layouts.no_mig(gpu, path, market)]
        if wrong := layouts.problems(self.layout, gpu, path):
            return wrong
        layout = self.layout_of(gpu)
        if self.strategy == "mixed" or len(layout) == 1:
            return []
        rule = f"needs slices of one kind, and the layout is {mig.name(layout)}"
        return [Problem(f"{path}.strategy", "single", rule, "Write `strategy: mixed`.")]


Sharing = Annotated[Exclusive | TimeSlicing | Mig | Mps, Field(discriminator="mode")]
MODES: tuple[type[Exclusive | TimeSlicing | Mps | Mig], ...] = (Exclusive, TimeSlicing, Mps, Mig)
_ADAPTER: TypeAdapter[Exclusive | TimeSlicing | Mps | Mig] = TypeAdapter(Sharing)


def mode_names() -> list[str]:
    """Names of the modes, as in `sharing.mode`."""
    return [mode.model_fields["mode"].default for mode in MODES]


def switched(sharing: Sharing, mode: str) -> Sharing:
    """The same settings with another mode; raises pydantic's `ValidationError` if that mode does not allow them.

    Unset settings stay unset: their defaults differ between modes.
    """
    written = sharing.model_dump(exclude_unset=True, exclude_none=True)
    return _ADAPTER.validate_python({**written, "mode": mode})


def every_mode(sharing: Sharing, compared: Collection[str] = ()) -> list[Sharing]:
    """The same settings with each mode that allows them; MPS does not allow 60 replicas, for example.

    Of the modes that a comparison shows already, only its own.
    """
    allowed: list[Sharing] = []
    for name in mode_names():
        if name in compared and name != sharing.mode:
            continue
        with suppress(ValidationError):
            allowed.append(switched(sharing, name))
    return allowed
