"""Sharing modes as data: a discriminated union whose members have the same methods.

A mode defines the resource that a pod requests, the configuration of the NVIDIA device plugin, the node labels, the
shares of a GPU, and which GPUs support it. Other code asks these methods; only advice, which proposes another mode
(`sharing.verdict.advice`, `choices`), and what is true of one mode alone ask for its name.
"""

from collections.abc import Collection
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, TypeAdapter, ValidationError

from sharing.hardware import mig, offerings
from sharing.hardware.gpus import Gpu, InstanceType
from sharing.hardware.prices import HOME, Market
from sharing.modes import layouts
from sharing.modes.base import (
    DEFAULT_REPLICAS,
    GPU_RESOURCE,
    LAYOUT,
    LAYOUT_LABEL,
    LAYOUT_STATE_LABEL,
    LAYOUTS,
    LIMITS,
    MIG_CAPABLE_LABEL,
    MODE,
    MOST_TIME_SLICES,
    ONE_POD_PER_GPU,
    PER_MODEL,
    STRATEGY,
    UNUSED,
    WHOLE,
    WHOLE_WITH_DAEMON,
    AllocationPolicy,
    EntireGpu,
    Limits,
    Mode,
    Shares,
    replicated,
)
from sharing.modes.layouts import LayoutSetting, Strategy
from sharing.names import MPS_DAEMON_LABEL
from sharing.problems import LIMIT, Problem
from sharing.section import Fix

MPS_MOST_REPLICAS = 48
MPS_MOST_REPLICAS_BEFORE_TURING = 16
"""Replicas of one GPU that the device plugin allows: 48 from compute capability 7.5 on, 16 before.

NVIDIA's MPS itself takes 48 clients from Volta (7.0) on. Source: k8s-device-plugin v0.20.0
cmd/mps-control-daemon/mps/device.go, where `isAtLeastVolta` compares with 7.5.
"""
MPS_SERVER_MIB = 30
"""GPU memory of the MPS server by nvidia-smi: 25 to 30 MiB. On an H100, each client held 278 less."""
MOST_MPS_SERVER_MIB = 66
"""The same on an H100, which is the most that was seen. Limits per model may take all of the rest."""
MPS_PER_MODEL = "mps-per-model"
"""Name of MPS with limits per model beside `mps` with equal ones."""
TURING = (7, 5)
VOLTA = (7, 0)

ONE_POD_PER_SLICE = "For one pod per slice, remove `replicas`."


def _of_entire_gpu(replicas: int, *, memory_mib: int | None, unit_mib: int, **more: Any) -> tuple[Shares, ...]:
    """The shares of a GPU that is not partitioned."""
    shares = Shares(
        resource=GPU_RESOURCE, per_gpu=replicas, memory_mib=memory_mib, unit_mib=unit_mib, sharers=replicas, **more
    )
    return (shares,)


class Exclusive(EntireGpu):
    """One pod has the entire GPU."""

    mode: Literal["exclusive"] = Field(default="exclusive", description=MODE)
    replicas: int | None = Field(default=None, description=UNUSED)
    allocation_policy: AllocationPolicy | None = Field(default=None, description=UNUSED)

    def without_effect(self) -> dict[str, Any]:
        return self.settings_of("replicas", "allocation_policy", "strategy", "layout", "limits")

    def offers(self, gpu: Gpu) -> tuple[Shares, ...]:
        return _of_entire_gpu(1, memory_mib=gpu.cuda_mib, unit_mib=gpu.cuda_mib)


class _Replicated(EntireGpu):
    """A GPU that the device plugin advertises several times."""

    @property
    def plugin_key(self) -> str:
        """Key of this mode in the plugin's config."""
        return "timeSlicing"

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
        config["sharing"] = replicated(self.plugin_key, [GPU_RESOURCE], self.replicas)
        return config


def _policy_suffix(policy: AllocationPolicy | None) -> str:
    return "-distributed" if policy == "distributed" else ""


class TimeSlicing(_Replicated):
    """Pods take turns on the GPU; each sees all of its memory, and none is protected from the others."""

    mode: Literal["timeslice"] = Field(default="timeslice", description=MODE)

    def offers(self, gpu: Gpu) -> tuple[Shares, ...]:
        return _of_entire_gpu(self.replicas, memory_mib=None, unit_mib=gpu.cuda_mib)


