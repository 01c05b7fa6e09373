"""Whether models fit, by the pair of the issue, by the cards, and by properties of every advice."""

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharing.advice import Case, advice
from sharing.assessment import Assessment, assess
from sharing.fit import Verdict, verdicts
from sharing.gpus import instance_types
from sharing.memory import need
from sharing.models import KvType, Served, models
from sharing.modes import Exclusive, Mps, Sharing, TimeSlicing
from sharing.setup import Setup
from tests.sharing.builders import changed, instance, listed, mode, pair, pool, served, setup, tenants, weighing

NVIDIA = [known for known in instance_types().values() if known.gpu.vendor == "nvidia"]
CONTEXTS = (256, 512, 1000, 2048, 4096, 8192, 32768)
SERVED = st.builds(
    lambda name, context, slots, kv_type: served(name, context=context, slots=slots, kv_type=kv_type),
    st.sampled_from(list(models())),
    st.sampled_from(CONTEXTS),
    st.integers(1, 8),
    st.sampled_from(list(KvType)),
)
SHARINGS = st.builds(mode, st.sampled_from(["exclusive", "timeslice", "mps"]), st.integers(2, 6))


@st.composite
def setups(draw: st.DrawFn) -> Setup:
    """Models on one node that has a share for each: what is left to judge is whether they fit."""
    known = draw(st.sampled_from(NVIDIA))
    sharing = draw(SHARINGS)
    most = min(known.gpus * sharing.offers(known.gpu)[0].per_gpu, 4)
    them = draw(st.lists(SERVED, min_size=1, max_size=most))
    return setup(pools=(pool(known.name, sharing, volume_gib=2000),), tenants=tenants(*them), nat="single")


def fitting(sharing: Sharing, *them: Served, on: str = "g4dn.xlarge") -> list[bool]:
    return [verdict.fits for verdict in verdicts(them, sharing, instance(on))]


def offers(sharing: Sharing, *them: Served, on: str = "g4dn.xlarge", index: int = 0) -> list[str]:
    return advice(Case(models=them, sharing=sharing, instance=instance(on)), index, "us-east-1")


def test_the_pair_fits_one_t4_together_under_timeslice() -> None:
    found = verdicts(pair(slots=4), TimeSlicing(replicas=2), instance())
    assert [round(verdict.need.total) for verdict in found] == [8_328, 5_779]
    assert [round(verdict.crowd_mib) for verdict in found] == [14_107, 14_107]
    assert [(verdict.card_mib, verdict.share_mib, verdict.fits) for verdict in found] == [(15_110, None, True)] * 2
    assert [verdict.served for verdict in found] == list(pair(slots=4))


def test_mps_shares_of_a_t4_by_four_are_too_small_for_the_pair() -> None:
    found = verdicts(pair(), Mps(replicas=4), instance())
    assert [(verdict.share_mib, verdict.fits) for verdict in found] == [(3_840, False)] * 2


def test_mps_shares_of_a_t4_by_two_take_the_pair() -> None:
    found = verdicts(pair(), Mps(replicas=2), instance())
    assert [(verdict.share_mib, verdict.fits) for verdict in found] == [(7_680, True)] * 2


def test_mps_shares_of_a_t4_are_too_small_for_llama2_at_four_slots() -> None:
    assert fitting(Mps(replicas=2), *pair(slots=4)) == [False, True]


def test_a_model_that_breaks_its_share_is_told_its_share() -> None:
    verdict = verdicts(pair(), Mps(replicas=4), instance())[0]
    assert verdict.rule == "must fit its share of 3,840 MiB"
    assert verdict.found == "needs 5,193 MiB"


def test_models_that_break_the_card_together_are_told_the_card() -> None:
    verdict = verdicts(pair(slots=8), TimeSlicing(replicas=2), instance())[0]
    assert verdict.rule == "models on one card must fit 15,110 MiB together"
    assert verdict.found == "with its neighbours 19,227 MiB"


