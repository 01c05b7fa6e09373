"""Advice: each change really helps, the cheapest comes first, and no useless change is offered."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from sharing.cost.bill import cost
from sharing.fit.memory import need
from sharing.hardware.gpus import instance_types
from sharing.models.catalogue import KvType
from sharing.models.served import ServedModel
from sharing.models.share import Share
from sharing.modes.modes import Exclusive, Mig, Mps, TimeSlicing, mode_names, switched
from sharing.sections.changes import Advice
from sharing.sections.config import StackConfig
from sharing.sections.pools import GpuPool
from sharing.verdict.advice import advise
from sharing.verdict.full import judge_fully
from sharing.verdict.quick import judge_quickly
from tests.sharing.builders import (
    SMALL,
    changed,
    instance,
    listed,
    pool,
    read_cases,
    replace,
    served,
    setup,
    stack,
    tenants,
    weighing,
)
from tests.sharing.random_stacks import NVIDIA, SERVED, SHARINGS, setups
from tests.sharing.rows import read_setup

T4_MIB = instance().gpu.cuda_mib


def advice(whole: StackConfig) -> list[Advice]:
    found = judge_fully(whole)
    assert found.problems, "only a refused stack has advice"
    return [each for pool_ in whole.pools for each in found.advice[pool_.name]]


def offers(whole: StackConfig) -> list[tuple[str, ...]]:
    return [each.settings for each in advice(whole)]


def fits_exactly(target: ServedModel, asked: ServedModel) -> StackConfig:
    """`asked` beside a model that leaves exactly as much of a T4 as `target` needs."""
    room = need(target, instance().gpu).bound
    return stack("g4dn.xlarge", TimeSlicing(), asked, weighing(int(T4_MIB - room)))


@pytest.mark.parametrize("compared", [{"timeslice"}, {"timeslice", "mps"}])
def test_modes_that_a_comparison_shows_already_are_not_suggested(compared: set[str]) -> None:
    two_nodes = pool("g4dn.xlarge", Exclusive(), desired=2, max=2)
    whole = setup(pools=(two_nodes,), models=tenants(served(SMALL), served(SMALL)), max_usd_per_hour=1.0)
    assert named_modes(whole) == {"timeslice", "mps"}
    assert named_modes(replace(whole, compared_modes=frozenset(compared))) == {"timeslice", "mps"} - compared


def test_a_compared_mode_is_no_way_to_more_shares() -> None:
    whole = stack("g4dn.xlarge", Exclusive(), served(SMALL), served(SMALL))
    [problem] = judge_fully(whole).problems
    assert "`sharing.mode: timeslice`" in problem.fix
    [problem] = judge_fully(replace(whole, compared_modes=frozenset({"exclusive", "timeslice"}))).problems
    assert problem.fix == "Write `gpu-nodes.desired: 2` with `gpu-nodes.max: 2`."


def test_compared_limits_per_model_are_not_suggested() -> None:
    whole = stack("g4dn.xlarge", Mps(), served("qwen2.5:14b", context=4096), served("qwen2.5:3b", context=4096))
    both = (whole, replace(whole, compared_modes=frozenset({"mps-per-model"})))
    assert [("sharing.limits: per-model",) in offers(each) for each in both] == [True, False]


def named_modes(whole: StackConfig) -> set[str]:
    """The modes that the error about the budget suggests."""
    [problem] = judge_fully(whole).problems
    assert problem.path == "budget.max-usd-per-hour"
    return {name for name in mode_names() if f"`sharing.mode: {name}`" in problem.fix}


# Properties.


SLICES = st.sampled_from(
    [Mig(), Mig(replicas=3), Mig(layout="all-2g.48gb"), Mig(strategy="mixed", layout="all-balanced")]
)


@st.composite
def refused(draw: st.DrawFn) -> StackConfig:
    """A stack that is refused: models too large, too few shares or nodes, too little disk, or a budget too low."""
    known = draw(st.sampled_from(NVIDIA))
    capacity = draw(st.sampled_from(["spot", "on-demand"]))
    provisioner = draw(st.sampled_from(["node-group", "karpenter"]))
    nodes = draw(st.integers(1, 3))
    here = pool(
        known.name,
        draw(st.one_of(SHARINGS, SLICES)),
        capacity=capacity,
        provisioner=provisioner,
        on_demand_fallback=(provisioner, capacity) == ("karpenter", "spot") and draw(st.booleans()),
        desired=nodes if provisioner == "node-group" else 1,
        max=nodes,
        volume_gib=draw(st.sampled_from([100, 1000])),
    )
    cache = draw(st.sampled_from([512, 512, 8192]))
    them = [replace(one, prompt_cache_mib=cache) for one in draw(st.lists(SERVED, min_size=1, max_size=4))]
    limit = draw(st.sampled_from([None, None, 0.7, 2.0]))
    # Paris, for which the tables have no price of G5, G6e and P.
    region = draw(st.sampled_from(["us-east-1", "us-east-1", "eu-west-3"]))
    return setup(pools=(here,), models=tenants(*them), max_usd_per_hour=limit, region=region)


def listed_changes(whole: StackConfig) -> Iterator[StackConfig]:
    """Every kind of change that affects the price, spelled out without the code under test."""
    [here] = whole.pools
    models = len(whole.models)
    them = list(whole.models)

    def sized(one: GpuPool) -> Iterator[StackConfig]:
        disk = replace(one, volume_gib=max(one.volume_gib, whole.disk_gib(one)))
        for nodes in range(1, models + 1):
            desired = nodes if one.provisioner == "node-group" else 1
            yield replace(whole, pools=(replace(disk, min=0, desired=desired, max=max(nodes, here.max)),))

    yield from sized(here)
    others = []
    for name in mode_names():
        try:
            others.append(switched(here.sharing, name))
        except ValidationError:
            continue
    for sharing in others:
        yield from sized(replace(here, sharing=sharing))
    for name in instance_types():
        for sharing in (here.sharing, *others):
            yield from sized(replace(here, instance_types=(name,), sharing=sharing))
    if here.sharing.mode in ("timeslice", "mps"):
        for replicas in range(2, here.sharing.replicas or 2):
            yield from sized(replace(here, sharing=here.sharing.model_copy(update={"replicas": replicas})))
    yield from sized(replace(here, capacity="spot", on_demand_fallback=False))
    largest = max(served.prompt_cache_mib for served in them)
    kinds: tuple[Callable[[ServedModel], ServedModel], ...] = (
        *(smaller("slots", slots) for slots in (1, 2, 4)),
        *(smaller("context", tokens) for tokens in (512, 1024, 4096)),
        *(smaller("prompt_cache_mib", mib) for mib in (largest // 2, largest // 8, 0)),
        lambda served: served if served.model.encoder else replace(served, batch=min(served.effective_batch, 512)),
        lambda served: replace(served, kv_type=KvType.Q8_0),
    )
    for less in kinds:
        for changed_ones in ([less(one) for one in them], *alone(them, less)):
            tried = tuple(replace(was, served=now) for was, now in zip(whole.models, changed_ones, strict=True))
            yield replace(whole, models=tried)


def smaller(setting: str, most: int) -> Callable[[ServedModel], ServedModel]:
    return lambda served: replace(served, **{setting: min(most, getattr(served, setting))})


def alone(them: list[ServedModel], less: Callable[[ServedModel], ServedModel]) -> Iterator[list[ServedModel]]:
    """The setups in which one of the models is changed."""
    for index, one in enumerate(them):
        yield [*them[:index], less(one), *them[index + 1 :]]


@pytest.mark.slow
@given(whole=refused())
@settings(max_examples=20)
def test_the_first_advice_is_accepted_and_no_listed_change_is_cheaper(whole: StackConfig) -> None:
    found = judge_fully(whole)
    if not found.problems:
        return
    offered = found.advice["gpu"]
    for each in offered:
        bill = accepted_bill(changed(whole, each.settings))
        assert bill, each
        assert each.usd_per_hour == pytest.approx(bill.usd_per_hour, abs=1e-9)
        assert each.is_priced is not bool(bill.unpriced)
    assert [rank(each) for each in offered] == sorted(map(rank, offered))
    first = offered[0] if offered else None
    budget_is_judged = bool(whole.budget.max_usd_per_hour) and not judge_quickly(whole).budget_is_open
    for tried in listed_changes(whole):
        bill = cost(tried)
        if bill.unpriced and budget_is_judged:
            continue
        price = bool(bill.unpriced), bill.usd_per_hour
        if first is None or price < (not first.is_priced, (first.usd_per_hour or 0) - 1e-6):
            assert not accepted_bill(tried), (first, tried.pools)


def rank(each: Advice) -> tuple[bool, float]:
    return not each.is_priced, each.usd_per_hour or 0


def accepted_bill(whole: StackConfig):  # type: ignore[no-untyped-def]
    found = judge_quickly(whole)
    return found.cost if found.accepted else None


def beside_another(whole: StackConfig) -> StackConfig:
    """The setup with a second pool, which has the same sharing and a model that fits."""
    (here,) = whole.pools
    moved = [replace(served, pool="here") for served in whole.models]
    other = replace(tenants(weighing(1_000), pool="other")[0], index=len(moved))
    pools = (listed(0, "other", pool(sharing=TimeSlicing())), listed(1, "here", here))
    return replace(whole, pools=pools, models=(*moved, other))


@pytest.mark.slow
@given(whole=setups())
@settings(max_examples=40)
def test_advice_on_a_pool_of_several_is_the_same_and_changes_that_pool_alone(whole: StackConfig) -> None:
    alone, several = judge_fully(whole), judge_fully(beside_another(whole))
    assert [len(each.settings) for each in several.advice["here"]] or not alone.advice["gpu"]
    assert several.advice["other"] == ()
    for each in several.advice["here"]:
        assert not any(setting.startswith(("sharing", "gpu-nodes.", "gpu-nodes[0]")) for setting in each.settings)
        after = changed(beside_another(whole), each.settings)
        assert judge_quickly(after).accepted, each
        assert after.pools[0] == beside_another(whole).pools[0]


# The changes that are offered.

CASES = read_cases("advice")


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_refused_stack_gets_advice_that_helps(name: str) -> None:
    row = {**CASES[name], "gpu-nodes": {"volume-gib": 2000, **CASES[name].get("gpu-nodes", {})}}
    begins, among = ([tuple(change) for change in row.pop(key, [])] for key in ("begins", "among"))
    never, says = row.pop("never", []), row.pop("says", [])
    offered = advice(read_setup(row))
    found = [each.settings for each in offered]
    assert found
    assert found[: len(begins)] == begins
    assert {*among} <= {*found}
    assert {*says} <= {str(each) for each in offered}
    assert [word for word in never if word in str(found)] == []


@pytest.mark.parametrize(
    ("tag", "asked", "fits", "offered"),
    [
        *(("llama2:7b", {"slots": 4}, {"slots": slots}, {"slots": slots}) for slots in (1, 2, 3)),
        # A context is shortened in steps of 256 tokens, never below 512.
        *(("llama2:7b", {}, {"context": tokens}, {"context": tokens}) for tokens in (512, 1792)),
        ("llama2:7b", {}, {"context": 256}, {"context": None}),
        # llama2's longest context is 4,096 tokens (its model card).
        ("llama2:7b", {"context": 100_000}, {"context": 3_840}, {"context": 3_840}),
        # Ollama takes 2,048 tokens per step beyond 32,768 tokens of context (server/sched.go).
        *(("llama3.2:1b", {"context": 65_536}, {"batch": batch}, {"batch": batch}) for batch in (1024, 512)),
        ("llama2:7b", {"slots": 2}, {"context": 1024}, {"batch": None}),
        # All of an embedding model's text must fit one step.
        ("nomic-embed-text:latest", {}, {"context": 1024}, {"batch": None}),
        ("llama2:7b", {"context": 4096}, {"context": 2560}, {"kv-type": "q8_0"}),
        ("llama2:7b", {"context": 4096, "kv_type": KvType.Q8_0}, {"context": 2560}, {"kv-type": None}),
    ],
)
def test_a_setting_is_reduced_just_enough(
    tag: str, asked: dict[str, Any], fits: dict[str, Any], offered: dict[str, object]
) -> None:
    model = served(tag, **asked)
    found = offers(fits_exactly(replace(model, **fits), model))
    for key, value in offered.items():
        wanted = [(f"models[0].{key}: {value}",)] if value else []
        assert [one for one in found if len(one) == 1 and key in one[0]] == wanted


@pytest.mark.parametrize(
    "whole",
    [
        stack("g4dn.xlarge", Exclusive(), weighing(400_000)),
        setup(kubernetes="1.2"),
        setup(pools=(pool("odd"),)),
        setup(),
    ],
    ids=["no change helps", "another error", "unknown type", "no error"],
)
def test_nothing_is_offered_where_no_change_helps(whole: StackConfig) -> None:
    assert judge_fully(whole).advice == {"gpu": ()}


def test_a_change_of_a_model_leaves_idle_nodes_alone() -> None:
    idle = pool(desired=3, max=3, sharing=Exclusive())
    assert ("models[0].slots: 5",) in offers(
        setup(pools=(idle,), models=tenants(served("llama2:7b", context=4096, slots=8)))
    )


def test_if_no_single_change_is_enough_all_models_that_fail_are_changed_alike() -> None:
    """The third model leaves enough memory for the other two with two slots each."""
    asked = served("llama2:7b", slots=4)
    both = 2 * need(replace(asked, slots=2), instance("g6.xlarge").gpu).bound
    filler = weighing(int(instance("g6.xlarge").gpu.cuda_mib - both), on="g6.xlarge")
    whole = stack("g6.xlarge", TimeSlicing(replicas=3), asked, asked, filler)
    assert ("models[0].slots: 2", "models[1].slots: 2") in offers(whole)


@pytest.mark.slow
def test_a_stack_over_its_budget_gets_cheaper_advice() -> None:
    poor = setup(pools=(pool("g4dn.12xlarge"),), max_usd_per_hour=1.0)
    [problem] = judge_fully(poor).problems
    assert problem.path == "budget.max-usd-per-hour"
    first, *_ = advice(poor)
    assert judge_quickly(changed(poor, first.settings)).accepted
    assert f"Write {first}; or `budget.max-usd-per-hour: " in problem.fix
    hopeless = setup(max_usd_per_hour=0.01)
    # The fix names the one budget that is enough.
    assert judge_fully(hopeless).problems[0].fix.endswith("Write `budget.max-usd-per-hour: 0.86`.")
    assert judge_fully(replace(hopeless, max_usd_per_hour=0.86)).problems == ()
    assert judge_fully(replace(hopeless, max_usd_per_hour=0.85)).problems != ()
    assert judge_fully(hopeless).advice["gpu"] == ()


def test_with_a_budget_no_change_with_an_unknown_price_is_offered() -> None:
    """The pair of the report: in Paris g4dn.xlarge costs $0.615 per hour, and G5 has no known price."""
    poor = setup(region="eu-west-3", nat="single", max_usd_per_hour=0.41)
    assert judge_quickly(poor).over_budget
    assert advice(poor) == []
    refused_ = stack("g4dn.12xlarge", TimeSlicing(), weighing(20_000), weighing(18_000))
    rich = replace(refused_, region="eu-west-3", max_usd_per_hour=9.0)
    found = advice(rich)
    assert found
    assert all(each.is_priced for each in found)
    assert "g5." not in str(found)


def test_with_an_unknown_type_of_system_nodes_the_price_of_the_stack_is_unknown() -> None:
    whole = replace(stack("g4dn.xlarge", Exclusive(), weighing(20_000)), system_types=("odd",))
    first, *_ = judge_fully(whole).advice["gpu"]
    assert first.usd_per_hour is None
    assert str(first) == first.change == "`gpu-nodes.instance-types: [g6.xlarge]`"


def test_a_pool_of_several_is_advised_to_have_its_own_sharing() -> None:
    whole = beside_another(
        stack("g4dn.xlarge", Mps(replicas=4, allocation_policy="distributed"), weighing(6_000), weighing(4_000))
    )
    found = [each.settings for each in judge_fully(whole).advice["here"]]
    assert found[0] == ("gpu-nodes[1].sharing: {mode: mps, replicas: 2, allocation-policy: distributed}",)


def test_each_of_two_refused_pools_gets_advice() -> None:
    one = listed(0, "one", pool(sharing=Exclusive(), volume_gib=1000))
    two = listed(1, "two", pool(sharing=Exclusive(), volume_gib=1000))
    them = tenants(weighing(20_000), weighing(30_000))
    whole = setup(pools=(one, two), models=(replace(them[0], pool="one"), replace(them[1], pool="two")))
    found = judge_fully(whole)
    both = changed(changed(whole, found.advice["one"][0].settings), found.advice["two"][0].settings)
    assert judge_quickly(both).accepted


# Changes that affect only the price or the RAM.


def test_prompt_caches_that_exceed_the_nodes_memory_are_reduced_first() -> None:
    """g4dn.xlarge leaves 13,817 MiB. Each pod takes 846 MiB without its cache, which may have 2,608 MiB."""
    them = [replace(served(SMALL), prompt_cache_mib=8192) for _ in range(4)]
    whole = stack("g4dn.xlarge", TimeSlicing(replicas=4), *them)
    first, *_ = advice(whole)
    assert len(first.settings) == 4
    assert first.change == "`models[0-3].prompt-cache-mib: 2560`"
    assert first.usd_per_hour == pytest.approx(judge_quickly(whole).cost.usd_per_hour)  # type: ignore[union-attr]


# The wording.


def problems(whole: StackConfig) -> list[str]:
    return [str(problem) for problem in judge_fully(whole).problems]


def test_models_that_break_different_bounds_are_different_problems_with_one_advice() -> None:
    first, second = problems(stack("g4dn.xlarge", Mps(replicas=4), weighing(6_000), weighing(4_000)))
    assert first.startswith("models[0]: own (6,000 MiB with its margin) cannot fit its share of 3,840 MiB (mps on T4)")
    assert "Write `sharing.replicas: 2` ($" in first
    assert second.endswith("Apply the fix for models[0].")


def test_four_of_the_changes_that_help_are_offered() -> None:
    whole = stack("g4dn.xlarge", Mps(replicas=4), weighing(6_000), weighing(4_000))
    every = advise(whole, judge_quickly(whole), whole.pools[0], most=None)
    assert len(every) > 4
    assert advice(whole) == every[:4]


def test_models_that_break_the_same_bound_are_named_and_counted() -> None:
    them = [replace(weighing(5_000), model=replace(weighing(5_000).model, name=name)) for name in "abcde"]
    [problem] = judge_fully(stack("g4dn.xlarge", TimeSlicing(replicas=5), *them)).problems
    assert problem.found == "a, b, c and 2 more (25,000 MiB in total)"


def test_of_equally_cheap_changes_those_that_keep_limits_come_first_and_the_others_say_so() -> None:
    """An A100 has MIG, and limits per model need MPS: every fix changes the mode or the type."""
    asked = tenants(served("qwen3:14b"), served("llama3.2:3b"))
    config = setup(models=asked, pools=(pool("p4d.24xlarge", sharing=Mig(limits="per-model")),))
    said = [str(each) for each in judge_fully(config).advice["gpu"]]
    assert said[0].startswith("`sharing.mode: mps` with `gpu-nodes.instance-types: [g4dn.xlarge]` ($0.")
    unlimited = [each for each in said if each.endswith("per hour, without memory limits)")]
    assert [each.split("` ")[0] for each in unlimited] == ["`sharing.mode: timeslice"]


def test_limits_that_fit_stay_where_something_else_is_refused() -> None:
    limited = [served("llama3.2:3b").changed(share=Share(memory_gib=gib)) for gib in (4, 3.5)]
    own = pool(sharing=Mps(limits="per-model"), capacity="on-demand")
    config = setup(models=tenants(*limited), pools=(own,), max_usd_per_hour=0.9)
    changes = [each.settings for each in judge_fully(config).advice["gpu"]]
    assert changes
    assert not [each for each in changes if any("share" in setting for setting in each)]
