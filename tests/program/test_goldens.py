"""All resources and outputs of the stacks: every change that AWS, Kubernetes or a user sees appears here.

`make test` compares; `pytest tests/program --regen` writes again. `timeslice` is kept whole. Another
stack is kept as its differences under the same stack name, and a variant of `variants.yaml` as its differences from its
own stack. `pools` is the stack file that the README shows.
"""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from components.share_proof.jobs import script_texts
from tandem.dry_run.program import program_graph
from tests.program.conftest import VARIANTS, described, plan_of

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
BASE = "timeslice"


@cache
def described_under_base(stack: str) -> dict[str, Any]:
    """The resources of a stack, registered under the name of the base."""
    return described(program_graph(replace(plan_of(stack), stack=BASE)))


def difference(base: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {
        "missing": sorted(set(base) - set(other)),
        "resources": {
            urn: resource if urn not in base else {k: v for k, v in resource.items() if base[urn].get(k) != v}
            for urn, resource in other.items()
            if base.get(urn) != resource
        },
    }


def without_scripts(stack: dict[str, Any]) -> Any:
    """The stack without the texts of the proof's scripts, which are in the base's golden."""
    text = json.dumps(stack)
    for script in script_texts().values():
        text = text.replace(json.dumps(script), '"…"')
    return json.loads(text)


def test_a_stack_registers_the_resources_of_its_golden(any_stack: str, regen: bool) -> None:
    now, (base, _) = described_under_base(any_stack), VARIANTS.get(any_stack, (BASE, {}))
    if any_stack != BASE:
        now = without_scripts(difference(described_under_base(base), now))
    path = GOLDEN / f"{any_stack}.json"
    if regen:
        path.write_text(json.dumps(now, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
    assert json.loads(path.read_text(encoding="utf-8")) == json.loads(json.dumps(now)), f"{path.name}: see --regen"