@pytest.mark.parametrize(("mib", "fits"), [(15_110, True), (15_111, False)])
def test_a_model_may_fill_the_card_to_the_last_mib(mib: int, fits: bool) -> None:
    assert fitting(Exclusive(), weighing(mib)) == [fits]
    assert fitting(TimeSlicing(), weighing(mib - 5_000), weighing(5_000)) == [fits, fits]


@pytest.mark.parametrize(("mib", "fits"), [(3_840, True), (3_841, False)])
def test_a_model_may_fill_its_share_to_the_last_mib(mib: int, fits: bool) -> None:
    (verdict,) = verdicts([weighing(mib)], Mps(replicas=4), instance())
    assert verdict.fits is fits
    assert verdict.rule.startswith("must fit its share of 3,840 MiB" if not fits else "models on one card")
    assert verdict.found.startswith("needs" if not fits else "with its neighbours")


def test_full_mps_shares_together_are_more_than_cuda_has() -> None:
    assert fitting(Mps(), weighing(7_600), weighing(7_600)) == [False, False]
    assert fitting(Mps(), weighing(7_600), weighing(7_510)) == [True, True]


def test_a_model_alone_has_the_card_and_no_neighbour_under_exclusive() -> None:
    assert fitting(Exclusive(), weighing(15_000), weighing(15_000)) == [True, True]


def test_only_as_many_neighbours_count_as_the_card_has_shares_and_the_largest_of_them() -> None:
    found = verdicts([weighing(mib) for mib in (1_000, 2_000, 3_000, 4_000)], TimeSlicing(replicas=3), instance())
    assert [verdict.crowd_mib for verdict in found] == [8_000, 9_000, 9_000, 9_000]


def test_the_same_model_twice_counts_twice() -> None:
    found = verdicts([served(), served()], TimeSlicing(), instance())
    assert found[0].crowd_mib == 2 * found[0].need.total


@given(whole=setups(), data=st.data())
@settings(deadline=None, max_examples=30)
def test_a_bigger_card_never_fits_less(whole: Setup, data: st.DataObject) -> None:
    (here,) = whole.pools
    gpu = here.smallest.gpu
    bigger = [known for known in NVIDIA if known.gpu.nvml_mib >= gpu.nvml_mib and known.gpu.cuda_mib >= gpu.cuda_mib]
    there = data.draw(st.sampled_from(bigger))
    them = [tenant.served for tenant in whole.tenants]
    before = fitting(here.sharing, *them, on=here.smallest.name)
    after = fitting(here.sharing, *them, on=there.name)
    assert all(now or not then for then, now in zip(before, after, strict=True))


@given(whole=setups(), extra=SERVED)
@settings(deadline=None, max_examples=30)
def test_one_more_model_never_makes_another_fit(whole: Setup, extra: Served) -> None:
    (here,) = whole.pools
    them = [tenant.served for tenant in whole.tenants]
    before = fitting(here.sharing, *them, on=here.smallest.name)
    after = fitting(here.sharing, *them, extra, on=here.smallest.name)
    assert all(then or not now for then, now in zip(before, after, strict=False))


def judged(whole: Setup) -> Assessment:
    found = assess(whole)
    assert len(found.fits) == len(whole.tenants)
    return found


def paths(found: Assessment) -> set[str]:
    return {problem.path for problem in found.problems}


@given(whole=setups())
@settings(deadline=None, max_examples=150)
def test_every_offered_advice_really_fits_and_takes_nothing_from_the_others(whole: Setup) -> None:
    before = judged(whole)
    for index, fit in enumerate(before.fits):
        assert not (fit.verdict.fits and fit.advice)
        assert len(fit.advice) <= 6
        for text in fit.advice:
            after = judged(changed(whole, index, text))
            assert after.fits[index].verdict.fits, text
            for then, now in zip(before.fits, after.fits, strict=True):
                assert now.verdict.fits or not then.verdict.fits, text
            assert paths(after) <= paths(before) - {fit.tenant.path}, text


