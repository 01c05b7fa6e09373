"""No resource waits without need before the first token: every edge of the longest path has a reason."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from sandbox.graph import Graph
from sharing import tables
from sharing.sections.startup import DISK_MIB_PER_SECOND, DOWNLOAD_MIB_PER_SECOND, NODE_CLAIM
from stacks.stack_file.judge import Plan
from tandem.dry_run import startup
from tests.sharing.builders import replace

Graphs = Callable[[str], Graph]
Plans = Callable[[str], Plan]
NEEDS: dict[str, str] = yaml.safe_load((Path(__file__).parent / "needs.yaml").read_text(encoding="utf-8"))


def edges(graph: Graph, plan: Plan) -> set[str]:
    path = startup.estimate_startup(graph, plan.config).path
    kinds = [graph[step.urn].type.partition(":")[2] for step in path]
    assert all(step.waits_for == before.urn for before, step in pairwise(path))
    return {f"{before} → {after}" for before, after in pairwise(kinds)}


@pytest.mark.slow
def test_every_edge_of_the_longest_path_is_a_real_need(graphs: Graphs, plans: Plans, any_stack: str) -> None:
    assert edges(graphs(any_stack), plans(any_stack)) <= set(NEEDS)


def test_every_need_of_the_table_is_met_on_some_stack(graphs: Graphs, plans: Plans) -> None:
    stacks = ("timeslice", "volumes", "karpenter", "karpenter-volumes", "vpc")
    assert set().union(*(edges(graphs(stack), plans(stack)) for stack in stacks)) == set(NEEDS)


def test_a_node_that_comes_when_a_model_waits_is_part_of_the_models_time(graphs: Graphs, plans: Plans) -> None:
    def last(stack: str) -> float:
        found = startup.estimate_startup(graphs(stack), plans(stack).config)
        assert found.plus_minus > 2
        return found.path[-1].minutes

    claims = [row for row in tables.read("durations").rows if row["type"] == NODE_CLAIM]
    assert last("karpenter") - last("timeslice") == pytest.approx(float(claims[0]["minutes"]))


def test_a_model_shares_the_line_with_the_models_of_its_own_pool_alone(graphs: Graphs, plans: Plans) -> None:
    graph, setup = graphs("pools"), plans("pools").config
    mib = {served.id: served.model.weights_bytes / 2**20 for served in setup.models}
    crowd = replace(setup, models=tuple(replace(served, pool="rest") for served in setup.models))
    apart, together = startup.estimate_startup(graph, setup), startup.estimate_startup(graph, crowd)
    last = [found.path[-1].urn.rpartition("tandem-ollama-")[2] for found in (apart, together)]
    assert last == ["mistral-7b", "llama3-1-8b"], "the largest of the models that start last"
    download = mib["llama3-1-8b"] / DOWNLOAD_MIB_PER_SECOND
    load = (mib["llama3-1-8b"] - mib["mistral-7b"]) / DISK_MIB_PER_SECOND
    assert together.minutes - apart.minutes == pytest.approx((download + load) / 60)


def test_a_new_stack_compiles_its_kernels_once_and_all_models_at_the_same_time(
    graphs: Graphs, plans: Plans, monkeypatch: pytest.MonkeyPatch
) -> None:
    def minutes(each: float) -> float:
        monkeypatch.setattr(startup, "COMPILE_MINUTES", each)
        return startup.estimate_startup(graphs("timeslice"), plans("timeslice").config).minutes

    assert minutes(3.0) - minutes(1.0) == pytest.approx(2.0)


def test_the_estimate_waits_for_no_model_of_a_parked_pool(graphs: Graphs, plans: Plans) -> None:
    graph, setup = graphs("pools"), plans("pools").config
    assert startup.estimate_startup(graph, setup).path[-1].urn.endswith("tandem-ollama-mistral-7b")
    steady, rest = setup.pools
    parked = replace(setup, pools=(steady, replace(rest, desired=0)))
    assert startup.estimate_startup(graph, parked).path[-1].urn.endswith("tandem-ollama-llama3-1-8b")
    none = replace(setup, pools=(replace(steady, desired=0), replace(rest, desired=0)))
    assert startup.estimate_startup(graph, none).minutes < startup.estimate_startup(graph, parked).minutes - 3, (
        "nothing is downloaded"
    )
