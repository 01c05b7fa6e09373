"""Ways of sharing a GPU, as data: a discriminated union whose members answer the same questions.

A member says what a pod requests, what the NVIDIA device plugin is told, which node labels choose it, what a card gives
under it, and whether a card can do it at all. Nothing else asks which mode it has.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, TypeAdapter, ValidationError

from sharing import layouts, mig
from sharing.gpus import Gpu
from sharing.layouts import LayoutSetting, Strategy
from sharing.mode import (
    GPU_RESOURCE,
    LAYOUT_LABEL,
    LAYOUT_STATE_LABEL,
    MIG_CAPABLE_LABEL,
    WHOLE_GPU_LABELS,
    Mode,
    Shares,
)
from sharing.prices import HOME_REGION
from sharing.problems import Problem

__all__ = [
    "GPU_RESOURCE",
    "LAYOUT_LABEL",
    "LAYOUT_STATE_LABEL",
    "MIG_CAPABLE_LABEL",
    "MODES",
    "MOST_TIME_SLICES",
    "WHOLE_GPU_LABELS",
    "Exclusive",
    "Mig",
    "Mps",
    "Shares",
    "Sharing",
    "TimeSlicing",
    "every_mode",
    "mode_names",
    "switched",
]

DEFAULT_REPLICAS = 2
MOST_TIME_SLICES = 64
"""The plugin knows no bound; beyond this the shares of any card are smaller than a CUDA context."""
MPS_MOST_REPLICAS = 48
MPS_MOST_REPLICAS_BEFORE_TURING = 16
"""Replicas of one GPU that the device plugin allows: 48 from compute capability 7.5 on, 16 before.

NVIDIA's MPS itself takes 48 clients from Volta (7.0) on. Source: k8s-device-plugin v0.20.0
cmd/mps-control-daemon/mps/device.go, where `isAtLeastVolta` compares with 7.5.
"""
MPS_SERVER_MIB = 30
"""GPU memory of the MPS server itself: nvidia-smi was seen to show 25 to 30 MiB for `nvidia-cuda-mps-server`."""
TURING = (7, 5)
VOLTA = (7, 0)

AllocationPolicy = Literal["packed", "distributed"]
ONE_POD_PER_GPU = "For one pod per GPU write `mode: exclusive`."
ONE_POD_PER_SLICE = "For one pod per slice leave `replicas` out."
MODE = "exclusive, timeslice, mps or mig."
UNUSED = "Without effect here; kept when only `mode` is switched."
STRATEGY = (
    "MIG: all slices of a card alike (`single`, when absent), or different ones, asked for by their name (`mixed`)."
)
LAYOUT = (
    "MIG: the slices of each card, a preset (`all-1g.24gb`, `all-balanced`) or a list of `{profile, count}`; "
    "the smallest that the card has when absent."
)


def _replicated(key: str, resources: Iterable[str], replicas: int) -> dict[str, Any]:
    """The part `sharing` of the plugin's config: each resource, advertised several times."""
    return {
        key: {
            "renameByDefault": False,
            # Two shares are no double share, and may lie on one card: refuse the request instead.
            "failRequestsGreaterThanOne": True,
            "resources": [{"name": resource, "replicas": replicas} for resource in resources],
        }
    }


class _Whole(Mode):
    """A mode that leaves the card in one piece."""

    strategy: Strategy | None = Field(default=None, description=STRATEGY)
    layout: LayoutSetting | None = Field(default=None, description=LAYOUT)

    def without_effect(self) -> dict[str, Any]:
        return self.left_over("strategy", "layout")


class Exclusive(_Whole):
    """One pod has the whole card."""

    mode: Literal["exclusive"] = Field(default="exclusive", description=MODE)
    replicas: int | None = Field(default=None, description=UNUSED)
    allocation_policy: AllocationPolicy | None = Field(default=None, description=UNUSED)

    def without_effect(self) -> dict[str, Any]:
        return self.left_over("replicas", "allocation_policy", "strategy", "layout")

    def offers(self, gpu: Gpu) -> tuple[Shares, ...]:
        return (
            Shares(
                resource=GPU_RESOURCE,
                per_gpu=1,
                memory_mib=gpu.cuda_mib,
                enforced=True,
                unit_mib=gpu.cuda_mib,
                sharers=1,
            ),
        )


