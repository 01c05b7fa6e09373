"""Ways of sharing a GPU, as data: a discriminated union whose members answer the same questions.

A member says what a pod requests, what the NVIDIA device plugin is told, which node label chooses it, how many shares
a card gives and how large they are, and whether a card can do it at all. Nothing else asks which mode it has.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from sharing.gpus import Gpu
from sharing.problems import Problem

GPU_RESOURCE = "nvidia.com/gpu"
CONFIG_LABEL = "nvidia.com/device-plugin.config"
"""Node label by which the device plugin's config manager picks one of its named configs."""

DEFAULT_REPLICAS = 2
MOST_TIME_SLICES = 64
"""The plugin knows no bound; beyond this the shares of any card are smaller than a CUDA context."""
MPS_MOST_REPLICAS = 48
MPS_MOST_REPLICAS_BEFORE_TURING = 16
"""Clients of one card: 48 from compute capability 7.5 on, 16 before. Source: k8s-device-plugin mps/device.go."""
TURING = (7, 5)
VOLTA = (7, 0)

AllocationPolicy = Literal["packed", "distributed"]
ONE_POD_PER_GPU = "For one pod per GPU write `mode: exclusive`."


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """What one card offers under a mode."""

    resource: str
    per_gpu: int
    memory_mib: int | None
    """Memory of one share; None where every share sees the whole card, first come first served."""
    enforced: bool
    """Whether a process that takes more than its share is refused."""


class _Mode(BaseModel):
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
    """Whether somebody has to partition the card before the device plugin sees it."""

    @property
    def resource_name(self) -> str:
        """Extended resource that a pod requests."""
        return GPU_RESOURCE

    @property
    def config_name(self) -> str:
        """Key of its config in the device plugin's map, and value of the node label: the same name, the same config."""
        return self.mode

    def node_labels(self) -> dict[str, str]:
        """Labels that make a node offer this mode."""
        return {CONFIG_LABEL: self.config_name}

    def plugin_config(self) -> dict[str, Any]:
        """The device plugin's config file, schema v1 (k8s-device-plugin api/config/v1)."""
        return {"version": "v1", "flags": {"migStrategy": "none"}}

    def without_effect(self) -> dict[str, Any]:
        """Settings that stand in the file and change nothing under this mode, by their name there."""
        return {}

    def shares(self, gpu: Gpu) -> Shares:
        """How `gpu` is divided."""
        raise NotImplementedError

    def check(self, gpu: Gpu, path: str = "sharing") -> list[Problem]:
        """What keeps `gpu` from being shared so; empty when nothing does."""
        return []


class Exclusive(_Mode):
    """One pod has the whole card."""

    mode: Literal["exclusive"] = Field(default="exclusive", description="exclusive, timeslice or mps.")
    replicas: int | None = Field(default=None, description="Without effect here; kept when only `mode` is switched.")
    allocation_policy: AllocationPolicy | None = Field(
        default=None, description="Without effect here; kept when only `mode` is switched."
    )

    def without_effect(self) -> dict[str, Any]:
        return self.model_dump(exclude={"mode"}, exclude_none=True, by_alias=True)

    def shares(self, gpu: Gpu) -> Shares:
        return Shares(resource=self.resource_name, per_gpu=1, memory_mib=gpu.cuda_mib, enforced=True)


class _Replicated(_Mode):
    """A card that the device plugin advertises several times."""

    plugin_key: ClassVar[str]
    """Key of this way of sharing in the plugin's config."""

    replicas: int = Field(
        default=DEFAULT_REPLICAS,
        ge=2,
        le=MOST_TIME_SLICES,
        description="Shares per GPU.",
        json_schema_extra={"fix": ONE_POD_PER_GPU},
    )
    allocation_policy: AllocationPolicy = Field(
        default="packed",
        description="On a node with several GPUs: fill one card before the next (`packed`) or spread (`distributed`).",
    )

    @property
    def config_name(self) -> str:
        spread = "-distributed" if self.allocation_policy == "distributed" else ""
        return f"{self.mode}-{self.replicas}{spread}"

    def plugin_config(self) -> dict[str, Any]:
        config = super().plugin_config()
        config["flags"]["plugin"] = {"sharedDevicesAllocationPolicy": self.allocation_policy}
        config["sharing"] = {
            self.plugin_key: {
                "renameByDefault": False,
                # Two shares are no double share, and may lie on one card: refuse the request instead.
                "failRequestsGreaterThanOne": True,
                "resources": [{"name": self.resource_name, "replicas": self.replicas}],
            }
        }
        return config


