"""All that is said of a setup: refusals, warnings, fits, the bill."""

from dataclasses import replace

import pytest

from sharing.assessment import Assessment, assess
from sharing.cost import cost
from sharing.judgement import FIT_READS
from sharing.modes import Exclusive, Mps, TimeSlicing
from sharing.setup import Setup
from tests.sharing.builders import SMALL, listed, pair, pool, served, setup, tenants, weighing


def told(found: Assessment) -> list[str]:
    return [str(problem) for problem in found.problems]


def crowded(replicas: int = 4, slots: int = 1) -> Setup:
    return setup(pools=(pool(sharing=Mps(replicas=replicas)),), tenants=tenants(*pair(slots)))


def test_a_good_setup_is_accepted_and_has_a_bill() -> None:
    whole = setup()
    found = assess(whole)
    assert found.problems == found.warnings == ()
    assert [(fit.tenant, fit.pool, fit.verdict.fits, fit.advice) for fit in found.fits] == [
        (whole.tenants[0], whole.pools[0], True, ()),
        (whole.tenants[1], whole.pools[0], True, ()),
    ]
    assert found.cost == cost(whole)


def test_the_pair_at_four_slots_is_accepted_on_one_t4_under_timeslice() -> None:
    found = assess(setup(tenants=tenants(*pair(slots=4))))
    assert found.problems == found.warnings == ()


def test_each_bound_that_models_break_is_a_problem_and_the_first_has_the_advice() -> None:
    first, second = told(assess(crowded()))
    assert first.startswith("models[0]: must fit its share of 3,840 MiB (mps on T4) (got llama2:7b needs ")
    assert second.startswith("models[1]: must fit its share of 3,840 MiB (mps on T4) (got mistral:7b needs ")
    assert ". Write `sharing.replicas: 3` ($" in first, "15,360 MiB / 3 is more than either needs"
    assert second.endswith(". Make the change that helps models[0].")


def test_pools_that_are_refused_alike_are_problems_of_their_own() -> None:
    twins = tenants(*[served("llama2:7b", context=4096)] * 2)
    pools = tuple(listed(index, name, pool(sharing=Mps(replicas=4))) for index, name in enumerate(("one", "two")))
    apart = setup(pools=pools, tenants=(replace(twins[0], pool="one"), replace(twins[1], pool="two")))
    fixes = [problem.fix for problem in assess(apart).problems]
    assert [fix.partition("].")[0] for fix in fixes] == [f"Write `gpu-nodes[{index}" for index in (0, 1)]


def test_models_are_told_in_the_order_of_the_file_whatever_pools_they_are_on() -> None:
    pools = tuple(listed(index, name, pool(sharing=Mps(replicas=4))) for index, name in enumerate(("one", "two")))
    them = [
        replace(one, pool=name)
        for one, name in zip(tenants("llama2:7b", "llama2:7b", "mistral:7b"), ("two", "one", "two"), strict=True)
    ]
    found = assess(setup(pools=pools, tenants=tuple(them)))
    assert [fit.pool.name for fit in found.fits] == ["two", "one", "two"]
    assert [problem.path for problem in found.problems] == ["models[0]", "models[1]", "models[2]"]


def test_an_unreadable_setting_of_one_pool_leaves_the_fits_of_another() -> None:
    one = listed(0, "one", pool(sharing=Mps(replicas=4)))
    two = listed(1, "two", pool(sharing=Mps(replicas=4)), "gpu-nodes[1].sharing")
    them = tenants("llama2:7b", "llama2:7b")
    whole = setup(pools=(one, two), tenants=(replace(them[0], pool="one"), replace(them[1], pool="two")))
    for unreadable, judged in (("gpu-nodes[0].instance-types[0]", ["two"]), ("sharing", ["two"]), ("models", [])):
        assert [fit.pool.name for fit in assess(whole, [unreadable]).fits] == judged


def test_a_model_that_nothing_helps_is_told_so() -> None:
    whole = setup(
        pools=(pool(sharing=Exclusive(), volume_gib=1000),),
        tenants=tenants(weighing(400_000)),
    )
    (problem,) = told(assess(whole))
    assert problem.endswith("and a model cannot be split over several GPUs. Use a smaller model.")
    assert assess(whole).fits[0].advice == ()


def test_a_model_too_large_for_one_gpu_of_a_node_with_several_is_told_that_it_gets_one() -> None:
    statement = "; a model runs on one GPU, even on a node with several"
    two_gpus_large = assess(
        setup(pools=(pool("g4dn.12xlarge", Exclusive(), volume_gib=1000),), tenants=tenants(weighing(30_000)))
    )
    (problem,) = told(two_gpus_large)
    assert statement in problem
    assert "instance-types: [" in problem
    one_gpu = assess(setup(pools=(pool("g4dn.xlarge", Exclusive()),), tenants=tenants(weighing(30_000))))
    assert statement not in told(one_gpu)[0]
    crowded = assess(setup(pools=(pool("g4dn.12xlarge"),), tenants=tenants(weighing(10_000), weighing(10_000))))
    assert crowded.problems
    assert statement not in told(crowded)[0]


