"""Ways of sharing a GPU, as data: a discriminated union whose members answer the same questions.

A member says what a pod requests, what the NVIDIA device plugin is told, which node labels choose it, what a card gives
under it, and whether a card can do it at all. Nothing else asks which mode it has.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from sharing import layouts, mig
from sharing.gpus import Gpu
from sharing.layouts import LayoutSetting, Strategy
from sharing.prices import HOME_REGION
from sharing.problems import Problem

GPU_RESOURCE = "nvidia.com/gpu"
WHOLE_GPU_LABELS = {"nvidia.com/gpu.deploy.operands": "false"}
"""Node label of nodes whose GPUs stay whole: with it the GPU Operator, if there is one, runs nothing on them.
Source: gpu-operator v26.7.0, controllers/state_manager.go, hasOperandsDisabled."""
LAYOUT_LABEL = "nvidia.com/mig.config"
"""Node label by which the MIG manager picks the layout that it cuts the node's cards into."""
LAYOUT_STATE_LABEL = "nvidia.com/mig.config.state"
"""Node label by which it says how that went: `pending`, `rebooting`, `success`, `failed`."""
MIG_CAPABLE_LABEL = "nvidia.com/mig.capable"
"""Node label on which the GPU Operator starts its MIG manager; by itself it knows A100, A30 and H100 only."""
MPS_LABEL = "nvidia.com/mps.capable"
"""Node label on which the plugin chart's MPS daemon is scheduled."""
WHOLE = "whole"
"""What a card is cut into under every mode but MIG."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """What one card offers under a mode, of one kind: shares of the card, or of its slices of one profile."""

    resource: str
    """Extended resource that a pod requests."""
    per_gpu: int
    memory_mib: int | None
    """Memory of one share; None where sharers see all of it, first come first served."""
    enforced: bool
    """Whether a process that takes more than its share is refused."""
    unit_mib: int
    """Memory, usable by CUDA, of the card or slice that sharers have together."""
    sharers: int
    """Pods that may land on the same card or slice."""
    profile: str = ""
    """MIG profile of the slice, e.g. `1g.24gb`; empty for shares of a whole card."""


def sharing_strategy(sharers: int, enforced: bool) -> str:
    """What feature discovery calls a way of sharing (k8s-device-plugin v0.20.0 api/config/v1/sharing.go)."""
    if sharers == 1:
        return "none"
    return "mps" if enforced else "time-slicing"


class Mode(BaseModel):
    """What every mode answers. Field names are kebab-case in a stack file, snake_case in Python."""

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
    """Whether somebody has to cut the card before the device plugin sees it."""
    needs_mps_daemon: ClassVar[bool] = False
    """Whether CUDA processes on the GPU are clients of an MPS server."""

    @property
    def config_name(self) -> str:
        """Name of the mode's configuration of the device plugin, made of all that it holds."""
        return self.mode

    def node_labels(self, gpu: Gpu) -> dict[str, str]:
        """Labels that make a node with `gpu` offer this mode; they must be there when it joins."""
        return dict(WHOLE_GPU_LABELS)

    @property
    def ready_labels(self) -> dict[str, str]:
        """Labels of a node once its cards are what this mode makes of them: no pod may run there earlier."""
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
        """What the card is cut into, by a name that says all of it. Another one wants a node without pods."""
        return WHOLE

    def layout_of(self, gpu: Gpu) -> mig.Layout:
        """The slices of one card; empty where the card stays whole, or the layout is none of `gpu`."""
        return ()

    def plugin_config(self) -> dict[str, Any]:
        """The device plugin's config file, schema v1 (k8s-device-plugin api/config/v1)."""
        return {"version": "v1", "flags": {"migStrategy": "none"}}

    def without_effect(self) -> dict[str, Any]:
        """Settings that stand in the file and change nothing under this mode, by their name there."""
        raise NotImplementedError

    def offers(self, gpu: Gpu) -> tuple[Shares, ...]:
        """What one card gives, by kind, the smallest first; nothing where `check` has something to say of a layout."""
        raise NotImplementedError

    def check(self, gpu: Gpu, path: str = "sharing", region: str = HOME_REGION) -> list[Problem]:
        """What keeps `gpu` from being shared so; empty when nothing does. Prices in a way out are those of `region`."""
        return []

    def left_over(self, *names: str) -> dict[str, Any]:
        """Those of the settings that are set, by their name in the file."""
        return self.model_dump(include={*names}, exclude_none=True, by_alias=True)


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


def every_mode(sharing: Sharing) -> list[Sharing]:
    """The same settings under each mode that can have them: 60 replicas are too many for MPS."""
    found: list[Sharing] = []
    for name in mode_names():
        with suppress(ValidationError):
            found.append(switched(sharing, name))
    return found
