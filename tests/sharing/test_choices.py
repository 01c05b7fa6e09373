"""The cheapest setups: ranked by price, nothing that fits is left out, and the nearest miss where nothing does."""

from dataclasses import replace
from itertools import islice, pairwise

import pytest

from sharing.choices import Choice, choose
from sharing.gpus import instance_types
from sharing.judgement import judge
from sharing.matrix import one_pool, trials
from sharing.modes import Exclusive, TimeSlicing
from sharing.setup import Capacity, Setup
from tests.sharing.builders import instance, listed, pool, setup, tenants, weighing

ANY: tuple[Capacity, ...] = ("spot", "on-demand")
TWO = setup(tenants=tenants(weighing(6_000), weighing(5_000)))


def row(choice: Choice) -> tuple[int, str, str, str]:
    cell = choice.cell
    return cell.nodes, cell.instance.name, cell.way, cell.pool.capacity


def test_the_cheapest_comes_first_and_what_is_doubtful_later() -> None:
    found = choose(TWO, ANY).fitting
    assert [choice.rank for choice in found] == sorted(choice.rank for choice in found)
    # At one price, fewer doubts come first.
    alike = [(choice.bill.unpriced, round(choice.bill.usd_per_hour, 6), len(choice.cell.warnings)) for choice in found]
    priced = [(usd, doubts) for unpriced, usd, doubts in alike if not unpriced]
    assert priced == sorted(priced)
    assert any(usd == later and doubts < more for (usd, doubts), (later, more) in pairwise(priced))
    assert row(found[0]) == (1, "g4dn.xlarge", "timeslice", "spot")
    assert row(found[1]) == (1, "g4dn.xlarge", "mps", "spot")
    assert found[0].cell.warnings == ()


def test_every_row_is_accepted_and_its_price_is_that_of_the_whole_stack() -> None:
    """The cluster of TWO without its GPU nodes: see `test_cost`; here only what must be equal."""
    for choice in choose(TWO, ANY).fitting:
        found = judge(choice.setup)
        assert found.accepted
        assert found.cost == choice.bill


def test_no_type_that_holds_both_models_is_missing() -> None:
    """By hand: time slicing needs both on one GPU; `exclusive` needs the larger one alone on a GPU."""
    found = {row(choice)[1:3] for choice in choose(TWO, ["on-demand"]).fitting}
    for known in instance_types().values():
        usable = known.gpu.vendor == "nvidia" and not known.gpu.min_driver
        if usable and known.name in {"g4dn.xlarge", "g5.xlarge", "g6.xlarge", "g6e.xlarge", "p4d.24xlarge"}:
            assert ((known.name, "timeslice") in found) == (known.gpu.cuda_mib >= 11_000)
            assert ((known.name, "exclusive") in found) == (known.gpu.cuda_mib >= 6_000)


@pytest.mark.parametrize("capacity", ANY)
def test_a_capacity_leaves_the_other_out(capacity: Capacity) -> None:
    assert {choice.cell.pool.capacity for choice in choose(TWO, [capacity]).fitting} == {capacity}


@pytest.mark.slow
def test_a_type_without_a_spot_price_is_there_once_where_any_capacity_will_do() -> None:
    rows = [row(choice) for choice in choose(TWO, ANY).fitting]
    assert len(rows) == len(set(rows))
    for choice in choose(TWO, ANY).fitting:
        assert choice.cell.is_spot or choice.cell.pool.capacity == "on-demand"


def test_models_are_tried_on_several_nodes_with_fewer_shares_each() -> None:
    """Four models of 7,000 MiB: four on an L40S (45,460), two on a T4 (15,110)."""
    four = setup(tenants=tenants(*[weighing(7_000)] * 4))
    rows = {row(choice)[:3] for choice in choose(four, ["on-demand"]).fitting}
    assert {(1, "g6e.xlarge", "timeslice"), (2, "g4dn.xlarge", "timeslice"), (4, "g4dn.xlarge", "exclusive")} <= rows
    assert not {(1, "g4dn.xlarge", "timeslice"), (3, "g4dn.xlarge", "timeslice")} & rows
    [one] = [tried.pools[0] for tried in islice(trials(four, instance("g6e.xlarge"), "timeslice", "node-group"), 1)]
    assert one.sharing == TimeSlicing(replicas=4)


def test_many_models_get_no_more_shares_than_mps_has() -> None:
    """48 clients of one GPU (k8s-device-plugin, mps/device.go)."""
    many = setup(tenants=tenants(*[weighing(500)] * 60))
    for tried in trials(many, instance("g6e.xlarge"), "mps", "node-group"):
        [here] = tried.pools
        assert (here.sharing.replicas or 0) <= 48
        assert here.total_shares >= 60


def test_isolation_is_named_by_what_the_mode_enforces() -> None:
    named = {choice.cell.way: choice.isolation for choice in choose(TWO, ["on-demand"]).fitting}
    assert named == {
        "exclusive": "own GPU",
        "timeslice": "none",
        "mps": "memory",
        "mig-single": "hardware",
        "mig-mixed": "hardware",
    }


