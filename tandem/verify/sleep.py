"""Models that scale to zero: one without a pod is as it should be, if KEDA can start it."""

from collections.abc import Collection, Iterator

from sharing.names import KEDA_NAMESPACE
from sharing.sections.pools import GpuPool
from sharing.verdict.features.scale_to_zero import sleepers
from stacks.stack_file.judge import Plan
from tandem.deployed.objects import Facts, name
from tandem.verify.checks import Check

WAKERS = ("keda-operator", "keda-add-ons-http-interceptor", "keda-add-ons-http-external-scaler")
"""Deployments of KEDA and its HTTP add-on (charts keda 2.20.2 and keda-add-ons-http 0.15.0)."""


def asleep(plan: Plan, facts: Facts) -> set[str]:
    """Ids of the models that have scaled to zero."""
    at_zero = {name(each) for each in facts.deployments if each.get("spec", {}).get("replicas") == 0}
    return at_zero & {served.id for served in sleepers(plan.config)}


def nodes_due(plan: Plan, pool: GpuPool, sleeping: Collection[str]) -> int:
    """How many nodes a pool must have: enough for the models that run."""
    nodes = plan.config.nodes_of(pool)
    if not sleeping:
        return nodes
    running = sum(served.id not in sleeping for served in plan.config.models_of(pool))
    return min(nodes, -(-running // pool.shares_per_node))


def sleep_check(id: str) -> Check:
    """A model that has scaled to zero."""
    return Check(
        about=f"model {id}",
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
