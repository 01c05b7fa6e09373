"""Whole stacks, run in this process: the stack files of the repository, and variants of them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox.cloud.answers import Cloud
from sandbox.cloud.protocol import Question, Values
from sandbox.graph import Graph
from sharing.sections.config import SECTIONS
from stacks.stack_file.judge import Judged, Plan, judge
from stacks.stack_file.yaml import Source, read
from tandem.dry_run.program import program_graph
from tests import several_pools
from tests.sharing.builders import TODAY
from tests.shipped import STACKS

ROOT = Path(__file__).resolve().parent.parent.parent
TABLE: dict[str, dict[str, dict[str, Any]]] = yaml.safe_load(
    (Path(__file__).parent / "variants.yaml").read_text(encoding="utf-8")
)
Variants = dict[str, tuple[str, dict[str, Any]]]


def read_variants(part: str) -> Variants:
    """A part of `variants.yaml`."""
    return {name: (row["stack"], {key: row[key] for key in row if key != "stack"}) for name, row in TABLE[part].items()}


VARIANTS: Variants = {**read_variants("stacks"), "pools": ("timeslice", {"budget": {}, **several_pools.sections()})}
"""Stack file, and the sections that differ."""


class StrictCloud(Cloud):
    """The emulated cloud, which answers only what AWS would answer for the stack's own account, region and cluster."""

    def answer(self, question: Question) -> Values:
        if question.token.startswith("aws:"):
            assert question.provider.get("region"), f"{question.token} has not the stack's provider"
        if question.token.startswith("aws:eks/get") and not question.token.endswith(":getClusters"):
            assert question.args.keys() & {"clusterName", "name"}, f"{question.token} names no cluster"
        return super().answer(question)


def source_of(name: str) -> Source:
    """A stack file of the repository, or a variant of one."""
    stack, sections = VARIANTS.get(name, (name, {}))
    source = read(ROOT / f"Pulumi.{stack}.yaml", SECTIONS)
    return replace(source, sections=source.sections | sections)


def judge_with(name: str, sections: Mapping[str, Any]) -> Judged:
    """The stack file with other values of some sections."""
    source = source_of(name)
    stack = VARIANTS.get(name, (name,))[0]
    return judge(replace(source, sections={**source.sections, **sections}), f"Pulumi.{stack}.yaml", today=TODAY)


def graph_with(name: str, sections: Mapping[str, Any]) -> Graph:
    return strict_graph(judge_with(name, sections).plan())


def strict_graph(plan: Plan) -> Graph:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sandbox.cloud.answers.Cloud", StrictCloud)
        return program_graph(plan)


@cache
def plan_of(name: str) -> Plan:
    return judge_with(name, {}).plan()


@cache
def graph_of(name: str) -> Graph:
    return strict_graph(plan_of(name))


# Of the session, so that pytest puts all tests of one stack together, and few workers make its graph.
@pytest.fixture(scope="session", params=[*STACKS, *VARIANTS])
def any_stack(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session", params=STACKS)
def stack(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def plans() -> Callable[[str], Plan]:
    return plan_of


@pytest.fixture(scope="session")
def graphs() -> Callable[[str], Graph]:
    return graph_of