def beside_another(whole: Setup) -> Setup:
    """The setup with a second pool, which takes the same sharing and has a model that fits."""
    (here,) = whole.pools
    moved = [replace(tenant, pool="here") for tenant in whole.tenants]
    other = replace(tenants("llama3.2:1b", pool="other")[0], path=f"models[{len(moved)}]")
    pools = (listed(0, "other", pool(sharing=here.sharing)), listed(1, "here", here))
    return replace(whole, pools=pools, tenants=(*moved, other))


@given(whole=setups())
@settings(deadline=None, max_examples=80)
def test_advice_on_a_pool_of_several_is_the_same_and_changes_that_pool_alone(whole: Setup) -> None:
    alone, several = judged(whole), beside_another(whole)
    for index, (fit, same) in enumerate(zip(judged(several).fits, alone.fits, strict=False)):
        assert len(fit.advice) == len(same.advice)
        for text in fit.advice:
            if text.startswith(("`sharing", "`gpu-nodes")):
                assert text.startswith("`gpu-nodes[1].")
            after = changed(several, index, text)
            assert judged(after).fits[index].verdict.fits, text
            assert after.pools[0] == several.pools[0]


def test_a_pool_that_takes_the_stacks_sharing_is_told_to_get_its_own() -> None:
    spread = Mps(replicas=4, allocation_policy="distributed")
    case = Case(models=pair(), sharing=spread, instance=instance(), path="gpu-nodes[1]")
    assert advice(case, 0, "us-east-1") == [
        "`gpu-nodes[1].sharing: {mode: mps, replicas: 2, allocation-policy: distributed}`",
        "`gpu-nodes[1].sharing: {mode: timeslice, replicas: 4, allocation-policy: distributed}`",
        "`gpu-nodes[1].instance-types: [g6.xlarge]`",
    ]


@given(whole=setups())
@settings(deadline=None, max_examples=30)
def test_a_model_that_is_told_nothing_is_held_by_no_larger_gpu(whole: Setup) -> None:
    (here,) = whole.pools
    them = [tenant.served for tenant in whole.tenants]
    for index, fit in enumerate(judged(whole).fits):
        if not fit.verdict.fits and not fit.advice:
            alike = [known.name for known in NVIDIA if known.arch == here.smallest.arch and not known.gpu.min_driver]
            larger = [name for name in alike if instance(name).gpus >= here.smallest.gpus]
            assert not any(fitting(here.sharing, *them, on=name)[index] for name in larger)


@given(whole=setups())
@settings(deadline=None, max_examples=30)
def test_advice_about_a_model_asks_for_less_of_it(whole: Setup) -> None:
    for index, fit in enumerate(judged(whole).fits):
        then = fit.tenant.served
        for text in fit.advice:
            now = changed(whole, index, text).tenants[index].served
            assert now.slots <= then.slots
            assert now.context <= then.context
            assert now.kv_type.bytes_per_value <= then.kv_type.bytes_per_value


@given(whole=setups())
@settings(deadline=None, max_examples=30)
def test_advice_is_the_smallest_change_of_its_kind(whole: Setup) -> None:
    (here,) = whole.pools
    for index, fit in enumerate(judged(whole).fits):
        for text in fit.advice:
            if found := re.fullmatch(r"`(slots|sharing\.replicas): (\d+)`", text):
                number = int(found[2]) + 1
                asked = fit.tenant.served.slots if found[1] == "slots" else here.sharing.replicas
                if number < (asked or 0):
                    one_less = changed(whole, index, f"`{found[1]}: {number}`")
                    then = [one.verdict.fits for one in judged(whole).fits]
                    now = [one.verdict.fits for one in judged(one_less).fits]
                    assert not now[index] or any(was and not is_ for was, is_ in zip(then, now, strict=True))


def test_the_pair_under_mps_by_four_is_led_to_what_helps() -> None:
    assert offers(Mps(replicas=4), *pair()) == [
        "`sharing.replicas: 2`",
        "`sharing.mode: timeslice`",
        "`gpu-nodes.instance-types: [g6.xlarge]`",
    ]


