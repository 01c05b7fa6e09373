"""The slices of a GPU that hold given models: possible layouts, and the best of them."""

from collections.abc import Iterator
from dataclasses import dataclass

from sharing.fit.shares import place_on
from sharing.hardware import mig
from sharing.hardware.gpus import Gpu, InstanceType
from sharing.hardware.prices import on_demand
from sharing.models.served import ServedModel
from sharing.modes import layouts
from sharing.modes.layouts import Strategy, types_with_mig
from sharing.modes.modes import Mig
from sharing.sections.changes import in_one_line

MOST_TYPES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MigType:
    """A type that holds models in MIG."""

    instance_type: str
    layout: str
    """Value for `sharing.layout`."""
    usd_per_hour: float
    """On demand, one node."""


def each_layout(sharing: Mig, gpu: Gpu) -> Iterator[Mig]:
    """`sharing` with each layout that `gpu` can have, the most slices first."""
    presets = {mig.name(layout): preset for preset, layout in mig.presets(gpu).items()}
    for layout in mig.layouts(gpu):
        slices = [layouts.Slices(profile=profile.name, count=count) for profile, count in layout]
        strategy: Strategy = "mixed" if len(layout) > 1 else sharing.strategy
        setting = presets.get(mig.name(layout)) or slices
        yield sharing.model_copy(update={"layout": setting, "strategy": strategy})


def slices_for(
    models: tuple[ServedModel, ...], instance: InstanceType, strategy: Strategy = "mixed", nodes: int = 1
) -> Mig | None:
    """The layout with which `nodes` of `instance` hold `models`, one slice per model; None if there is none.

    It is the one with the fewest idle kinds of slices, and among these the one with the most slices.
    """
    holding: list[tuple[int, Mig]] = []
    for sharing in each_layout(Mig(strategy=strategy), instance.gpu):
        offers = sharing.offers(instance.gpu)
        slices = nodes * instance.gpus * sum(shares.per_gpu for shares in offers)
        if sharing.strategy == strategy and slices >= len(models):
            placements = place_on(models, sharing, instance, nodes)
            if all(placement.fits for placement in placements):
                used = {placement.shares.profile for placement in placements}
                holding.append((sum(shares.profile not in used for shares in offers), sharing))
    return min(holding, key=lambda pair: pair[0], default=(0, None))[1]


def in_mig(models: tuple[ServedModel, ...], region: str) -> list[MigType]:
    """For each GPU: the cheapest type that holds `models` on one node, one slice per model, and the layout for it."""
    found: dict[str, MigType] = {}
    for candidate in types_with_mig(region):
        if candidate.gpu.name not in found and (sharing := slices_for(models, candidate)):
            usd = on_demand(candidate.name, region).usd_per_hour
            layout = in_one_line(sharing.model_dump()["layout"])
            found[candidate.gpu.name] = MigType(instance_type=candidate.name, layout=layout, usd_per_hour=usd)
        if len(found) == MOST_TYPES:
            break
    return [*found.values()]
