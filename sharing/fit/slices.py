"""The slices of a GPU that hold given models: possible layouts, and the best of them."""

from collections.abc import Iterator
from dataclasses import dataclass

from sharing.fit.shares import place
from sharing.hardware import mig
from sharing.hardware.gpus import Gpu, InstanceType, instance_types
from sharing.hardware.offerings import offered
from sharing.hardware.prices import on_demand
from sharing.models.served import ServedModel
from sharing.modes import layouts
from sharing.modes.layouts import Strategy
from sharing.modes.modes import Mig


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
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
            placements = place(models, sharing, instance, nodes)
            if all(placement.fits for placement in placements):
                used = {placement.shares.profile for placement in placements}
                holding.append((sum(shares.profile not in used for shares in offers), sharing))
    return min(holding, key=lambda pair: pair[0], default=(0, None))[1]


def in_mig(models: tuple[ServedModel, ...], region: str, most: int = 3) -> list[Choice]:
    """For each GPU: the cheapest type that holds `models` on one node, one slice per model, and the layout for it."""
    choices: list[Choice] = []
    seen: set[str] = set()
    for candidate in sorted(
        _mig_types(region), key=lambda each: (on_demand(each.name, region).usd_per_hour, each.name)
    ):
        if candidate.gpu.name in seen:
            continue
        if sharing := slices_for(models, candidate):
            usd = on_demand(candidate.name, region).usd_per_hour
            choices.append(Choice(instance_type=candidate.name, layout=_setting(sharing), usd_per_hour=usd))
            seen.add(candidate.gpu.name)
        if len(choices) == most:
            break
    return choices


def _mig_types(region: str) -> Iterator[InstanceType]:
    """Types with MIG that the region may offer and that every pinned driver supports."""
    for kind in instance_types().values():
        if mig.profiles(kind.gpu) and not kind.gpu.min_driver and offered(kind.name, region) != "no":
            yield kind


def _setting(sharing: Mig) -> str:
    """Its layout as a stack file has it."""
    if isinstance(sharing.layout, list):
        return f"[{', '.join(f'{{profile: {each.profile}, count: {each.count}}}' for each in sharing.layout)}]"
    return str(sharing.layout)
