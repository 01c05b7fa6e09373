"""Models that may run on other pools count there, too: on the node's disk and RAM, beside its GPU, and in the bill."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharing.cost.bill import cost
from sharing.fit import host
from sharing.fit.shares import place_models
from sharing.models.served import ServedModel
from sharing.modes.modes import TimeSlicing
from sharing.sections.pools import NODE_IMAGES_GIB
from sharing.verdict.rules import spill as spill_rules
from sharing.verdict.rules import table
from tests.sharing.builders import HERE, THERE, keeping, listed, pool, replace, two_pools, weighing


def placed(index: int, served: ServedModel, pool: str, *spill: str) -> ServedModel:
    return replace(served, index=index, pool=pool, spill=spill)


def test_a_pool_has_disk_for_the_files_of_its_guests() -> None:
    guest, own = weighing(5000), weighing(3000)
    spilling = two_pools(placed(0, guest, "here", "there"), placed(1, own, "there"))
    both = guest.model.file_bytes + own.model.file_bytes
    assert spilling.disk_gib(THERE) == NODE_IMAGES_GIB + -(-both // 2**30)
    assert spilling.disk_gib(HERE) == NODE_IMAGES_GIB + -(-guest.model.file_bytes // 2**30)


def test_a_pools_ram_holds_its_guests_or_the_stack_is_refused() -> None:
    # A g4dn.xlarge has 16 GiB: not enough for 7,000 and 8,500 MiB with the stack's own pods.
    alone = two_pools(placed(0, keeping(8500), "here"), placed(1, keeping(7000), "there"))
    assert not list(table.refusals(alone))
    spilling = two_pools(placed(0, keeping(8500), "here", "there"), placed(1, keeping(7000), "there"))
    [problem] = table.problems(spilling)
    assert problem.path == "gpu-nodes[1].instance-types[0]"
    assert "that 2 models on one g4dn.xlarge need" in problem.rule


def test_the_page_cache_of_a_model_is_what_every_one_of_its_pools_can_give() -> None:
    large = listed(0, "here", pool("g4dn.2xlarge"))
    spilling = two_pools(placed(0, keeping(2000), "here", "there"), placed(1, keeping(3000), "there"), here=large)
    there = host.page_cache_mib(spilling, THERE)
    assert there < host.page_cache_mib(spilling, large)
    assert host.page_cache_mib(spilling, large, THERE) == there


def test_the_verdict_of_a_model_counts_the_guests_that_it_may_meet() -> None:
    spilling = two_pools(placed(0, weighing(6000), "here", "there"), placed(1, weighing(5000), "there"))
    [own] = place_models(spilling, THERE)
    assert own.crowd_mib == pytest.approx(11_000, abs=1)
    [alone] = place_models(spilling, HERE)
    assert alone.crowd_mib == pytest.approx(6000, abs=1)


@pytest.mark.slow
@given(
    replicas=st.integers(2, 5),
    own=st.lists(st.integers(500, 8000), max_size=4),
    guests=st.lists(st.integers(500, 8000), min_size=1, max_size=4),
    nodes=st.integers(1, 2),
)
def test_a_spill_is_refused_exactly_if_models_that_could_share_a_gpu_do_not_fit_it(
    replicas: int, own: list[int], guests: list[int], nodes: int
) -> None:
    """A GPU gives out as many shares as it has replicas, and CUDA can use 14,912 MiB of a T4 (rules.yaml)."""
    homes = [*["there"] * len(own), *["here"] * len(guests)]
    found = [
        placed(index, weighing(mib), home, *(["there"] if home == "here" else []))
        for index, (mib, home) in enumerate(zip([*own, *guests], homes, strict=True))
    ]
    there = replace(THERE, sharing=TimeSlicing(replicas=replicas), desired=nodes, max=nodes)
    refused = {problem.path for problem in spill_rules.find_misfits(two_pools(*found, there=there))}
    sizes = [*enumerate([*own, *guests])]
    groups = [group for count in range(1, replicas + 1) for group in combinations(sizes, count)]
    too_large = [{index for index, _ in group} for group in groups if sum(mib for _, mib in group) > 14_912]
    own_alone = set(range(len(own)))
    if any(group <= own_alone for group in too_large):
        assert refused == set(), "another rule refuses the pool's own models"
    else:
        guilty = set().union(*too_large) - own_alone
        assert refused == {f"models[{index}].spill[0]" for index in guilty}


@pytest.mark.parametrize("provisioner", ["node-group", "karpenter"])
@pytest.mark.parametrize("unknown", [["here"], ["there"], ["here", "there"]])
def test_an_unknown_type_in_a_pool_of_spill_is_the_only_error(unknown: list[str], provisioner: str) -> None:
    pools = [
        replace(each, provisioner=provisioner, instance_types=["g6.xlagre"] if each.name in unknown else ["g6.xlarge"])
        for each in (HERE, THERE)
    ]
    spilling = two_pools(placed(0, weighing(900), "here", "there"), placed(1, weighing(901), "there"))
    found = [problem.path for problem in table.problems(replace(spilling, pools=pools))]
    assert found == [f"{each.path}.instance-types[0]" for each in pools if each.name in unknown]


def test_karpenter_may_launch_a_node_for_guests_and_the_budget_counts_it() -> None:
    there = replace(THERE, provisioner="karpenter", max=3)
    tenants = (
        placed(0, weighing(900), "here", "there"),
        placed(1, weighing(901), "there"),
        placed(2, weighing(902), "there"),
    )
    spilling = two_pools(*tenants, there=there)
    # Two shares a node: one node for its own two models, another one for the guest.
    assert (spilling.nodes_of(there), spilling.spilled_nodes(there)) == (1, 1)
    assert spilling.spilled_nodes(replace(there, max=1)) == 0
    assert spilling.spilled_nodes(replace(there, desired=0)) == 0
    assert spilling.spilled_nodes(HERE) == 0
    staying = replace(spilling, models=(replace(tenants[0], spill=()), *tenants[1:]))
    assert cost(spilling).usd_per_hour == cost(staying).usd_per_hour
    more = cost(spilling).replacing_usd_per_hour - cost(staying).replacing_usd_per_hour
    node = cost(two_pools(*tenants, there=replace(there, max=1))).usd_per_hour
    assert 0 < more < node
