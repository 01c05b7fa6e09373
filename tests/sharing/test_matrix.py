"""The matrix of types, sharing modes and provisioners: no cell raises, planned models fit, refusals have a reason."""

import re
from functools import cache

import pytest

from sharing.fit.memory import need
from sharing.fit.slices import slices_for
from sharing.hardware.gpus import instance_types
from sharing.models.served import ServedModel
from sharing.modes.layouts import Strategy
from sharing.modes.modes import MPS_PER_MODEL
from sharing.sections.provisioners import PROVISIONERS, Provisioner
from sharing.verdict.matrix import MODELS_FIT, WAYS, Cell, cells, cheapest
from tests.sharing.builders import instance, pair, pool, replace, setup, tenants, weighing

PAIR = setup(models=tenants(*pair()))
TYPE = re.compile(r"\b(?:[gp]\d\w*(?:-\w+)?)\.(?:\d*x?large|metal)\b")


@cache
def matrix() -> dict[tuple[str, str, str], Cell]:
    return {(cell.instance.name, cell.way, cell.pool.provisioner): cell for cell in cells(PAIR)}


def one(type: str, way: str, provisioner: Provisioner = "node-group") -> Cell:
    [found] = cells(PAIR, types=[type], ways=[way], provisioners=[provisioner])
    return found


@pytest.mark.slow
def test_every_type_has_a_cell_for_every_way_and_provisioner() -> None:
    assert set(matrix()) == {(name, way, by) for name in instance_types() for way in WAYS for by in PROVISIONERS}
    assert len({cell.instance for cell in matrix().values() if cell.instance.gpu.vendor == "nvidia"}) == 68


@pytest.mark.slow
def test_every_cell_that_plans_holds_the_models_by_their_sizes_alone() -> None:
    for place, cell in matrix().items():
        _, way, _ = place
        if not cell.plans:
            continue
        wanted = sorted(need(served, cell.instance.gpu).bound for served in pair())
        count = cell.nodes * cell.instance.gpus
        offers = cell.pool.offers
        assert count * sum(shares.per_gpu for shares in offers) >= len(wanted), place
        largest = max(offers, key=lambda shares: shares.unit_mib)
        together = sum(wanted) if largest.sharers > 1 else wanted[-1]
        assert together <= largest.unit_mib <= cell.instance.gpu.cuda_mib, place
        if largest.memory_mib is not None:
            assert wanted[-1] <= largest.memory_mib, place
        if way == MPS_PER_MODEL:
            assert cell.instance.gpus == 1, place


def test_the_types_that_a_fix_names_hold_the_models_the_same_way() -> None:
    named = 0
    for (_, way, _), cell in matrix().items():
        # A type that the region lacks is replaced by one with as many GPUs, which another rule refuses here.
        if way == MPS_PER_MODEL and cell.instance.gpus > 1 and cell.problem and "instance-types" in cell.problem.path:
            continue
        if cell.problem and cell.broken != MODELS_FIT:
            for name in TYPE.findall(cell.problem.fix):
                assert matrix()[name, way, "node-group"].plans, f"{cell.instance.name}, {way}: {cell.problem}"
                named += 1
    assert named > 200


def test_karpenter_is_named_as_the_reason_if_nothing_else_refuses() -> None:
    cell = one("g7e.2xlarge", "mig-single", "karpenter")
    assert cell.broken == "the provisioner partitions the GPU"
    assert cell.problem is not None
    assert cell.problem.fix == "Write `gpu-nodes.provisioner: node-group`."
    without_mig = one("g4dn.xlarge", "mig-single", "karpenter")
    assert (without_mig.broken, without_mig.nodes) == ("the GPU supports the mode", 1)


def test_both_provisioners_pay_for_the_same_nodes() -> None:
    for name, way, _ in matrix():
        group, coming = (matrix()[name, way, by] for by in PROVISIONERS)
        assert (group.nodes, group.usd_per_hour) == (coming.nodes, coming.usd_per_hour)


@pytest.mark.parametrize(
    ("type", "way", "nodes"),
    [("g4dn.xlarge", "exclusive", 2), ("g4dn.12xlarge", "exclusive", 1), ("g4dn.xlarge", "timeslice", 1)],
)
def test_there_are_as_many_nodes_as_the_models_need(type: str, way: str, nodes: int) -> None:
    cell = one(type, way)
    assert (cell.nodes, cell.pool.desired, cell.pool.max) == (nodes, nodes, nodes)


def test_the_price_is_that_of_all_gpu_nodes_only() -> None:
    cell = one("g4dn.xlarge", "exclusive")
    assert (cell.usd_per_hour, cell.on_demand_usd_per_hour, cell.is_spot) == (2 * 0.2158, 2 * 0.526, True)
    expensive = one("g4dn.4xlarge", "timeslice")
    assert (expensive.usd_per_hour, expensive.is_spot) == (expensive.on_demand_usd_per_hour, False)


