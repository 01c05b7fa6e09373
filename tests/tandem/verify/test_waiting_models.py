"""A model that waits for a more important one, or that runs on a pool to which it may spill, is no riddle."""

from dataclasses import replace
from typing import Any

from tandem.verify.checks import Check, model_checks
from tests.tandem.seen import changed, facts, node, pending, planned, pod

MESSAGE = (
    "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) didn't match Pod's node affinity/selector. "
    "preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod."
)
"""Of the real scheduler (tests/cluster/test_spill.py)."""
PLAN = planned()
[FIRST] = [fit for fit in PLAN.assessment.fits if fit.served.id == "llama2-7b"]


def ranked(made: dict[str, Any], priority: int) -> dict[str, Any]:
    return changed(made, "spec", "priority", to=priority)


def check(what: str, *pods: dict[str, Any]) -> Check:
    [found] = [one for one in model_checks(PLAN, FIRST, replace(facts(), pods=pods)) if one.what == what]
    return found


def test_a_model_without_a_share_names_the_more_important_models_that_hold_them() -> None:
    waits = ranked(pending("llama2-7b", MESSAGE), -10)
    found = check("pod ready", waits, ranked(pod("mistral-7b"), 0), ranked(pod("llama3-2-1b"), -5))
    assert found.held is False
    assert found.fix.startswith("More important models hold the shares: llama3-2-1b, mistral-7b. It starts when one is")


def test_models_of_equal_or_lower_importance_are_no_reason() -> None:
    waits = ranked(pending("llama2-7b", MESSAGE), -5)
    others = ranked(pod("mistral-7b"), -5), ranked(pod("llama3-2-1b"), -10), ranked(pending("qwen", MESSAGE), 0)
    assert check("pod ready", waits, *others).fix.startswith("Other pods hold the shares.")


def test_a_model_may_run_on_a_pool_to_which_it_may_spill() -> None:
    other = node("ip-10-0-9-9", labels={"tandem/pool": "rest"})
    elsewhere = replace(facts(), nodes=[node(), other], pods=[pod("llama2-7b", on="ip-10-0-9-9")])
    rest = replace(PLAN, config=PLAN.config.changed(pools=[FIRST.pool, FIRST.pool.changed(name="rest")]))
    for spill, held, pools in (([], False, "pool gpu"), (["rest"], True, "pool gpu or rest")):
        checks = model_checks(rest, replace(FIRST, served=FIRST.served.changed(spill=spill)), elsewhere)
        [found] = [one for one in checks if one.what == "on a node of its pool"]
        assert (found.held, found.expected) == (held, pools)
