"""Pools of GPU nodes as the rules read them: what their arguments say about the models that can run there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import pulumi

from sharing.modes.modes import Sharing
from sharing.sections.pools import GpuPool


@dataclass(frozen=True, kw_only=True)
class PlannedPool:
    """A pool of GPU nodes."""

    pool: GpuPool
    mode_taint: pulumi.Input[str] | None = None
    """Value of the nodes' taint `tandem/mode`; None if it is unknown, so that models tolerate any."""


@runtime_checkable
class GpuNodes(Protocol):
    """Pools of GPU nodes for `OllamaPairArgs.runs_on`, e.g. a `SpotGpuNodeGroup` or a `KarpenterGpuPool`."""

    @property
    def planned_pools(self) -> Sequence[PlannedPool]:
        """The pools as the rules in `sharing` read them."""


def plan_pool(name: str, sharing: Sharing, instance_types: Sequence[str], **settings: Any) -> GpuPool:
    """A pool with these settings of a stack file, which nobody judges here. AWS knows what the region offers.

    `volume_gib=0`: its nodes are unknown. Their disks are not judged, and `max` is all that says how many there are.
    """
    types = [*instance_types]
    return GpuPool.model_construct(name=name, own_sharing=sharing, instance_types=types, check_offers=False, **settings)