def test_llama2_at_four_slots_under_mps_is_led_to_fewer_slots_and_smaller_caches() -> None:
    assert offers(Mps(replicas=2), *pair(slots=4)) == [
        "`slots: 3`",
        "`context: 1536`",
        "`kv-type: q8_0`",
        "`sharing.mode: timeslice`",
        "`gpu-nodes.instance-types: [g6.xlarge]`",
    ]


@pytest.mark.parametrize(("replicas", "models_", "offered"), [(4, 1, 3), (4, 3, 3), (4, 4, 0), (2, 1, 0)])
def test_replicas_are_never_fewer_than_the_models_nor_than_two(replicas: int, models_: int, offered: int) -> None:
    them = [weighing(5_000), *(weighing(1_000) for _ in range(models_ - 1))]
    found = [text for text in offers(Mps(replicas=replicas), *them) if "replicas" in text]
    assert found == ([f"`sharing.replicas: {offered}`"] if offered else [])


def test_fewer_replicas_are_offered_one_by_one() -> None:
    assert offers(Mps(replicas=4), weighing(4_000))[0] == "`sharing.replicas: 3`"
    assert offers(Mps(replicas=4), weighing(6_000))[0] == "`sharing.replicas: 2`"


def test_another_context_is_offered_in_steps_of_256_and_not_below_512() -> None:
    steps = [text for text in offers(Mps(replicas=2), *pair(slots=4)) if "context" in text]
    assert steps == ["`context: 1536`"]
    just_too_big = served("llama2:7b", context=1025, slots=4)
    room = need(replace(just_too_big, context=1024), instance().gpu).bound
    card = replace(instance().gpu, cuda_mib=round(room) + 1)
    case = Case(models=(just_too_big,), sharing=Exclusive(), instance=replace(instance(), gpu=card))
    assert "`context: 1024`" in advice(case, 0, "us-east-1")
    for room_at, offered in ((512, True), (511, False)):
        least = replace(just_too_big, context=room_at)
        card = replace(card, cuda_mib=int(need(least, card).bound) + 1)
        case = Case(models=(just_too_big,), sharing=Exclusive(), instance=replace(instance(), gpu=card))
        assert ("`context: 512`" in advice(case, 0, "us-east-1")) is offered


def test_a_context_is_shortened_from_what_the_model_really_gets() -> None:
    asked = served("llama2:7b", context=100_000)
    card = replace(instance().gpu, cuda_mib=int(need(replace(asked, context=3_840), instance().gpu).bound) + 1)
    case = Case(models=(asked,), sharing=Exclusive(), instance=replace(instance(), gpu=card))
    assert "`context: 3840`" in advice(case, 0, "us-east-1")


def test_several_changes_at_once_are_offered_when_no_single_one_helps() -> None:
    arm = instance("g5g.xlarge")  # there is no larger GPU for arm64
    asked = served("phi3:mini", slots=64, context=8192)

    def told(room: int) -> list[str]:
        tight = replace(arm, gpu=replace(arm.gpu, cuda_mib=room))
        return advice(Case(models=(asked,), sharing=Exclusive(), instance=tight), 0, "us-east-1")

    assert told(4_300) == ["`slots: 1` with `kv-type: q8_0`"]
    assert told(4_200) == ["`slots: 1` with `kv-type: q8_0` and `context: 7680`"]
    assert told(2_000) == []


@pytest.mark.parametrize(("asked", "offered"), [("f16", "q8_0"), ("q8_0", "q8_0"), ("q4_0", "q4_0")])
def test_several_changes_at_once_never_make_the_cache_larger(asked: str, offered: str) -> None:
    model = served("llama2:7b", slots=64, context=4096, kv_type=KvType(asked))
    least = replace(model, slots=1, context=512, kv_type=KvType(offered))
    arm = instance("g5g.xlarge")
    tight = replace(arm, gpu=replace(arm.gpu, cuda_mib=int(need(least, arm.gpu).bound) + 1))
    case = Case(models=(model,), sharing=Exclusive(), instance=tight)
    assert advice(case, 0, "us-east-1") == [f"`slots: 1` with `kv-type: {offered}` and `context: 512`"]


