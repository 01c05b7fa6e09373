"""Whole stacks, run in this process: the stack files of the repository, and variants of them."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox.graph import Graph
from stacks.config import StackConfig
from tandem.plan import program_graph
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


@cache
def config_of(name: str) -> StackConfig:
    stack, sections = VARIANTS.get(name, (name, {}))
    values = yaml.safe_load((ROOT / f"Pulumi.{stack}.yaml").read_text(encoding="utf-8"))["config"]
    raw = {key.removeprefix("tandem:"): value for key, value in values.items()} | sections
    return StackConfig.model_validate_json(json.dumps(raw))


@cache
def graph_of(name: str) -> Graph:
    return program_graph(config_of(name), VARIANTS.get(name, (name,))[0])


@pytest.fixture(params=[*STACKS, *VARIANTS])
def any_stack(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=STACKS)
def stack(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def configs() -> Callable[[str], StackConfig]:
    return config_of


@pytest.fixture(scope="session")
def graphs() -> Callable[[str], Graph]:
    return graph_of