class _Replicated(_Whole):
    """A card that the device plugin advertises several times."""

    plugin_key: ClassVar[str]
    """Key of this way of sharing in the plugin's config."""

    replicas: int = Field(default=DEFAULT_REPLICAS, ge=2, le=MOST_TIME_SLICES, description="Shares per GPU.")
    allocation_policy: AllocationPolicy = Field(
        default="packed",
        description="On a node with several GPUs: fill one card before the next (`packed`) or spread (`distributed`).",
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
    """Pods take turns on the card; each sees all of its memory, none is protected from the others."""

    plugin_key: ClassVar[str] = "timeSlicing"
    mode: Literal["timeslice"] = Field(default="timeslice", description=MODE)

    def offers(self, gpu: Gpu) -> tuple[Shares, ...]:
        return (
            Shares(
                resource=GPU_RESOURCE,
                per_gpu=self.replicas,
                memory_mib=None,
                enforced=False,
                unit_mib=gpu.cuda_mib,
                sharers=self.replicas,
            ),
        )


class Mps(_Replicated):
    """Pods run at the same time through CUDA MPS; each client process has a hard share of the memory."""

    plugin_key: ClassVar[str] = "mps"
    needs_mps_daemon: ClassVar[bool] = True
    mode: Literal["mps"] = Field(default="mps", description=MODE)
    replicas: int = Field(default=DEFAULT_REPLICAS, ge=2, le=MPS_MOST_REPLICAS, description="Shares per GPU.")

    def offers(self, gpu: Gpu) -> tuple[Shares, ...]:
        return (
            Shares(
                resource=GPU_RESOURCE,
                per_gpu=self.replicas,
                memory_mib=gpu.nvml_mib // self.replicas,
                enforced=True,
                unit_mib=gpu.cuda_mib - MPS_SERVER_MIB,
                sharers=self.replicas,
            ),
        )

    def check(self, gpu: Gpu, path: str = "sharing", region: str = HOME_REGION) -> list[Problem]:
        if gpu.compute_capability < VOLTA:
            return [Problem(f"{path}.mode", "mps", f"MPS needs Volta or later; {gpu.title} is older", "Use timeslice.")]
        most = MPS_MOST_REPLICAS if gpu.compute_capability >= TURING else MPS_MOST_REPLICAS_BEFORE_TURING
        if self.replicas <= most:
            return []
        rule = f"the device plugin allows at most {most} MPS clients on one {gpu.title}"
        return [Problem(f"{path}.replicas", str(self.replicas), rule, f"Write `replicas: {most}` or fewer.")]


class Mig(Mode):
    """Each pod has a slice that the hardware cuts off the card: memory and compute of its own."""

    mode: Literal["mig"] = Field(default="mig", description=MODE)
    strategy: Strategy = Field(default="single", description=STRATEGY)
    layout: LayoutSetting | None = Field(default=None, description=LAYOUT)
    replicas: int | None = Field(
        default=None,
        ge=2,
        le=MOST_TIME_SLICES,
        description="Pods that take turns on a slice; one has it for itself when absent.",
    )
    allocation_policy: AllocationPolicy | None = Field(
        default=None, description="Which of several slices is filled first, with `replicas`: `packed` when absent."
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
        # Until then the node offers the whole card under the name that `single` gives a slice, and a pod that takes it
        # keeps the card from being cut.
        return {LAYOUT_STATE_LABEL: "success"}

    def cut(self, gpu: Gpu) -> str:
        return mig.name(self.layout_of(gpu))

    def layout_of(self, gpu: Gpu) -> mig.Layout:
        return layouts.read(self.layout, gpu)

    def plugin_config(self) -> dict[str, Any]:
        config: dict[str, Any] = {"version": "v1", "flags": {"migStrategy": self.strategy}}
        if self.replicas:
            config["flags"]["plugin"] = {"sharedDevicesAllocationPolicy": self.allocation_policy or "packed"}
            # The plugin passes over resources that a node has not, so one config serves every layout of every card.
            names = [GPU_RESOURCE] if self.strategy == "single" else mig.every_resource()
            config["sharing"] = _replicated("timeSlicing", names, self.replicas)
        return config

    def without_effect(self) -> dict[str, Any]:
        return {} if self.replicas else self.left_over("allocation_policy")

    def offers(self, gpu: Gpu) -> tuple[Shares, ...]:
        layout = sorted(self.layout_of(gpu), key=lambda pair: (pair[0].memory_mib, pair[0].name))
        return tuple(
            Shares(
                resource=GPU_RESOURCE if self.strategy == "single" else profile.resource,
                per_gpu=count * (self.replicas or 1),
                memory_mib=None if self.replicas else profile.memory_mib,
                enforced=not self.replicas,
                unit_mib=profile.memory_mib,
                sharers=self.replicas or 1,
                profile=profile.name,
            )
            for profile, count in layout
        )

    def check(self, gpu: Gpu, path: str = "sharing", region: str = HOME_REGION) -> list[Problem]:
        if not mig.profiles(gpu):
            return [layouts.no_mig(gpu, path, region)]
        if found := layouts.problems(self.layout, gpu, path):
            return found
        layout = self.layout_of(gpu)
        if self.strategy == "mixed" or len(layout) == 1:
            return []
        rule = "with `single` all slices must be alike, or the node offers none"
        return [
            Problem(f"{path}.strategy", "single", f"{rule}; {mig.name(layout)} are not", "Write `strategy: mixed`.")
        ]


Sharing = Annotated[Exclusive | TimeSlicing | Mig | Mps, Field(discriminator="mode")]
MODES: tuple[type[Exclusive | TimeSlicing | Mps | Mig], ...] = (Exclusive, TimeSlicing, Mps, Mig)
_ADAPTER: TypeAdapter[Exclusive | TimeSlicing | Mps | Mig] = TypeAdapter(Sharing)


def mode_names() -> list[str]:
    """The names that `sharing.mode` may have."""
    return [mode.model_fields["mode"].default for mode in MODES]


def switched(sharing: Sharing, mode: str) -> Sharing:
    """The same settings under another mode; raises pydantic's `ValidationError` where that mode cannot have them.

    What was left out stays so: another mode has another default for it.
    """
    written = sharing.model_dump(exclude_unset=True, exclude_none=True)
    return _ADAPTER.validate_python({**written, "mode": mode})


def written(sharing: Sharing) -> str:
    """The sharing as a stack file says it in one line, e.g. `{mode: mps, replicas: 4}`."""
    settings = sharing.model_dump(mode="json", by_alias=True, exclude_none=True)
    said = {key: value for key, value in settings.items() if key != "allocation-policy" or value != "packed"}
    return in_one_line(said)


def in_one_line(value: Any) -> str:
    """A value as a stack file has it in one line."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {in_one_line(each)}' for key, each in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(in_one_line, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)


def every_mode(sharing: Sharing) -> list[Sharing]:
    """The same settings under each mode that can have them: 60 replicas are too many for MPS."""
    found: list[Sharing] = []
    for name in mode_names():
        with suppress(ValidationError):
            found.append(switched(sharing, name))
    return found
