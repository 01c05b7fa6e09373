"""Models that scale to zero: one without a pod is as it should be, if KEDA can start it."""

from collections.abc import Iterator
from dataclasses import replace

from sharing.names import KEDA_NAMESPACE
from tandem.deployed.expected import ExpectedModel, ExpectedPool, ExpectedStack
from tandem.deployed.objects import Facts, name
from tandem.verify.checks import Check

WAKERS = ("keda-operator", "keda-add-ons-http-interceptor", "keda-add-ons-http-external-scaler")
"""Deployments of KEDA and its HTTP add-on (charts keda 2.20.2 and keda-add-ons-http 0.15.0)."""


def without_sleepers(expected: ExpectedStack, facts: Facts) -> ExpectedStack:
    """What is expected now: models that have scaled to zero have no pod, and pools no nodes for them."""
    asleep = {model.id for model in expected.models if model.sleeps and _is_at_zero(model, facts)}
    if not asleep:
        return expected
    models = tuple(replace(model, running=model.running and model.id not in asleep) for model in expected.models)
    return replace(expected, models=models, pools=tuple(_smaller(pool, models) for pool in expected.pools))


def _is_at_zero(model: ExpectedModel, facts: Facts) -> bool:
    own = (each for each in facts.deployments if name(each) == model.id)
    return any(each.get("spec", {}).get("replicas") == 0 for each in own)


def _smaller(pool: ExpectedPool, models: tuple[ExpectedModel, ...]) -> ExpectedPool:
    """The pool with enough nodes for the models that run."""
    running = sum(model.running and model.pool == pool.name for model in models)
    per_node = max(1, sum(pool.allocatable("").values()))
    return replace(pool, nodes=min(pool.nodes, -(-running // per_node)))


def sleep_check(model: ExpectedModel) -> Check:
    """A model that has scaled to zero."""
    return Check(
        about=f"model {model.id}",
        what="scaled to zero",
        held=True,
        expected="starts with the next request",
        found="no pod: it has no requests",
    )


def waker_checks(stack: str, facts: Facts) -> Iterator[Check]:
    """KEDA and its add-on run: without them, no request starts a model."""
    for waker in WAKERS:
        deployment = next((each for each in facts.deployments if name(each) == waker), None)
        ready = deployment.get("status", {}).get("readyReplicas", 0) if deployment else 0
        yield Check(
            about="scale-to-zero",
            what=f"{waker} ready",
            held=ready > 0,
            expected="1",
            found=f"{ready}" if deployment else f"no Deployment {KEDA_NAMESPACE}/{waker}",
            fix=f"Run `kubectl -n {KEDA_NAMESPACE} describe pods`."
            if deployment
            else f"Run `pulumi up --stack {stack}`.",
        )
