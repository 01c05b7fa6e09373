"""What every mode of sharing answers, and the names that nodes, pods and the device plugin know it by."""

from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

from sharing import mig
from sharing.gpus import Gpu
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