class Mps(_Replicated):
    """Pods run at the same time through CUDA MPS; each client process has a hard memory limit.

    With `limits="equal"`, the device plugin's MPS daemon gives each the same part of memory and threads. With
    `limits="per-model"`, a daemon of the node lets each have its own, and the plugin only counts the pods.
    """

    mode: Literal["mps"] = Field(default="mps", description=MODE)
    limits: Limits = Field(default="equal", description=LIMITS)
    replicas: Annotated[int, Fix(ONE_POD_PER_GPU)] = Field(
        default=DEFAULT_REPLICAS, ge=2, le=MPS_MOST_REPLICAS, description="Shares per GPU."
    )

    @property
    def plugin_key(self) -> str:
        return "timeSlicing" if self.needs_node_daemon else "mps"

    @property
    def needs_mps_daemon(self) -> bool:
        return not self.needs_node_daemon

    @property
    def needs_node_daemon(self) -> bool:
        return self.limits == PER_MODEL

    @property
    def way(self) -> str:
        return MPS_PER_MODEL if self.needs_node_daemon else self.mode

    @property
    def config_name(self) -> str:
        return f"{super().config_name}-{PER_MODEL}" if self.needs_node_daemon else super().config_name

    def node_labels(self, gpu: Gpu) -> dict[str, str]:
        own = {MPS_DAEMON_LABEL: PER_MODEL} if self.needs_node_daemon else {}
        return {**super().node_labels(gpu), **own}

    def cut(self, gpu: Gpu) -> str:
        return WHOLE_WITH_DAEMON if self.needs_node_daemon else WHOLE

    def without_effect(self) -> dict[str, Any]:
        return self.settings_of("strategy", "layout")

    def offers(self, gpu: Gpu) -> tuple[Shares, ...]:
        if self.needs_node_daemon:
            usable = gpu.cuda_mib - MOST_MPS_SERVER_MIB
            return _of_entire_gpu(self.replicas, memory_mib=None, unit_mib=usable, own_limits=True)
        usable, equal = gpu.cuda_mib - MPS_SERVER_MIB, gpu.nvml_mib // self.replicas
        return _of_entire_gpu(self.replicas, memory_mib=equal, unit_mib=usable, threads=1 / self.replicas)

    def check(self, gpu: Gpu, path: str = "sharing", market: Market = HOME, gpus: int = 1) -> list[Problem]:
        if gpu.compute_capability < VOLTA:
            return [Problem(f"{path}.mode", "mps", f"needs Volta or newer; {gpu.title} is older", "Use `timeslice`.")]
        if self.needs_node_daemon and (rule := _without_own_limits(gpu, gpus)):
            one = _types_with_one_gpu(market)[:2]
            such = f"Use a type with one entire GPU, such as {' or '.join(one)}."
            fix = such if one else "Write `limits: equal`."
            return [Problem(f"{path}.limits", PER_MODEL, rule, fix)]
        most = MPS_MOST_REPLICAS if gpu.compute_capability >= TURING else MPS_MOST_REPLICAS_BEFORE_TURING
        if self.replicas <= most:
            return []
        rule = f"must be at most {most} for MPS on one {gpu.title}"
        return [Problem(f"{path}.replicas", str(self.replicas), rule, f"Write `replicas: {most}` or fewer.", LIMIT)]


def _without_own_limits(gpu: Gpu, gpus: int) -> str:
    """Why nodes with that number of `gpu` cannot have limits for each model; empty if they can."""
    if gpus > 1:
        # A pod should see its GPU as number 0. With a wrong number, it would have no limit and no error.
        return f"needs one GPU per node, not {gpus}: limits on nodes with several GPUs have not been tried"
    # amazon-ecs-agent#5053: Amazon ECS does not offer its MPS sharing on vGPUs.
    return "needs an entire GPU, not a part of one" if gpu.is_slice else ""


def _types_with_one_gpu(market: Market) -> list[str]:
    """Of each GPU the cheapest type that can have limits for each model."""
    cheapest: dict[str, str] = {}
    for kind in filter(_has_one_gpu, offerings.cheapest_first(market.region, market.book)):
        cheapest.setdefault(kind.gpu.name, kind.name)
    return [*cheapest.values()]


def _has_one_gpu(kind: InstanceType) -> bool:
    has_mps = kind.gpu.compute_capability >= VOLTA and not kind.gpu.is_slice
    return has_mps and kind.gpus == 1 and kind.arch == "amd64" and not kind.gpu.min_driver


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
    def way(self) -> str:
        return f"{self.mode}-{self.strategy}"

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
            config["sharing"] = replicated("timeSlicing", names, self.replicas)
        return config

    def without_effect(self) -> dict[str, Any]:
        return self.settings_of("limits", *([] if self.replicas else ["allocation_policy"]))

    def offers(self, gpu: Gpu) -> tuple[Shares, ...]:
        layout = sorted(self.layout_of(gpu), key=lambda pair: pair[0].memory_mib)
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

    def check(self, gpu: Gpu, path: str = "sharing", market: Market = HOME, gpus: int = 1) -> list[Problem]:
        if wrong := super().check(gpu, path):
            return wrong
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

    Unset settings stay unset: their defaults differ between modes. Limits are those of MPS.
    """
    written = sharing.model_dump(exclude_unset=True, exclude_none=True, exclude=set() if mode == "mps" else {"limits"})
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
