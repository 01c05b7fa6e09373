"""MIG as a mode: its shares, the configuration of nodes and plugin, errors of layouts, and the slices of models."""

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from sharing.fit.shares import place_on
from sharing.fit.slices import MigType, in_mig
from sharing.hardware import mig
from sharing.hardware.gpus import Gpu, gpus
from sharing.hardware.prices import HOME, Market
from sharing.models.served import ServedModel
from sharing.modes import layouts
from sharing.modes.layouts import Slices
from sharing.modes.modes import Exclusive, Mig, Mps, Sharing, TimeSlicing, switched
from sharing.verdict.full import judge_fully
from sharing.verdict.rules.table import problems
from tests.sharing import builders
from tests.sharing.builders import instance, pool, setup, tenants

RTX, H100, T4 = gpus()["rtx-pro-server-6000"], gpus()["h100"], gpus()["t4"]
BALANCED = Mig(strategy="mixed", layout="all-balanced")


def weighing(mib: float, on: str = "g7e.2xlarge") -> ServedModel:
    return builders.weighing(mib, on=on)


def lists(**counts: int) -> list[Slices]:
    """`_1g_24gb=2` is two slices `1g.24gb`."""
    return [Slices(profile=name.strip("_").replace("_", "."), count=count) for name, count in counts.items()]


def test_without_a_layout_a_gpu_is_cut_into_its_smallest_slices() -> None:
    assert Mig().cut(RTX) == "4x1g.24gb"
    assert Mig().cut(H100) == "7x1g.10gb"


@pytest.mark.parametrize("mode", [TimeSlicing, Mps, Exclusive, Mig])
def test_no_mode_accepts_a_layout_with_control_characters(mode: type[Mig]) -> None:
    for layout in ("all-1g.24gb\x1b]0;owned\x07", [{"profile": "1g.24gb\x9b"}]):
        with pytest.raises(ValidationError, match="must be printable text"):
            mode.model_validate({"layout": layout})


@pytest.mark.parametrize(("gpu", "layout"), [(T4, None), (RTX, "all-1g.10gb"), (H100, lists(_1g_10gb=9)), (RTX, [])])
def test_a_gpu_that_cannot_be_cut_this_way_offers_nothing(gpu: Gpu, layout: Any) -> None:
    sharing = Mig(layout=layout, strategy="mixed")
    assert sharing.check(gpu)
    assert (sharing.offers(gpu), sharing.layout_of(gpu)) == ((), ())


# The configuration of nodes and plugin.


def test_a_node_has_its_layout_from_the_start() -> None:
    assert BALANCED.node_labels(RTX) == {
        "nvidia.com/mig.config": "2x1g.24gb_1x2g.48gb",
        "nvidia.com/mig.capable": "true",
    }
    assert BALANCED.needs_mig_manager
    assert BALANCED.ready_labels == {"nvidia.com/mig.config.state": "success"}


# Settings.


def test_settings_survive_a_switch_of_mode_and_are_reported_if_they_have_no_effect() -> None:
    balanced = TypeAdapter(Sharing).validate_python(
        {"mode": "mig", "strategy": "mixed", "layout": [{"profile": "1g.24gb", "count": 2}]}
    )
    for mode in ("timeslice", "mps", "exclusive"):
        other = switched(balanced, mode)
        assert other.without_effect() == {"strategy": "mixed", "layout": [{"profile": "1g.24gb", "count": 2}]}
        assert switched(other, "mig") == balanced
    assert balanced.without_effect() == {}
    assert Mig(allocation_policy="packed").without_effect() == {"allocation-policy": "packed"}
    assert Mig(allocation_policy="packed", replicas=2).without_effect() == {}
    found = judge_fully(setup(pools=(pool(sharing=switched(balanced, "timeslice")),)))
    assert [(one.path, one.found) for one in found.warnings] == [
        ("sharing.strategy", "mixed"),
        ("sharing.layout", "1 entries"),
    ]


# Impossible layouts.


GPUS = [gpu for gpu in gpus().values() if mig.profiles(gpu)]


@pytest.mark.slow
@given(gpu=st.sampled_from(GPUS), data=st.data())
@settings(max_examples=200)
def test_the_suggested_layout_is_accepted(gpu: Gpu, data: st.DataObject) -> None:
    known = list(mig.profiles(gpu).values())
    chosen = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=4, unique=True))
    asked = tuple((profile, data.draw(st.integers(1, profile.most))) for profile in chosen)
    setting = [Slices(profile=profile.name, count=count) for profile, count in asked]
    problems = Mig(strategy="mixed", layout=setting).check(gpu)
    assert bool(problems) is not mig.fits(asked, gpu)
    for problem in problems:
        text = problem.fix.split("`")[1].removeprefix("layout: ")
        rows = [dict(pair.split(": ") for pair in row.split(", ")) for row in text.strip("[{}]").split("}, {")]
        instead = [Slices(profile=row["profile"], count=int(row["count"])) for row in rows]
        assert Mig(strategy="mixed", layout=instead).check(gpu) == []


