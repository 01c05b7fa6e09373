"""Whole stacks, run in this process: the stack files of the repository, and variants of them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sandbox.graph import Graph
from stacks.stack_file.judge import Judged, Plan, judge
from stacks.stack_file.shape import SECTIONS
from stacks.stack_file.yaml import Source, read
from tandem.planned.plan import program_graph
from tests import readme

ROOT = Path(__file__).resolve().parent.parent.parent
STACKS = ("dev", "exclusive", "karpenter", "mig", "mig-mixed", "mps", "timeslice")
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "volumes": ("timeslice", {"models": [{"name": "llama2:7b", "cache": "volume"}, {"name": "mistral:7b"}]}),
    "logs": (
        "dev",
        {
            "budget": {},
            "cluster": {"logs": True, "nat": "per-zone", "zones": 3, "public-access-cidrs": ["192.0.2.7/32"]},
            "models-clients": {"namespaces": ["chat", "batch"], "labels": {"llm-client": "yes"}},
        },
    ),
    "private": ("dev", {"cluster": {"public-access-cidrs": []}}),
    "arm64": ("timeslice", {"gpu-nodes": {"instance-types": ["g5g.xlarge"]}}),
    "parked": ("timeslice", {"gpu-nodes": {"desired": 0}}),
    "twins": (
        "timeslice",
        {"models": [{"name": "llama3.2:1b", "slots": 2}, {"name": "llama3.2:1b", "kv-type": "q8_0"}]},
    ),
    "tagged": ("dev", {"tags": {"team": "ml"}}),
    "pools": ("timeslice", {"budget": {}, **readme.sections()}),
    "cards": (
        "timeslice",
        {
            "budget": {},
            "gpu-nodes": [
                {"name": "gpu", "instance-types": ["g4dn.xlarge"], "desired": 0},
                {"name": "big", "instance-types": ["g6.xlarge"], "sharing": {"mode": "mps", "replicas": 3}},
            ],
            "models": [
                {"name": "mistral:7b", "context": 2048, "pool": "big", "cache": "volume"},
                {"name": "llama2:7b", "context": 2048, "pool": "gpu"},
                {"name": "llama3.2:1b", "context": 2048, "pool": "big"},
            ],
        },
    ),
    "delete-first": (
        "timeslice",
        {
            "budget": {},
            "gpu-nodes": [{"name": "a"}, {"name": "b", "replacement": "delete-first"}],
            "models": [{"name": "llama2:7b", "pool": "a"}, {"name": "llama3.2:1b", "pool": "b"}],
        },
    ),
    "karpenter-volumes": (
        "karpenter",
        {"models": [{"name": "llama2:7b", "cache": "volume"}, {"name": "mistral:7b"}], "tags": {"team": "ml"}},
    ),
    "karpenter-parked": ("karpenter", {"gpu-nodes": {"provisioner": "karpenter", "desired": 0}}),
}
"""Stack file, and the sections that differ."""


def source_of(name: str) -> Source:
    """A stack file of the repository, or a variant of one."""
    stack, sections = VARIANTS.get(name, (name, {}))
    source = read(ROOT / f"Pulumi.{stack}.yaml", SECTIONS)
    return replace(source, sections=source.sections | sections)


def judge_with(name: str, sections: Mapping[str, Any]) -> Judged:
    """The same with other values of some sections."""
    source = source_of(name)
    stack = VARIANTS.get(name, (name,))[0]
    return judge(replace(source, sections={**source.sections, **sections}), f"Pulumi.{stack}.yaml")


def graph_with(name: str, sections: Mapping[str, Any]) -> Graph:
    return program_graph(judge_with(name, sections).plan())


@cache
def plan_of(name: str) -> Plan:
    return judge_with(name, {}).plan()


@cache
def graph_of(name: str) -> Graph:
    return program_graph(plan_of(name))


@pytest.fixture(params=[*STACKS, *VARIANTS])
def any_stack(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=STACKS)
def stack(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def plans() -> Callable[[str], Plan]:
    return plan_of


@pytest.fixture(scope="session")
def graphs() -> Callable[[str], Graph]:
    return graph_of