def test_a_place_is_not_taken_from_a_model_that_fits() -> None:
    """Under mps both limits hold; timeslice would free the first and crowd out the second."""
    them = (weighing(9_000), weighing(7_000))
    assert fitting(Mps(), *them) == [False, False]
    small = weighing(6_300)
    assert fitting(Mps(), weighing(8_800), small) == [False, True]
    assert "`sharing.mode: timeslice`" in offers(Mps(), weighing(8_800), small)
    assert "`sharing.mode: timeslice`" not in offers(Mps(), weighing(8_820), small)


def test_exclusive_is_never_offered_for_it_would_need_more_cards() -> None:
    found = offers(TimeSlicing(), weighing(9_000), weighing(9_000))
    assert found == ["`gpu-nodes.instance-types: [g6.xlarge]`"]


def test_a_mode_that_the_card_or_the_settings_refuse_is_not_offered() -> None:
    many = TimeSlicing(replicas=60)
    assert offers(many, weighing(9_000), weighing(9_000)) == [
        "`gpu-nodes.instance-types: [g6.xlarge]`",
    ]


def test_the_bigger_type_is_the_cheapest_that_holds_the_model() -> None:
    assert offers(Exclusive(), weighing(20_000))[-1] == "`gpu-nodes.instance-types: [g6.xlarge]`"
    assert offers(Exclusive(), weighing(30_000))[-1] == "`gpu-nodes.instance-types: [g6e.xlarge]`"
    assert offers(Exclusive(), weighing(60_000))[-1] == "`gpu-nodes.instance-types: [g7e.2xlarge]`"


def test_a_type_for_another_driver_or_architecture_is_not_offered() -> None:
    for mib in (20_000, 31_000, 60_000, 120_000):
        for text in offers(Exclusive(), weighing(mib)):
            assert "g7." not in text
    assert offers(Exclusive(), weighing(20_000), on="g5g.xlarge") == []
    assert not [text for text in offers(Exclusive(), weighing(8_800), on="g4ad.xlarge") if "types" in text]


def test_nothing_is_offered_where_nothing_helps() -> None:
    assert offers(Exclusive(), weighing(400_000)) == []


def test_a_verdict_can_be_made_by_hand() -> None:
    verdict = verdicts([served()], Mps(), instance())[0]
    assert isinstance(verdict, Verdict)
    assert not replace(verdict, card_mib=5_000).fits
    assert replace(verdict, card_mib=5_000).rule == "models on one card must fit 5,000 MiB together"


@pytest.mark.parametrize(("room", "slots"), [(8_000, 3), (6_300, 2), (5_500, 1)])
def test_slots_are_given_up_one_by_one(room: int, slots: int) -> None:
    card = replace(instance().gpu, cuda_mib=room)
    asked = served("llama2:7b", slots=4)
    found = advice(Case(models=(asked,), sharing=Exclusive(), instance=replace(instance(), gpu=card)), 0, "us-east-1")
    assert [text for text in found if "slots" in text] == [f"`slots: {slots}`"]


@pytest.mark.parametrize(
    ("kind", "mib", "bigger"),
    [
        ("g4dn.xlarge", 20_000, "g6.xlarge"),
        ("g4dn.12xlarge", 20_000, "g6.12xlarge"),
        ("g4dn.metal", 20_000, "g6.48xlarge"),
        ("p3.8xlarge", 20_000, "g6.12xlarge"),
    ],
)
def test_a_bigger_type_has_as_many_cards(kind: str, mib: int, bigger: str) -> None:
    assert offers(Exclusive(), weighing(mib), on=kind)[-1] == f"`gpu-nodes.instance-types: [{bigger}]`"
