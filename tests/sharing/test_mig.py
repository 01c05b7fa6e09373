"""Slices of a GPU: which exist, which fit on it together, and how layouts are named."""

import re
from collections import Counter
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharing.hardware import mig
from sharing.hardware.gpus import Gpu, gpus
from sharing.hardware.mig import Layout, Profile
from tests.sharing.builders import read_figures

GPUS = [gpu for gpu in gpus().values() if mig.profiles(gpu)]
RTX, H100, A100 = gpus()["rtx-pro-server-6000"], gpus()["h100"], gpus()["a100-40gb"]
LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


@st.composite
def wanted(draw: st.DrawFn) -> tuple[Gpu, Layout]:
    """A GPU, and some of its profiles in numbers that may or may not fit."""
    gpu = draw(st.sampled_from(GPUS))
    chosen = draw(st.lists(st.sampled_from(list(mig.profiles(gpu).values())), min_size=1, max_size=3, unique=True))
    return gpu, tuple((profile, draw(st.integers(1, 3))) for profile in chosen)


def lies_somewhere(layout: Layout, gpu: Gpu) -> bool:
    """Whether the slices can start so that none overlaps another; tries all combinations."""
    pieces = [profile for profile, count in layout for _ in range(count)]
    for starts in product(*(profile.starts for profile in pieces)):
        taken = Counter(
            cell for profile, start in zip(pieces, starts, strict=True) for cell in range(start, start + profile.slices)
        )
        if max(taken.values()) == 1:
            return True
    return False


@pytest.mark.slow
@given(pair=wanted())
@settings(max_examples=300)
def test_a_layout_fits_a_gpu_if_some_choice_of_places_fits(pair: tuple[Gpu, Layout]) -> None:
    gpu, layout = pair
    engines = max(profile.media for profile in mig.profiles(gpu).values())
    within = all(count <= profile.most for profile, count in layout)
    within = within and sum(profile.media * count for profile, count in layout) <= engines
    assert mig.fits(layout, gpu) is (within and lies_somewhere(layout, gpu))


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_every_preset_and_every_usual_layout_fits_its_gpu_and_its_name_fits_a_label(gpu: Gpu) -> None:
    usual, presets = list(mig.layouts(gpu)), mig.presets(gpu)
    names = [mig.name(layout) for layout in usual]
    for layout in (*usual, *presets.values()):
        assert mig.fits(layout, gpu)
        assert LABEL.fullmatch(mig.name(layout))
    assert len(set(names)) == len(names)


@given(pair=wanted())
@settings(max_examples=150)
def test_a_name_has_the_whole_layout_in_any_order_and_fits_a_label(pair: tuple[Gpu, Layout]) -> None:
    gpu, layout = pair
    kept = mig.reduced(layout, gpu)
    assert mig.name(kept) == mig.name(tuple(reversed(kept)))
    assert LABEL.fullmatch(mig.name(kept))
    known = {profile.label: profile for profile in mig.profiles(gpu).values()}
    read = {known[label]: int(count) for count, label in (part.split("x", 1) for part in mig.name(kept).split("_"))}
    assert read == dict(kept)


@pytest.mark.parametrize(
    ("gpu", "names"),
    [
        (RTX, {"all-1g.24gb": "4x1g.24gb", "all-2g.48gb": "2x2g.48gb", "all-balanced": "2x1g.24gb_1x2g.48gb"}),
        (A100, {"all-1g.5gb": "7x1g.5gb", "all-1g.10gb": "4x1g.10gb", "all-1g.5gb.me": "1x1g.5gb.me"}),
        (H100, {"all-1g.10gb": "7x1g.10gb", "all-balanced": "2x1g.10gb_1x2g.20gb_1x3g.40gb"}),
        (gpus()["h200"], {"all-balanced": "2x1g.18gb_1x2g.35gb_1x3g.71gb"}),
        (gpus()["b200"], {"all-balanced": "2x1g.23gb_1x2g.45gb_1x3g.90gb"}),
        (gpus()["b300"], {"all-balanced": "2x1g.34gb_1x2g.67gb_1x3g.135gb"}),
    ],
)
def test_presets_are_those_of_nvidia(gpu: Gpu, names: dict[str, str]) -> None:
    found = {preset: mig.name(layout) for preset, layout in mig.presets(gpu).items()}
    assert names.items() <= found.items()