class TimeSlicing(_Replicated):
    """Pods take turns on the card; each sees all of its memory, none is protected from the others."""

    plugin_key: ClassVar[str] = "timeSlicing"
    mode: Literal["timeslice"] = Field(default="timeslice", description="exclusive, timeslice or mps.")

    def shares(self, gpu: Gpu) -> Shares:
        return Shares(resource=self.resource_name, per_gpu=self.replicas, memory_mib=None, enforced=False)


class Mps(_Replicated):
    """Pods run at the same time through CUDA MPS; each client process has a hard share of the memory."""

    plugin_key: ClassVar[str] = "mps"
    mode: Literal["mps"] = Field(default="mps", description="exclusive, timeslice or mps.")
    replicas: int = Field(
        default=DEFAULT_REPLICAS,
        ge=2,
        le=MPS_MOST_REPLICAS,
        description="Shares per GPU.",
        json_schema_extra={"fix": ONE_POD_PER_GPU},
    )

    def shares(self, gpu: Gpu) -> Shares:
        return Shares(
            resource=self.resource_name,
            per_gpu=self.replicas,
            memory_mib=gpu.nvml_mib // self.replicas,
            enforced=True,
        )

    def check(self, gpu: Gpu, path: str = "sharing") -> list[Problem]:
        if gpu.compute_capability < VOLTA:
            return [Problem(f"{path}.mode", "mps", f"MPS needs Volta or later; {gpu.title} is older", "Use timeslice.")]
        most = MPS_MOST_REPLICAS if gpu.compute_capability >= TURING else MPS_MOST_REPLICAS_BEFORE_TURING
        if self.replicas <= most:
            return []
        rule = f"MPS takes at most {most} clients on one {gpu.title}"
        return [Problem(f"{path}.replicas", str(self.replicas), rule, f"Write `replicas: {most}` or fewer.")]


Sharing = Annotated[Exclusive | TimeSlicing | Mps, Field(discriminator="mode")]
MODES: tuple[type[Exclusive | TimeSlicing | Mps], ...] = (Exclusive, TimeSlicing, Mps)
_ADAPTER: TypeAdapter[Exclusive | TimeSlicing | Mps] = TypeAdapter(Sharing)


def mode_names() -> list[str]:
    """The names that `sharing.mode` may have."""
    return [mode.model_fields["mode"].default for mode in MODES]


def switched(sharing: Sharing, mode: str) -> Sharing:
    """The same settings under another mode; raises pydantic's `ValidationError` where that mode cannot have them."""
    return _ADAPTER.validate_python({**sharing.model_dump(exclude_none=True), "mode": mode})


def plugin_configs(pairs: Iterable[tuple[Sharing, Gpu]]) -> dict[str, dict[str, Any]]:
    """A device-plugin config for each mode that a card and the settings of its sharing allow, by `config_name`.

    All of them are installed, so that a switch of mode changes a node label and nothing in the release.
    """
    return {
        mode.config_name: mode.plugin_config()
        for sharing, gpu in pairs
        for mode in every_mode(sharing)
        if not mode.check(gpu)
    }


def written(sharing: Sharing) -> str:
    """The sharing as a stack file says it in one line, e.g. `{mode: mps, replicas: 4}`."""
    settings = sharing.model_dump(mode="json", by_alias=True, exclude_none=True)
    said = {key: value for key, value in settings.items() if key != "allocation-policy" or value != "packed"}
    return f"{{{', '.join(f'{key}: {value}' for key, value in said.items())}}}"


def every_mode(sharing: Sharing) -> list[Sharing]:
    """The same settings under each mode that can have them: 60 replicas are too many for MPS."""
    found: list[Sharing] = []
    for name in mode_names():
        with suppress(ValidationError):
            found.append(switched(sharing, name))
    return found
