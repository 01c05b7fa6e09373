"""Rules of Karpenter: conditions for the creation and deletion of its objects."""

from sandbox.world import karpenter, tokens
from sandbox.world.entities import Entity, value_at
from sandbox.world.pods import chart, pods_of
from sandbox.world.rules.rule import Case, Rule
from sandbox.world.scheduler import placed

DOCS = "https://karpenter.sh/docs/concepts/"
WORKLOADS = "https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#max-unavailable"
OWNERS = "https://kubernetes.io/docs/concepts/architecture/garbage-collection/#foreground-deletion"
AWAITED = "pulumi.com/waitFor"
CALLS = {tokens.NODE_CLASS: karpenter.MAKE_PROFILE, tokens.NODE_POOL: karpenter.LAUNCH, tokens.NODE_OVERLAY: ()}


def _never_ready(case: Case) -> str | None:
    """A call that waits for a condition needs the controller that sets the condition."""
    if AWAITED not in (value_at(case.inputs, "metadata.annotations") or {}):
        return None
    why = karpenter.idle(case.entities, case.cluster, *CALLS[case.type])
    if why is None and case.type == tokens.NODE_OVERLAY and not karpenter.gate_is_on(case.entities, case.cluster):
        why = "the feature gate NodeOverlay is off"
    return f"timed out waiting for the condition Ready: {why}" if why else None


def _has_nodes(case: Case) -> str | None:
    """A NodePool owns its NodeClaims, which block its deletion until their instances are terminated."""
    claims = case.entities.owned_by(case.entity, tokens.NODE_CLAIM) if case.entity else []
    why = karpenter.idle(case.entities, case.cluster, *karpenter.TERMINATE) if claims else None
    return f"NodePool {case.id} is Terminating: NodeClaim {claims[0].id} has its finalizer, {why}" if why else None


def _has_claims(case: Case) -> str | None:
    pools = karpenter.pools_of(case.entities, case.entity) if case.entity else []
    claims = [claim for pool in pools for claim in case.entities.owned_by(pool, tokens.NODE_CLAIM)]
    return f"EC2NodeClass {case.id} is Terminating: waiting on NodeClaim {claims[0].id}" if claims else None


def _deadlocked(case: Case) -> str | None:
    """A rolling update keeps all replicas except one. If only those run, the old pod occupies the only node."""
    if chart(case.inputs) != karpenter.CHART or case.entity is None or not _rolls(case, case.entity):
        return None
    pods = pods_of(case.inputs)
    running = [one for one in case.entities.owned_by(case.entity, tokens.POD) if one.outputs["node"]]
    beside = placed(case.entities, case.cluster, case.entity.namespace, pods)
    if len(running) >= len(pods) or any(isinstance(where, Entity) for where in beside):
        return None
    return f"context deadline exceeded; pod {pods[0].name} is Pending behind the one that it replaces: {beside[0]}"


def _rolls(case: Case, release: Entity) -> bool:
    return any(case.inputs.get(key) != release.inputs.get(key) for key in ("version", "values"))


RULES: tuple[Rule, ...] = (
    Rule(
        (tokens.NODE_CLASS, tokens.NODE_POOL, tokens.NODE_OVERLAY),
        ("create", "update"),
        "Timeout",
        "https://www.pulumi.com/registry/packages/kubernetes/installation-configuration/ (pulumi.com/waitFor)",
        _never_ready,
        waits=True,
    ),
    Rule((tokens.NODE_POOL,), ("delete",), "Timeout", OWNERS, _has_nodes, waits=True),
    Rule((tokens.NODE_CLASS,), ("delete",), "Timeout", DOCS + "nodeclasses/", _has_claims, waits=True),
    Rule((tokens.RELEASE,), ("update",), "Timeout", WORKLOADS, _deadlocked, waits=True),
)