def test_the_gpu_with_two_slices_has_no_balanced_layout_and_one_without_mig_has_none_at_all() -> None:
    assert "all-balanced" not in mig.presets(gpus()["rtx-pro-4500"])
    assert mig.presets(gpus()["t4"]) == {}
    assert mig.profiles(gpus()["l40s"]) == {}


@pytest.mark.parametrize("row", read_figures("slices"), ids=lambda row: f"{row['gpu']} {row['slices']}")
def test_slices_that_fit_on_a_gpu_together(row: dict[str, str]) -> None:
    gpu = gpus()[row["gpu"]]
    counts = [each.split("x", 1) for each in row["slices"].split()]
    layout = tuple((mig.profiles(gpu)[name], int(count)) for count, name in counts)
    assert mig.fits(layout, gpu) is (row["fits"] == "yes")


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_slices_never_have_more_memory_than_the_gpu(gpu: Gpu) -> None:
    total = mig.memory_slices(gpu)
    for profile in mig.profiles(gpu).values():
        assert profile.memory_mib <= gpu.cuda_mib
        assert profile.memory_mib <= gpu.nvml_mib * profile.slices / total
        assert profile.memory_mib > gpu.nvml_mib * profile.slices / total * 0.89
    for layout in mig.layouts(gpu):
        assert sum(profile.memory_mib * count for profile, count in layout) <= gpu.cuda_mib


@pytest.mark.parametrize("row", read_figures("slice_memory"), ids=lambda row: f"{row['gpu']} {row['profile']}")
@pytest.mark.real_world(
    behaviour="A MIG slice has the memory that nvidia-smi and torch show for it; the least of several readings counts",
    source="nvidia-smi mig -lgip and torch on A100-SXM4-80GB, H200 and B200 (2025 and 2026); NVIDIA/go-nvml mock/gpus",
)
def test_slices_have_the_memory_measured_on_such_a_gpu(row: dict[str, str]) -> None:
    found = mig.profiles(gpus()[row["gpu"]])[row["profile"]]
    assert (found.memory_mib, found.memory_is_derived) == (int(row["mib"]), False)


@pytest.mark.parametrize("gpu", gpus().values(), ids=lambda gpu: gpu.name)
def test_a_gpu_has_profiles_only_if_a_driver_can_cut_it(gpu: Gpu) -> None:
    assert bool(mig.profiles(gpu)) is bool(gpu.mig_min_driver)


@pytest.mark.parametrize("gpu", GPUS, ids=lambda gpu: gpu.name)
def test_profiles_start_inside_the_gpu_and_their_maximum_number_fits(gpu: Gpu) -> None:
    total = mig.memory_slices(gpu)
    for profile in mig.profiles(gpu).values():
        assert max(profile.starts) + profile.slices <= total
        assert mig.fits(((profile, profile.most),), gpu)
        assert profile.most <= len(profile.starts)
        assert re.fullmatch(r"[1-7]g\.\d+gb(\+me|\+me\.all|\+gfx|-me)?", profile.name)


def test_resources_are_named_as_the_plugin_names_them() -> None:
    profiles = mig.profiles(RTX)
    assert profiles["1g.24gb+me.all"].resource == "nvidia.com/mig-1g.24gb.me.all"
    assert profiles["1g.24gb-me"].resource == "nvidia.com/mig-1g.24gb-me"
    assert {profile.name for profile in profiles.values() if profile.is_plain} == {"1g.24gb", "2g.48gb", "4g.96gb"}
    every = mig.every_resource()
    assert len(every) == len(set(every)) == 51
    assert all(len(resource.partition("/")[2]) <= 63 for resource in every)


def test_gpus_are_found_by_a_profile_and_by_its_label() -> None:
    assert mig.gpus_with("1g.5gb") == mig.gpus_with("1g.5gb.me") == ["A100-40GB"]
    assert mig.gpus_with("1g.10gb") == ["A100-40GB", "A100-80GB", "H100"]
    assert mig.gpus_with("1g.99gb") == []


def test_usual_layouts_are_full_and_begin_with_the_most_slices() -> None:
    found = [mig.name(layout) for layout in mig.layouts(RTX)]
    assert found == ["4x1g.24gb", "2x1g.24gb_1x2g.48gb", "2x2g.48gb", "1x4g.96gb"]
    for layout in mig.layouts(H100):
        for profile in mig.profiles(H100).values():
            more: dict[Profile, int] = dict(layout)
            more[profile] = more.get(profile, 0) + 1
            assert not profile.is_plain or not mig.fits(tuple(more.items()), H100)