def test_the_margin_is_what_the_tightest_model_has_left() -> None:
    found = {row(choice): choice for choice in choose(TWO, ["spot"]).fitting}
    # T4: 15,110 MiB for CUDA, 15,360 by NVML.
    assert found[1, "g4dn.xlarge", "timeslice", "spot"].tightest.room == pytest.approx(
        instance().gpu.cuda_mib - 11_000, abs=0.01
    )
    assert found[1, "g4dn.xlarge", "mps", "spot"].tightest.room == pytest.approx(15_360 // 2 - 6_000, abs=0.01)
    assert found[2, "g4dn.xlarge", "exclusive", "spot"].tightest.room == pytest.approx(
        instance().gpu.cuda_mib - 6_000, abs=0.01
    )


@pytest.mark.slow
def test_a_budget_keeps_what_costs_more_apart() -> None:
    every = choose(TWO, ANY).fitting
    limit = every[5].bill.replacing_usd_per_hour
    found = choose(replace(TWO, max_usd_per_hour=limit), ANY)
    assert {row(choice) for choice in (*found.fitting, *found.over_budget)} == {row(choice) for choice in every}
    assert all(choice.bill.replacing_usd_per_hour <= limit for choice in found.fitting)
    assert all(choice.bill.replacing_usd_per_hour > limit for choice in found.over_budget)
    assert found.over_budget[0].bill.usd_per_hour <= found.over_budget[-1].bill.usd_per_hour


def priced(choice: Choice) -> bool:
    """Whether Paris has a price for it: its G5 has none in the catalogue that the tables come from."""
    return choice.cell.instance.name.partition(".")[0] in ("g4dn", "g6", "gr6")


PARIS = replace(TWO, region="eu-west-3")


@pytest.mark.slow
def test_under_a_budget_only_setups_of_known_prices_fit() -> None:
    found = choose(replace(PARIS, max_usd_per_hour=2.0), ANY)
    assert found.fitting
    assert all(map(priced, (*found.fitting, *found.over_budget)))
    assert {choice.cell.instance.name for choice in found.not_judged} >= {"g5.xlarge", "g5.2xlarge"}
    assert not any(map(priced, found.not_judged))
    none = choose(replace(PARIS, max_usd_per_hour=0.41), ANY)
    assert none.fitting == ()
    assert none.over_budget[0].cell.instance.name == "g4dn.xlarge"


def test_without_a_budget_known_prices_come_first_and_the_others_are_marked() -> None:
    found = choose(PARIS, ANY)
    known = [priced(choice) for choice in found.fitting]
    assert known == sorted(known, reverse=True)
    assert {True, False} <= set(known)
    assert found.not_judged == ()
    for choice in found.fitting:
        marked = any("price in eu-west-3 is unknown" in doubt for doubt in choice.doubts)
        assert marked is not priced(choice)


@pytest.mark.slow
def test_spot_at_an_on_demand_price_is_doubtful() -> None:
    """The tables have no spot price of Paris, and one of g4dn.xlarge in us-east-1."""
    for choice in choose(PARIS, ["spot"]).fitting:
        assert "No spot price is known: the price is on-demand" in choice.doubts
    assert choose(TWO, ["spot"]).fitting[0].doubts == ()


@pytest.mark.slow
def test_what_refuses_every_setup_is_no_nearest_setup() -> None:
    """Ollama 0.32.15 does not load `mllama` (`integration/reg_release_test.go`)."""
    found = choose(setup(tenants=tenants("llama3.2:1b", "llama3.2-vision:11b")), ANY)
    assert found.refusal is not None
    assert found.refusal.path == "models[1].name"
    assert choose(setup(tenants=tenants(weighing(400_000))), ANY).refusal is None


def test_where_nothing_fits_the_nearest_miss_names_the_largest_gpu() -> None:
    """B300: the largest of the catalogue."""
    found = choose(setup(tenants=tenants(weighing(400_000), weighing(1_000))), ANY)
    assert found.fitting == ()
    miss = found.nearest_miss
    assert miss is not None
    assert "on p6-b300.48xlarge, B300" in miss.rule
    # `weighing` is exact on a T4; a process takes a little more on a B300.
    assert miss.found.startswith("own needs 400,")
    assert miss.fix == "Use a smaller model, a shorter context or fewer slots."


def test_where_a_rule_refuses_everything_it_is_the_nearest_miss() -> None:
    found = choose(replace(TWO, kubernetes="1.2"), ANY)
    assert found.fitting == ()
    assert found.nearest_miss is not None
    assert found.nearest_miss.path == "cluster.kubernetes"


def test_a_type_that_the_region_is_known_not_to_offer_is_left_out() -> None:
    """P6 is in a few regions only (AWS, instance types by region): Zurich has none."""
    zurich = choose(replace(TWO, region="eu-central-2"), ["on-demand"])
    refused = {cell.instance.name for cell in zurich.refused}
    for choice in zurich.fitting:
        assert judge(choice.setup).broken == ()
    assert "p6-b300.48xlarge" in refused


@pytest.mark.slow
def test_a_stack_of_several_pools_is_tried_with_one() -> None:
    pools = (listed(0, "one", pool(sharing=Exclusive())), listed(1, "two", pool("g6.xlarge")))
    them = tenants(weighing(6_000), weighing(5_000))
    whole: Setup = setup(pools=pools, tenants=(replace(them[0], pool="one"), replace(them[1], pool="two")))
    assert [row(choice) for choice in choose(one_pool(whole), ANY).fitting] == [
        row(choice) for choice in choose(TWO, ANY).fitting
    ]