def test_the_cheapest_types_with_mig_are_named_with_the_price_of_the_region() -> None:
    assert layouts.cheapest_types(HOME) == [
        ("g7e.2xlarge", 3.36312, "on demand"),
        ("p5.4xlarge", 6.88, "on demand"),
    ]
    (problem,) = Mig().check(T4, market=Market(region="eu-west-2"))
    assert problem.fix.startswith("Use another mode, or a type with MIG: g7e.2xlarge ($")


@pytest.mark.parametrize(
    ("buying", "price"),
    [
        # The tables have no spot price of p5.4xlarge.
        ({"capacity": "spot"}, "g7e.2xlarge ($1.54 per hour, spot), p5.4xlarge ($6.88 per hour, on demand)."),
        ({"capacity": "on-demand"}, "g7e.2xlarge ($3.36 per hour, on demand), p5.4xlarge ($6.88 per hour, on demand)."),
        (
            {"capacity": "spot", "provisioner": "karpenter", "on_demand_fallback": True},
            "g7e.2xlarge ($3.36 per hour, on demand), p5.4xlarge ($6.88 per hour, on demand).",
        ),
    ],
)
def test_types_with_mig_have_the_kind_of_price_that_the_pool_pays(buying: dict[str, Any], price: str) -> None:
    [problem] = [each for each in problems(setup(pools=(pool("g4dn.xlarge", Mig(), **buying),))) if "mode" in each.path]
    assert problem.fix == f"Use another mode, or a type with MIG: {price}"


# The slices of models.


def test_too_few_slices_are_reported_once_and_not_for_each_model() -> None:
    whole = setup(
        pools=(pool("g7e.2xlarge", BALANCED),), models=tenants(*(weighing(1_000) for _ in range(4))), nat="none"
    )
    assert [problem.path for problem in judge_fully(whole).problems] == ["models"]


def test_an_impossible_layout_is_the_only_error() -> None:
    whole = setup(pools=(pool("g7e.2xlarge", Mig(layout="all-1g.10gb")),))
    assert [problem.path for problem in judge_fully(whole).problems] == ["sharing.layout"]
    assert judge_fully(whole).fits == ()


@pytest.mark.slow
@given(
    gpu=st.sampled_from(["g7e.2xlarge", "p5.4xlarge"]),
    number=st.integers(0, 27),
    mibs=st.lists(st.integers(1_000, 90_000), min_size=1, max_size=5),
)
@settings(max_examples=200)
def test_all_models_fit_if_any_assignment_of_slices_allows_it(gpu: str, number: int, mibs: list[int]) -> None:
    usual = list(mig.layouts(instance(gpu).gpu))
    layout = usual[number % len(usual)]
    sharing = Mig(strategy="mixed", layout=[Slices(profile=profile.name, count=count) for profile, count in layout])
    slices = [profile.memory_mib for profile, count in layout for _ in range(count)]
    possible = len(mibs) <= len(slices) and any(
        all(mib <= size for mib, size in zip(mibs, dealt, strict=True))
        for dealt in set(itertools.permutations(slices, len(mibs)))
    )
    found = place_on([weighing(mib, gpu) for mib in mibs], sharing, instance(gpu), 1)
    assert len(layout) == 1 or all(verdict.fits for verdict in found) is possible


def test_the_cheapest_types_that_hold_models_in_slices_are_named_with_layout_and_price() -> None:
    assert in_mig((weighing(10_500), weighing(5_000)), "us-east-1") == [
        MigType(instance_type="g7e.2xlarge", layout="all-1g.24gb", usd_per_hour=3.36312),
        MigType(
            instance_type="p5.4xlarge",
            layout="[{profile: 1g.10gb, count: 6}, {profile: 1g.20gb, count: 1}]",
            usd_per_hour=6.88,
        ),
        MigType(
            instance_type="p4d.24xlarge",
            # It has eight GPUs, so both models get a slice of the larger kind.
            layout="all-3g.20gb",
            usd_per_hour=21.957642,
        ),
    ]
    assert in_mig((weighing(400_000),), "us-east-1") == []
