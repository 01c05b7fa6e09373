"""What the stacks register, whole: a change of anything that AWS or Kubernetes will see shows here.

`make test` compares; `pytest tests/program --regen` writes anew. `timeslice` is kept whole, the others as what differs
from it under the same stack name; `pools` is the stack file that the README shows.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.ollama_pair.values import start_script
from sandbox.graph import Graph, masked
from stacks.stack_file.judge import Plan
from tandem.planned.plan import program_graph
from tests.program.conftest import STACKS

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
BASE = "timeslice"


def told(graph: Graph) -> dict[str, Any]:
    """Resources by the part of their URN that is the same in every stack."""
    return {
        resource.urn.split("::", 2)[2]: {
            "inputs": json.loads(json.dumps(masked(resource.inputs)).replace(json.dumps(start_script())[1:-1], "…")),
            "depends_on": [short(urn) for urn in resource.dependencies],
            "options": {
                key: value for key, value in masked(resource.options).items() if key not in ("version", "aliases")
            },
        }
        for resource in graph
        if resource.type != "pulumi:pulumi:Stack"
    }


def short(urn: str) -> str:
    return urn.rsplit("::", 1)[1]


def difference(base: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {
        "missing": sorted(set(base) - set(other)),
        "resources": {
            urn: resource if urn not in base else {k: v for k, v in resource.items() if base[urn][k] != v}
            for urn, resource in other.items()
            if base.get(urn) != resource
        },
    }


@pytest.mark.parametrize("stack", [*STACKS, "pools"])
def test_a_stack_registers_what_its_golden_says(plans: Callable[[str], Plan], stack: str, regen: bool) -> None:
    base, now = (told(program_graph(replace(plans(name), stack=BASE))) for name in (BASE, stack))
    if stack != BASE:
        now = difference(base, now)
    path = GOLDEN / f"{stack}.json"
    if regen:
        path.write_text(json.dumps(now, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    assert json.loads(path.read_text(encoding="utf-8")) == json.loads(json.dumps(now)), f"{path.name}: see --regen"
