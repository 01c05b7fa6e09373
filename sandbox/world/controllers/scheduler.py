"""The scheduler: assigns pods to nodes, and decides which taints evict them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sandbox.world import tokens
from sandbox.world.controllers.nodes import BLOCKING, EFFECTS, meets, taints
from sandbox.world.controllers.plugin import advertised, labels_seen, refuses_process
from sandbox.world.controllers.pods import Pod
from sandbox.world.controllers.storage import why_not_mounted, why_unmountable
from sandbox.world.entities import Entities, Entity, Key, values_at


def placed(
    entities: Entities,
    server: str,
    namespace: str,
    pods: Iterable[Pod],
    ignored: Key | None = None,
) -> list[Entity | str]:
    """The node of each pod, or why it has none.

    The current pods of the release `ignored` do not count as running.
    """
    room = _Room(entities, server, namespace)
    for pod in entities.of(tokens.POD):
        if pod.owner != ignored and pod.outputs.get("node"):
            room.take(pod.outputs["node"], pod.outputs.get("needs") or {})
            room.running.append(pod)
    there = entities.within(server, tokens.NODE)
    return [where for group in _groups(pods) for where in [room.node_for(group, there)] * len(group)]


def _groups(pods: Iterable[Pod]) -> list[list[Pod]]:
    """The pods in groups: consecutive pods that must run on one node, and every other pod alone."""
    found: list[list[Pod]] = []
    for pod in pods:
        if pod.together and found and found[-1][0].together == pod.together:
            found[-1].append(pod)
        else:
            found.append([pod])
    return found


def must_leave(pod: Pod, place: dict[str, Any]) -> bool:
    """Whether a taint evicts this pod from a node with these outputs, or from nodes with this template.

    https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/ (NoExecute)
    """
    return any(taint.get("effect") == "NO_EXECUTE" and not _tolerates(pod, taint) for taint in taints(place))


@dataclass(slots=True)
class _Room:
    """The used and free resources of a cluster's nodes."""

    entities: Entities
    server: str
    namespace: str
    """Namespace of the pods to schedule."""
    taken: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Used resources by node."""
    running: list[Entity] = field(default_factory=list)

    def take(self, node: str, needs: dict[str, int]) -> None:
        self.taken.update({(node, resource): count for resource, count in needs.items()})

    def node_for(self, pods: list[Pod], there: list[Entity]) -> Entity | str:
        """Assigns the pods to the first node that fits all of them. Returns the node, or why none fits.

        No pod evicts another.
        """
        for claim in (claim for pod in pods for claim in pod.claims):
            if (problem := why_unmountable(self.entities, self.server, self.namespace, claim)) is not None:
                return problem
        reasons: Counter[str] = Counter()
        for node in there:
            reason = self._refusal(pods, node)
            if reason is None:
                # The scheduler does not know the node's directories, so it tries no other node.
                return self._why_not_mounted(pods, node) or node
            reasons[reason] += 1
        why = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        return f"0/{len(there)} nodes are available" + (f": {why}." if why else ".")

    def _why_not_mounted(self, pods: list[Pod], node: Entity) -> str | None:
        given = (claim for pod in pods for claim in pod.claims)
        found = (why_not_mounted(self.entities, self.namespace, claim, node) for claim in given)
        return next((why for why in found if why), None)

    def _refusal(self, pods: list[Pod], node: Entity) -> str | None:
        for pod in pods:
            if (reason := self._unfit(pod, node)) is not None:
                return reason
            self.take(node.id, pod.needs)
        return None

    def _unfit(self, pod: Pod, node: Entity) -> str | None:
        """Why the scheduler rejects the node, or why the process would not start there. None if it fits."""
        has = labels_seen(self.entities, node)
        if any(has.get(key) != value for key, value in pod.selector.items()):
            return "node(s) didn't match Pod's node affinity/selector"
        if pod.terms and not any(_meets_all(has, term) for term in pod.terms):
            return "node(s) didn't match Pod's node affinity/selector"
        for taint in taints(node.outputs):
            if taint.get("effect") in BLOCKING and not _tolerates(pod, taint):
                return f"node(s) had untolerated taint {{{taint.get('key')}: {taint.get('value') or ''}}}"
        if not pod.needs:
            return None
        offers = advertised(self.entities, node)
        for resource, count in pod.needs.items():
            shares = offers[resource].count if resource in offers else 0
            if shares - self.taken[node.id, resource] < count:
                return f"Insufficient {resource}"
        # The scheduler does not know this: the pod would start, and fail until the old process has stopped.
        return refuses_process(self.entities, node, [one for one in self.running if one.outputs["node"] == node.id])


def _meets_all(has: dict[str, str], term: dict[str, Any]) -> bool:
    return all(meets(has, one) for one in values_at(term, "matchExpressions"))


def _tolerates(pod: Pod, taint: dict[str, Any]) -> bool:
    effect = taint.get("effect")
    if effect == "NO_SCHEDULE" and taint.get("key") in pod.needs:
        # EKS enables ExtendedResourceToleration: a pod tolerates a NoSchedule taint whose key is a resource that it
        # requests (kubernetes plugin/pkg/admission/extendedresourcetoleration/admission.go).
        return True
    return any(
        one["key"] == taint["key"]
        and EFFECTS.get(str(one.get("effect"))) in (None, effect)
        and (one.get("operator") == "Exists" or one.get("value") == taint.get("value"))
        for one in pod.tolerations
    )
