"""Whether models fit: the pair of the issue, the GPUs, and properties."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from sharing.fit.shares import _given, place_on
from sharing.models.served import ServedModel
from sharing.modes.modes import Mig, Mps, Sharing, TimeSlicing
from sharing.sections.config import StackConfig
from tests.sharing.builders import instance, pair, read_cases, weighing
from tests.sharing.random_stacks import NVIDIA, SERVED, setups
from tests.sharing.rows import read_models


def fitting(sharing: Sharing, *them: ServedModel, on: str = "g4dn.xlarge") -> list[bool]:
    return [placement.fits for placement in place_on(them, sharing, instance(on), 1)]


CASES = read_cases("fits")


@pytest.mark.parametrize("name", CASES)
def test_the_verdict_says_whether_models_fit(name: str) -> None:
    case = CASES[name]
    on, nodes = case.get("type", "g4dn.xlarge"), case.get("nodes", 1)
    them = [weighing(mib, on=on) for mib in case.get("needs", [])]
    them += read_models(case.get("models", []))
    sharing: Sharing = TypeAdapter(Sharing).validate_python(case["sharing"])
    found = place_on(them, sharing, instance(on), nodes)
    said = [one.shares.profile or "fits" if one.fits else f"{one.rule}: {one.needed}" for one in found]
    assert said == case["expected"]


def test_mps_shares_of_a_t4_are_too_small_for_llama2_at_four_slots() -> None:
    assert fitting(Mps(replicas=2), *pair(slots=4)) == [False, True]


def test_only_the_largest_neighbours_count_and_no_more_than_the_gpu_has_shares() -> None:
    found = place_on([weighing(mib) for mib in (1_000, 2_000, 3_000, 4_000)], TimeSlicing(replicas=3), instance(), 1)
    assert [round(placement.crowd_mib) for placement in found] == [8_000, 9_000, 9_000, 9_000]


@given(whole=setups(), data=st.data())
@settings(max_examples=30)
def test_a_bigger_gpu_never_holds_less(whole: StackConfig, data: st.DataObject) -> None:
    (here,) = whole.pools
    gpu = here.smallest.gpu
    bigger = [known for known in NVIDIA if known.gpu.nvml_mib >= gpu.nvml_mib and known.gpu.cuda_mib >= gpu.cuda_mib]
    there = data.draw(st.sampled_from(bigger))
    them = list(whole.models)
    before = fitting(here.sharing, *them, on=here.smallest.name)
    after = fitting(here.sharing, *them, on=there.name)
    assert all(now or not then for then, now in zip(before, after, strict=True))


def test_a_model_may_fill_its_slice_to_the_last_mib() -> None:
    # NVIDIA's profiles of an RTX PRO 6000 in this layout: two slices 1g.24gb of 23,674 MiB and one 2g.48gb. The needs
    # of models are sums of fractions and seldom whole, so this test passes numbers instead of models.
    cut, gpu = Mig(strategy="mixed", layout="all-balanced"), instance("g7e.2xlarge").gpu
    alone = _given([40_000.0, 23_674.0], cut.offers(gpu), 1)
    assert [(shares.profile, is_left) for shares, is_left in alone] == [("2g.48gb", True), ("1g.24gb", True)]
    # With time-slicing they get the smallest slice that holds both.
    turns = _given([13_674.0, 10_000.0], cut.model_copy(update={"replicas": 2}).offers(gpu), 1)
    assert [(shares.profile, is_left) for shares, is_left in turns] == [("1g.24gb", True), ("1g.24gb", True)]


@given(whole=setups(), extra=SERVED)
@settings(max_examples=30)
def test_one_more_model_never_makes_another_fit(whole: StackConfig, extra: ServedModel) -> None:
    (here,) = whole.pools
    them = list(whole.models)
    before = fitting(here.sharing, *them, on=here.smallest.name)
    after = fitting(here.sharing, *them, extra, on=here.smallest.name)
    assert all(then or not now for then, now in zip(before, after, strict=False))
