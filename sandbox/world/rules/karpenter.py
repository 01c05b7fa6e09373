"""Rules of Karpenter: what its objects need when they are created and deleted."""

from sandbox.world import tokens
from sandbox.world.controllers import karpenter
from sandbox.world.entities import value_at
from sandbox.world.rules.rule import CHANGE, DELETE, Case, Rule

AWAITED = "pulumi.com/waitFor"
PROVIDER = "https://www.pulumi.com/registry/packages/kubernetes/installation-configuration/ (pulumi.com/waitFor)"
CLASSES = "https://karpenter.sh/docs/concepts/nodeclasses/"
FINALIZER = "https://karpenter.sh/docs/concepts/disruption/#termination-controller"


def _never_ready(case: Case) -> str | None:
    """A call that waits for a condition needs the controller that sets the condition."""
    if AWAITED not in (value_at(case.inputs, "metadata.annotations") or {}):
        return None
    why = karpenter.why_idle(case.entities, case.cluster)
    return f"timed out waiting for the condition Ready: {why}" if why else None


def _has_nodes(case: Case) -> str | None:
    pools = karpenter.pools_with_nodes(case.entities, case.existing)
    return f"EC2NodeClass {case.id} is Terminating: it waits for the nodes of {pools[0].id}" if pools else None


def _kept(case: Case) -> str | None:
    why = karpenter.why_kept(case.entities, case.existing)
    return f"{case.type.rpartition(':')[2]} {case.id} is Terminating: its finalizer waits, {why}" if why else None


RULES: tuple[Rule, ...] = (
    Rule(
        (tokens.NODE_CLASS, tokens.NODE_POOL, tokens.NODE_OVERLAY),
        CHANGE,
        "Timeout",
        PROVIDER,
        _never_ready,
    ),
    Rule((tokens.NODE_CLASS,), DELETE, "Timeout", CLASSES, _has_nodes),
    Rule((tokens.NODE_POOL, tokens.NODE_CLASS), DELETE, "Timeout", FINALIZER, _kept),
)