def test_the_cheapest_is_a_planned_cell_with_a_price_for_that_capacity() -> None:
    found = [one(name, "timeslice") for name in ("g4dn.xlarge", "g6f.large", "g5g.xlarge", "g4ad.xlarge")]
    assert [cheapest(found, capacity) for capacity in ("spot", "on-demand")] == [found[0], found[2]]
    nothing = [found[1], found[3]]
    assert [cheapest(nothing, capacity) for capacity in ("spot", "on-demand")] == [None, None]
    assert cheapest([found[2]], "spot") is None


def test_the_stacks_budget_and_pool_are_ignored() -> None:
    [old] = PAIR.pools
    pools = (replace(old, instance_types=("g4ad.xlarge",), min=1, desired=0, max=7),)
    poor = replace(PAIR, max_usd_per_hour=0.01, max_usd_per_month=5, pools=pools)
    for cell in cells(poor, types=["p4d.24xlarge"], ways=["timeslice"]):
        assert cell.plans
        assert (cell.pool.min, cell.pool.desired, cell.pool.max, cell.nodes) == (0, 1, 1, 1)


def test_only_warnings_about_the_way_itself_are_reported() -> None:
    open_to_all = replace(PAIR, public_access_cidrs=("0.0.0.0/0",), nat="single", system_nodes=1)
    [cell] = cells(open_to_all, types=["g4dn.xlarge"], ways=["mps"], provisioners=["karpenter"])
    assert [warning.path for warning in cell.warnings] == ["sharing.mode"]


def test_more_models_get_more_shares_of_one_gpu() -> None:
    assert one("g4dn.xlarge", "mps").pool.sharing.replicas == 2
    three = setup(models=tenants(weighing(1_000), weighing(1_000), weighing(1_000)))
    [cell] = cells(three, types=["g4dn.xlarge"], ways=["mps"], provisioners=["node-group"])
    assert (cell.plans, cell.nodes, cell.pool.sharing.replicas) == (True, 1, 3)


@pytest.mark.parametrize(
    ("way", "type", "models", "replicas"),
    [
        # On one GPU: 7 shares on one node, 4 on two, 3 on three, 2 on four. 6 and 5 need two nodes, too.
        ("timeslice", "g4dn.xlarge", 7, [7, 4, 3, 2]),
        # On four GPUs: 20 shares on one node, 12 per node on two, 8 on three. 4 per GPU need two nodes, too.
        ("timeslice", "g4dn.12xlarge", 18, [5, 3, 2]),
        # MPS has 48 shares at most, and 100 models need three nodes with 34 as well.
        ("mps", "g4dn.xlarge", 100, [34, 25]),
        ("mps-per-model", "g4dn.xlarge", 1, [2]),
    ],
)
def test_each_number_of_nodes_is_tried_once_with_the_fewest_shares(
    way: str, type: str, models: int, replicas: list[int]
) -> None:
    tried = WAYS[way](pair()[:1] * models, instance(type))
    assert [sharing.replicas for sharing in tried][: len(replicas)] == replicas


def test_slices_are_those_of_the_fewest_nodes() -> None:
    """One slice of 96 GB on each of two nodes holds two models of 60,000 MiB; both smaller ones fit one node."""
    large, small = ((weighing(mib, on="g7e.2xlarge"),) * 2 for mib in (60_000, 30_000))
    found = [WAYS["mig-single"](models, instance("g7e.2xlarge"))[0] for models in (large, small)]
    assert [sharing.cut(instance("g7e.2xlarge").gpu) for sharing in found] == ["1x4g.96gb", "2x2g.48gb"]


@pytest.mark.parametrize(
    ("type", "models", "strategy", "layout"),
    [
        ("g7e.2xlarge", (weighing(40_000), weighing(10_000)), "mixed", "2x1g.24gb_1x2g.48gb"),
        ("g7e.2xlarge", (weighing(40_000), weighing(10_000)), "single", "2x2g.48gb"),
        # Seven slices 1g.5gb hold neither model.
        ("p4d.24xlarge", pair(), "single", "4x1g.10gb"),
        ("g7e.2xlarge", (weighing(200_000),), "single", None),
        # A node has two slices of 48 GB.
        ("g7e.2xlarge", (weighing(40_000),) * 3, "mixed", None),
    ],
)
def test_gpus_are_cut_into_the_most_slices_that_hold_the_models(
    type: str, models: tuple[ServedModel, ...], strategy: Strategy, layout: str | None
) -> None:
    found = slices_for(models, instance(type), strategy)
    assert (found and found.cut(instance(type).gpu)) == layout


def test_no_planned_cell_has_an_idle_kind_of_slice() -> None:
    for (_, way, _), cell in matrix().items():
        if way.startswith("mig") and cell.plans:
            assert cell.pool.sharing.strategy == way.removeprefix("mig-")
            assert not any(warning.path == "sharing.layout" for warning in cell.warnings)


def test_models_that_no_slice_holds_are_the_reason() -> None:
    too_large = setup(models=tenants(weighing(200_000)), pools=(pool(volume_gib=400),))
    [cell] = cells(too_large, types=["g7e.2xlarge"], ways=["mig-single"], provisioners=["node-group"])
    assert cell.broken == MODELS_FIT
    assert cell.problem
    assert cell.problem.path == "models[0]"
