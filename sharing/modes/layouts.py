"""The setting `sharing.layout`: how a GPU is partitioned into slices, and its possible errors."""

from collections.abc import Collection, Iterator, Sequence
from operator import itemgetter
from typing import Annotated, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag

from sharing.hardware import mig, offerings
from sharing.hardware.gpus import Gpu, InstanceType
from sharing.hardware.prices import Book, Market
from sharing.problems import LIMIT, Problem, did_you_mean
from sharing.section import Constructed, Section, WrongFormError

Strategy = Literal["single", "mixed"]


def _readable(name: str) -> str:
    # Modes that do not read the layout keep it in the file, and Pulumi prints the file's values.
    if not name.isprintable():
        raise WrongFormError("must be printable text")
    return name


Name = Annotated[str, AfterValidator(_readable)]


class Slices(Constructed, Section):
    """Slices of one profile."""

    profile: Name = Field(examples=["1g.24gb"], description="MIG profile, e.g. `1g.24gb`.")
    count: int = Field(default=1, ge=1, description="Slices of this profile on each GPU.")


PRESET, LIST = "preset", "list"
"""Tags of the two forms of a layout, which pydantic adds to the location of an error."""

LayoutSetting = Annotated[
    Annotated[Name, Tag(PRESET)] | Annotated[list[Slices], Tag(LIST)],
    Discriminator(lambda value: PRESET if isinstance(value, str) else LIST),
]
"""A preset's name, or a list of `{profile, count}`."""


def read(setting: LayoutSetting | None, gpu: Gpu) -> mig.Layout:
    """The slices of one GPU; empty if `problems` finds an error."""
    its_profiles = mig.profiles(gpu)
    if not its_profiles or problems(setting, gpu, ""):
        return ()
    if setting is None:
        return next(iter(mig.presets(gpu).values()))
    if isinstance(setting, str):
        return mig.presets(gpu)[setting]
    return tuple((its_profiles[each.profile], each.count) for each in setting)


def written(layout: mig.Layout) -> str:
    """The layout as a stack file has it, e.g. `[{profile: 1g.24gb, count: 2}]`."""
    return f"[{', '.join(f'{{profile: {profile.name}, count: {count}}}' for profile, count in layout)}]"


def no_mig(gpu: Gpu, path: str, market: Market) -> Problem:
    """A GPU without MIG, and the cheapest types that have it."""
    offers = [f"{name} (${usd:.2f} per hour, {kind})" for name, usd, kind in cheapest_types(market)]
    fix = f"Use another mode, or a type with MIG: {', '.join(offers)}." if offers else "Use another mode or region."
    return Problem(f"{path}.mode", "mig", f"is not supported by {gpu.title}", fix)


def types_with_mig(region: str, book: Book | None = None) -> Iterator[InstanceType]:
    """The types with MIG that every pinned driver supports and that the region may offer, by on-demand price."""
    here = offerings.cheapest_first(region, book)
    return (kind for kind in here if mig.profiles(kind.gpu) and not kind.gpu.min_driver)


def cheapest_types(market: Market) -> list[tuple[str, float, str]]:
    """For each GPU that has MIG and needs no other driver: the cheapest type with one, its price and its kind."""
    by_gpu: dict[str, tuple[str, float, str]] = {}
    for kind in types_with_mig(market.region, market.book):
        if kind.gpus == 1:
            offer = kind.name, *market.find_price(kind.name)
            by_gpu[kind.gpu.name] = min(by_gpu.get(kind.gpu.name, offer), offer, key=itemgetter(1))
    return sorted(by_gpu.values(), key=itemgetter(1))


def problems(setting: LayoutSetting | None, gpu: Gpu, path: str) -> list[Problem]:
    """The errors of a layout for `gpu`, which has MIG."""
    if setting is None:
        return []
    if isinstance(setting, str):
        return _preset_problems(setting, gpu, f"{path}.layout")
    return _list_problems(setting, gpu, f"{path}.layout")


def _preset_problems(preset: str, gpu: Gpu, path: str) -> list[Problem]:
    its_presets = mig.presets(gpu)
    if preset in its_presets:
        return []
    plain = [name for name, layout in its_presets.items() if all(profile.is_plain for profile, _ in layout)]
    wrong = _unknown("layout", preset.removeprefix("all-"), preset, its_presets, plain, gpu)
    return [Problem(path, f"'{preset}'", *wrong)]


def _list_problems(setting: Sequence[Slices], gpu: Gpu, path: str) -> list[Problem]:
    its_profiles = mig.profiles(gpu)
    plain = [profile.name for profile in its_profiles.values() if profile.is_plain]
    if not setting:
        fix = f"Write `layout: {next(iter(mig.presets(gpu)))}`."
        return [Problem(path, "[]", "must have at least one slice", fix, LIMIT)]
    errors: list[Problem] = []
    for index, each in enumerate(setting):
        profile = its_profiles.get(each.profile)
        if profile is None:
            wrong = _unknown("profile", each.profile, each.profile, its_profiles, plain, gpu)
            errors.append(Problem(f"{path}[{index}].profile", f"'{each.profile}'", *wrong))
        elif any(each.profile == earlier.profile for earlier in setting[:index]):
            errors.append(
                Problem(
                    f"{path}[{index}].profile",
                    f"'{each.profile}'",
                    "is listed twice",
                    "Write one entry with the total count.",
                )
            )
        elif each.count > profile.most:
            rule = f"must be at most {profile.most} for {profile.name} on one {gpu.title}"
            fix = f"Write `count: {profile.most}`."
            errors.append(Problem(f"{path}[{index}].count", str(each.count), rule, fix, LIMIT))
    if errors:
        return errors
    layout = tuple((its_profiles[each.profile], each.count) for each in setting)
    if mig.fits(layout, gpu):
        return []
    fix = f"Write `layout: {written(mig.reduced(layout, gpu))}`, for example."
    return [Problem(path, mig.name(layout), _why_not(layout, gpu), fix)]


def _unknown(
    kind: str, profile: str, word: str, names: Collection[str], plain: Collection[str], gpu: Gpu
) -> tuple[str, str]:
    """Rule and fix for a word that is unknown to `gpu`: it belongs to another GPU, or to none."""
    if others := [title for title in mig.gpus_with(profile) if title != gpu.title]:
        rule = f"is a {kind} of {', '.join(others)}, not of {gpu.title}"
        return rule, f"Choose from {', '.join(plain)}."
    return f"is not a {kind} of {gpu.title}", did_you_mean(word, names)


def _why_not(layout: mig.Layout, gpu: Gpu) -> str:
    taken, slices = sum(profile.slices * count for profile, count in layout), mig.memory_slices(gpu)
    if taken > slices:
        return f"takes {taken} of the {slices} memory slices of one {gpu.title}"
    media, sets = sum(profile.media * count for profile, count in layout), mig.media_engines(gpu)
    if media > sets:
        return f"takes {media} of the {sets} sets of media engines of one {gpu.title}; `-me` profiles take none"
    return f"does not fit on one {gpu.title}: the hardware limits where each slice can begin"
