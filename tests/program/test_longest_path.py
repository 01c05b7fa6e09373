"""On the way to the first token nothing is waited for without need: every edge of the longest path has a reason."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from sandbox.graph import Graph
from sharing import tables
from stacks.stack_file.judge import Plan
from tandem.planned import first_token
from tandem.planned.first_token import NODE_CLAIM

NEEDS: dict[str, str] = yaml.safe_load((Path(__file__).parent / "needs.yaml").read_text(encoding="utf-8"))


def edges(graph: Graph, plan: Plan) -> set[str]:
    path = first_token.first_token(graph, plan.setup).path
    kinds = [graph[step.urn].type.partition(":")[2] for step in path]
    assert all(step.waits_for == before.urn for before, step in pairwise(path))
    return {f"{before} → {after}" for before, after in pairwise(kinds)}


@pytest.mark.slow
def test_every_edge_of_the_longest_path_is_a_real_need(
    graphs: Callable[[str], Graph], plans: Callable[[str], Plan], any_stack: str
) -> None:
    assert edges(graphs(any_stack), plans(any_stack)) <= set(NEEDS)


def test_every_need_of_the_table_is_met_on_some_stack(
    graphs: Callable[[str], Graph], plans: Callable[[str], Plan]
) -> None:
    stacks = ("timeslice", "volumes", "karpenter", "karpenter-volumes")
    assert set().union(*(edges(graphs(stack), plans(stack)) for stack in stacks)) == set(NEEDS)


def test_a_node_that_comes_when_a_model_waits_is_part_of_the_models_time(
    graphs: Callable[[str], Graph], plans: Callable[[str], Plan]
) -> None:
    def last(stack: str) -> float:
        found = first_token.first_token(graphs(stack), plans(stack).setup)
        assert found.plus_minus > 2
        return found.path[-1].minutes

    claims = [row for row in tables.read("durations").rows if row["type"] == NODE_CLAIM]
    assert last("karpenter") - last("timeslice") == pytest.approx(float(claims[0]["minutes"]))


def test_doubt_about_the_node_adds_to_the_doubt_about_its_model(
    graphs: Callable[[str], Graph], plans: Callable[[str], Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are about one step, whose doubts add up: (a + b)² is more than a² + b²."""

    def doubt(about_the_node: float) -> float:
        times = {**first_token.known_times(), NODE_CLAIM: (1.0, about_the_node)}
        monkeypatch.setattr(first_token, "known_times", lambda: times)
        return first_token.first_token(graphs("karpenter"), plans("karpenter").setup).plus_minus

    assert doubt(4.0) ** 2 > doubt(0.0) ** 2 + 4.0**2 + 1
