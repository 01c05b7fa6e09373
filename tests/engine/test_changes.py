"""Each row of `docs/changes.yaml` is true: it says which resources a change replaces, updates and keeps."""

from collections import Counter
from typing import Any

import pytest
import yaml

from tests.engine.emulated import ROOT, Raise

ROWS: list[dict[str, Any]] = yaml.safe_load((ROOT / "docs" / "changes.yaml").read_text(encoding="utf-8"))
STACK = "timeslice"
CODES = {"G spot": "L-3819A6DF", "G on-demand": "L-DB2E81BA", "standard on-demand": "L-1216C47A"}
"""AWS's codes of the quotas that rows name."""
OPERATIONS = {"created": "create", "updated": "update", "replaced": "replace", "deleted": "delete"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["change"].replace("`", ""))
@pytest.mark.real_world(
    behaviour="An update of GPU nodes needs no more of the vCPU quota than the nodes that run",
    source="https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html",
)
def test_a_change_does_to_a_deployed_stack_what_the_table_says(raised: Raise, row: dict[str, Any]) -> None:
    stack = raised(STACK, row.get("before"))
    recycled, peaks = stack.recycled(), stack.peaks()
    stack.configure(row["after"])
    assert stack.comes_up().changed == {
        done: frozenset(row[word]) for word, done in OPERATIONS.items() if row.get(word)
    }
    assert stack.recycled() - recycled == Counter(row.get("recycled", {}))
    assert stack.peaks() == peaks | {CODES[quota]: vcpus for quota, vcpus in row.get("vcpus", {}).items()}
    assert stack.findings().agree


MOVING = {"tandem-gpu-mode", "tandem-ollama-llama2-7b", "tandem-ollama-mistral-7b"}
"""A change of the taint of its nodes, or of its release, stops a model."""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["change"])
def test_a_change_of_nodes_says_what_becomes_of_quota_and_models(row: dict[str, Any]) -> None:
    nodes = "tandem-gpu-group" in row.get("replaced", ()) or "recycled" in row
    changed = {name for what in ("updated", "replaced", "deleted") for name in row.get(what, ())}
    assert (nodes or not MOVING.isdisjoint(changed)) == ("models" in row)
    assert not nodes or row["vcpus"]


def test_a_model_cannot_take_the_share_of_one_that_goes_in_the_same_up(raised: Raise) -> None:
    # The engine creates before it deletes, so the new model's pod finds every share taken.
    stack = raised(STACK)
    first, other = ({"name": name, "context": 2048} for name in ("llama2:7b", "llama3.2:3b"))
    stack.configure({"models": [first, other]})
    stack.stops(saying="Insufficient nvidia.com/gpu")
    assert stack.findings().agree, "Helm keeps a release that failed, and the state must contain it"
    for models in ([first], [first, other]):
        stack.configure({"models": models})
        stack.comes_up()
