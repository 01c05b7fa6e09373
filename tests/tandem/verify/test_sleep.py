"""Models that have scaled to zero pass, their pool needs no node for them, and KEDA must run."""

from dataclasses import replace
from typing import Any

import pytest

from sharing.modes.modes import Exclusive
from sharing.sections.scale_to_zero import ScaleToZeroSettings
from stacks.stack_file.judge import Plan
from tandem.deployed.objects import Facts
from tandem.verify.sleep import asleep, nodes_due, waker_checks
from tests.tandem.seen import deployment, facts, planned

KEDA = ("keda-operator", "keda-add-ons-http-interceptor", "keda-add-ons-http-external-scaler")


def sleeping() -> Plan:
    plan = planned()
    return replace(plan, config=plan.config.changed(scale_to_zero=ScaleToZeroSettings(enabled=True)))


def scaled(**replicas: int) -> Facts:
    """The Deployments of the models, with these numbers of replicas."""
    made: list[dict[str, Any]] = []
    for name, count in replicas.items():
        one = deployment(name.replace("_", "-"))
        one["spec"]["replicas"] = count
        made.append(one)
    return replace(facts(), deployments=made)


@pytest.mark.parametrize(
    ("replicas", "ids", "nodes"),
    [
        ({"llama2_7b": 0, "mistral_7b": 0}, {"llama2-7b", "mistral-7b"}, 0),
        ({"llama2_7b": 0, "mistral_7b": 1}, {"llama2-7b"}, 1),
        ({"llama2_7b": 1, "other": 0}, set(), 1),
        ({}, set(), 1),
    ],
)
def test_models_at_zero_need_no_node(replicas: dict[str, int], ids: set[str], nodes: int) -> None:
    plan = sleeping()
    found = asleep(plan, scaled(**replicas))
    assert (found, nodes_due(plan, plan.config.pools[0], found)) == (ids, nodes)


def test_a_pool_needs_no_more_nodes_than_its_models_that_run() -> None:
    plan = sleeping()
    shared = plan.config.pools[0].changed(desired=3, max=3)
    exclusive = shared.placed("gpu-nodes", Exclusive())
    for pool, sleeps, nodes in ((shared, {"llama2-7b"}, 1), (exclusive, {"other"}, 2), (exclusive, set(), 3)):
        assert nodes_due(plan, pool, sleeps) == nodes


def test_a_model_that_does_not_scale_to_zero_must_run() -> None:
    assert asleep(planned(), scaled(llama2_7b=0, mistral_7b=0)) == set()


def test_keda_must_run_or_no_request_starts_a_model() -> None:
    workers = [{"metadata": {"name": name}, "status": {"readyReplicas": 1}} for name in KEDA]
    workers[1]["status"] = {}  # the API server leaves out a number of 0 (apps/v1, DeploymentStatus)
    first, second, third = waker_checks("dev", replace(facts(), deployments=workers))
    assert (first.held, second.held, third.held) == (True, False, True)
    assert second.fix == "Run `kubectl -n keda describe pods`."
    gone = next(waker_checks("dev", replace(facts(), deployments=[])))
    assert (gone.held, gone.found) == (False, "no Deployment keda/keda-operator")
