"""The setting `sharing.layout`: how a user writes which slices a card is cut into, and what can be wrong with it."""

from collections.abc import Collection, Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from sharing import mig, offerings, prices
from sharing.gpus import Gpu
from sharing.problems import Problem, did_you_mean

Strategy = Literal["single", "mixed"]


class Slices(BaseModel):
    """Slices of one profile."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    profile: str = Field(description="MIG profile, e.g. `1g.24gb`.")
    count: int = Field(default=1, ge=1, description="Slices of it on each card.")


PRESET, LIST = "preset", "list"
"""Tags of the two ways to write a layout, which pydantic puts into the place of a mistake."""

LayoutSetting = Annotated[
    Annotated[str, Tag(PRESET)] | Annotated[list[Slices], Tag(LIST)],
    Discriminator(lambda value: PRESET if isinstance(value, str) else LIST),
]
"""A preset's name, or a list of `{profile, count}`."""


def read(setting: LayoutSetting | None, gpu: Gpu) -> mig.Layout:
    """The slices of one card; empty when `problems` has something to say."""
    known = mig.profiles(gpu)
    if not known or problems(setting, gpu, ""):
        return ()
    if setting is None:
        return next(iter(mig.presets(gpu).values()))
    if isinstance(setting, str):
        return mig.presets(gpu)[setting]
    return tuple((known[each.profile], each.count) for each in setting)


def written(layout: mig.Layout) -> str:
    """The layout as it stands in a stack file, e.g. `[{profile: 1g.24gb, count: 2}]`."""
    return f"[{', '.join(f'{{profile: {profile.name}, count: {count}}}' for profile, count in layout)}]"


def no_mig(gpu: Gpu, path: str, region: str) -> Problem:
    """A card that cannot be cut, and the cheapest types with one that can."""
    offers = [f"{name} (${usd:.2f} an hour on demand)" for name, usd in cheapest_types(region)]
    cheapest = (
        f"The cheapest with it: {', '.join(offers)}." if offers else f"{region} has no such type: use another mode."
    )
    return Problem(f"{path}.mode", "mig", f"{gpu.title} has no MIG", cheapest)


def cheapest_types(region: str) -> list[tuple[str, float]]:
    """The cheapest type with one GPU of each kind that has MIG and needs no other driver, with its on-demand price.

    Without types that the region is known not to offer.
    """
    found: dict[str, tuple[str, float]] = {}
    for known in offerings.cheapest_first(region):
        if known.gpus == 1 and mig.profiles(known.gpu) and not known.gpu.min_driver:
            found.setdefault(known.gpu.name, (known.name, prices.on_demand(known.name, region).usd_per_hour))
    return list(found.values())


def problems(setting: LayoutSetting | None, gpu: Gpu, path: str) -> list[Problem]:
    """What keeps `gpu`, which has MIG, from being cut so."""
    if setting is None:
        return []
    if isinstance(setting, str):
        return _preset_problems(setting, gpu, f"{path}.layout")
    return _list_problems(setting, gpu, f"{path}.layout")


def _preset_problems(preset: str, gpu: Gpu, path: str) -> list[Problem]:
    known = mig.presets(gpu)
    if preset in known:
        return []
    plain = [name for name, layout in known.items() if all(profile.is_plain for profile, _ in layout)]
    wrong = _unknown("layout", preset.removeprefix("all-"), preset, known, plain, gpu)
    return [Problem(path, f"'{preset}'", *wrong)]


def _list_problems(setting: Sequence[Slices], gpu: Gpu, path: str) -> list[Problem]:
    known = mig.profiles(gpu)
    plain = [profile.name for profile in known.values() if profile.is_plain]
    if not setting:
        return [Problem(path, "[]", "must have a slice at least", f"Write `layout: {next(iter(mig.presets(gpu)))}`.")]
    found: list[Problem] = []
    for index, each in enumerate(setting):
        profile = known.get(each.profile)
        if profile is None:
            wrong = _unknown("profile", each.profile, each.profile, known, plain, gpu)
            found.append(Problem(f"{path}[{index}].profile", f"'{each.profile}'", *wrong))
        elif any(each.profile == earlier.profile for earlier in setting[:index]):
            found.append(
                Problem(f"{path}[{index}].profile", f"'{each.profile}'", "is listed twice", "Add the counts up.")
            )
        elif each.count > profile.most:
            rule = f"one {gpu.title} has room for {profile.most} of {profile.name} at most"
            found.append(Problem(f"{path}[{index}].count", str(each.count), rule, f"Write `count: {profile.most}`."))
    if found:
        return found
    layout = tuple((known[each.profile], each.count) for each in setting)
    if mig.fits(layout, gpu):
        return []
    fix = f"`layout: {written(mig.reduced(layout, gpu))}` fits."
    return [Problem(path, mig.name(layout), _why_not(layout, gpu), fix)]


def _unknown(
    kind: str, profile: str, word: str, known: Collection[str], plain: Collection[str], gpu: Gpu
) -> tuple[str, str]:
    """Rule and way out for a word that `gpu` does not know: one of another card, or none at all."""
    if others := [title for title in mig.cards_with(profile) if title != gpu.title]:
        rule = f"a {kind} of {', '.join(others)}, not of {gpu.title}"
        return rule, f"{gpu.title} has {', '.join(plain)}."
    return f"no {kind} of {gpu.title}", did_you_mean(word, known)


def _why_not(layout: mig.Layout, gpu: Gpu) -> str:
    taken, slices = sum(profile.slices * count for profile, count in layout), mig.memory_slices(gpu)
    if taken > slices:
        return f"takes {taken} of the {slices} memory slices of one {gpu.title}"
    media, sets = sum(profile.media * count for profile, count in layout), mig.media_engines(gpu)
    if media > sets:
        return f"takes {media} of the {sets} sets of media engines of one {gpu.title}; `-me` profiles take none"
    return f"finds no places on one {gpu.title}: slices begin where the hardware lets them"