def test_fits_are_judged_pool_by_pool() -> None:
    whole = setup(
        pools=(pool(), pool("g5.xlarge", Exclusive(), name="big", path="gpu-nodes[1]")),
        tenants=(*tenants(SMALL), *tenants("qwen2.5:32b", "qwen2.5:14b", pool="big")[1:]),
    )
    found = assess(whole)
    assert [(fit.tenant.served.model.name, fit.pool.name) for fit in found.fits] == [
        (SMALL, "gpu"),
        ("qwen2.5:14b", "big"),
    ]
    assert found.problems == ()


@pytest.mark.parametrize(
    ("types", "judged", "billed"),
    [
        (("g4dn.xlarge",), True, True),
        (("g4dn.xlarge", "g4dn.2xlarge"), True, True),
        (("g4dn.xlarge", "g5.xlarge"), False, True),
        (("g4ad.xlarge",), False, True),
        (("odd",), False, False),
        (("g4dn.xlarge", "odd"), True, False),
    ],
)
def test_only_what_is_known_is_judged(types: tuple[str, ...], judged: bool, billed: bool) -> None:
    found = assess(setup(pools=(pool(types),)))
    assert bool(found.fits) is judged
    assert (found.cost is not None) is billed


def test_a_stack_with_an_unknown_type_of_system_node_has_no_bill() -> None:
    assert assess(setup(system_types=("t3.medium", "odd"))).cost is None


@pytest.mark.parametrize("unreadable", ["sharing.mode", "models[1].context", "gpu-nodes.instance-types[0]", "sharing"])
def test_whether_models_fit_is_not_judged_where_a_setting_of_it_is_unreadable(unreadable: str) -> None:
    found = assess(crowded(), [unreadable])
    assert found.fits == ()
    assert found.problems == ()
    assert found.cost is None


def test_models_are_judged_but_not_billed_where_another_setting_is_unreadable() -> None:
    found = assess(replace(crowded(), max_usd_per_hour=0.01), ["cluster.nat"])
    assert [problem.path for problem in found.problems] == ["models[0]", "models[1]"]
    assert found.cost is None
    assert FIT_READS == ("sharing", "models", "gpu-nodes.instance-types")


def test_warnings_do_not_refuse_and_unreadable_settings_silence_them() -> None:
    whole = setup(nat="single", nat_is_written=False, pools=(pool(sharing=TimeSlicing(), desired=0),))
    assert [one.path for one in assess(whole).warnings] == ["gpu-nodes.desired", "cluster.nat"]
    assert [one.path for one in assess(whole, ["cluster.nat"]).warnings] == ["gpu-nodes.desired"]
    assert assess(whole).problems == ()


def test_a_stack_dearer_than_its_budget_is_refused_and_told_its_dearest_line() -> None:
    assert told(assess(setup(max_usd_per_hour=0.4))) == [
        "budget.max-usd-per-hour: the stack costs $0.4293 per hour, more than its budget (got 0.4). "
        "The most expensive line is GPU nodes 1 × g4dn.xlarge, $0.216. Write `budget.max-usd-per-hour: 0.86`."
    ]


def test_a_budget_may_be_used_to_the_last_cent() -> None:
    whole = setup()
    exact = cost(whole).replacing_usd_per_hour
    assert assess(replace(whole, max_usd_per_hour=exact)).problems == ()
    assert len(assess(replace(whole, max_usd_per_hour=exact - 1e-6)).problems) == 1


def test_a_budget_counts_the_nodes_that_run_beside_the_others_while_these_are_replaced() -> None:
    assert told(assess(setup(max_usd_per_hour=0.7))) == [
        "budget.max-usd-per-hour: the stack costs up to $0.8563 per hour while its nodes are replaced (got 0.7). "
        "Write `budget.max-usd-per-hour: 0.86`; or `gpu-nodes.replacement: delete-first`."
    ]
    # The surge of the system nodes alone is too much here, so that the other way of replacement would not help.
    assert told(assess(setup(max_usd_per_hour=0.6)))[0].endswith("Write `budget.max-usd-per-hour: 0.86`.")
    assert assess(setup(max_usd_per_hour=0.7, pools=(pool(replacement="delete-first"),))).problems == ()
    # Spot capacity helps as well, and costs $0.526 - $0.2158 less per hour (AWS price list).
    [problem] = assess(setup(max_usd_per_hour=0.9, pools=(pool(capacity="on-demand"),))).problems
    assert "; or `gpu-nodes.capacity: spot` ($0.429 per hour)" in problem.fix


def test_rules_and_fits_and_budget_are_told_at_once() -> None:
    whole = replace(crowded(), kubernetes="1.2", max_usd_per_hour=0.01)
    assert [problem.path for problem in assess(whole).problems] == [
        "cluster.kubernetes",
        "models[0]",
        "models[1]",
        "budget.max-usd-per-hour",
    ]
