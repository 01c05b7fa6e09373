"""Models that have scaled to zero pass, their pool needs no node for them, and KEDA must run."""

from dataclasses import replace
from typing import Any

from tandem.deployed.expected import ExpectedStack
from tandem.deployed.objects import Facts
from tandem.verify.sleep import sleep_check, waker_checks, without_sleepers
from tests.tandem.seen import deployment, expected, facts

KEDA = ("keda-operator", "keda-add-ons-http-interceptor", "keda-add-ons-http-external-scaler")


def sleeping() -> ExpectedStack:
    stack = expected()
    return replace(stack, models=tuple(replace(model, sleeps=True) for model in stack.models))


def scaled(**replicas: int) -> Facts:
    """The Deployments of the models, with these numbers of replicas."""
    made: list[dict[str, Any]] = []
    for name, count in replicas.items():
        one = deployment(name.replace("_", "-"))
        one["spec"]["replicas"] = count
        made.append(one)
    return replace(facts(), deployments=made)


def test_a_model_at_zero_is_expected_to_have_no_pod_and_its_pool_no_node() -> None:
    found = without_sleepers(sleeping(), scaled(llama2_7b=0, mistral_7b=0))
    assert [model.running for model in found.models] == [False, False]
    assert [pool.nodes for pool in found.pools] == [0]
    check = sleep_check(found.models[0])
    assert (check.about, check.held) == ("model llama2-7b", True)


def test_one_model_that_runs_needs_the_node() -> None:
    found = without_sleepers(sleeping(), scaled(llama2_7b=0, mistral_7b=1))
    assert [model.running for model in found.models] == [False, True]
    assert [pool.nodes for pool in found.pools] == [1]


def test_a_model_that_does_not_scale_to_zero_must_run() -> None:
    asked = scaled(llama2_7b=0, mistral_7b=0)
    assert without_sleepers(expected(), asked) == expected()
    assert without_sleepers(sleeping(), replace(asked, deployments=[])) == sleeping()


def test_keda_must_run_or_no_request_starts_a_model() -> None:
    def workers(**ready: int) -> Facts:
        made = [{"metadata": {"name": name}, "status": {"readyReplicas": ready.get(name, 1)}} for name in KEDA]
        return replace(facts(), deployments=made)

    assert [check.held for check in waker_checks("dev", workers())] == [True, True, True]
    first, second, third = waker_checks("dev", workers(**{KEDA[1]: 0}))
    assert (first.held, second.held, third.held) == (True, False, True)
    assert second.fix == "Run `kubectl -n keda describe pods`."
    gone = [*waker_checks("dev", replace(facts(), deployments=[]))]
    assert [check.held for check in gone] == [False, False, False]
    assert gone[0].found == "no Deployment keda/keda-operator"
