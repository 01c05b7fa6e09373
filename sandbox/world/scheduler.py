"""The scheduler: assigns pods to nodes, and decides which taints evict them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sandbox.world import tokens
from sandbox.world.entities import Entities, Entity, Key, values_at
from sandbox.world.nodes import BLOCKING, EFFECTS, ZONE_LABEL, meets, taints
from sandbox.world.plugin import labels_seen, offered, refuses_process
from sandbox.world.pods import Pod
from sandbox.world.storage import bound, claims, driver_missing, handle, zones


def placed(
    entities: Entities,
    server: str,
    namespace: str,
    pods: Iterable[Pod],
    ignored: Key | None = None,
    coming: Iterable[Entity] = (),
) -> list[Entity | str]:
    """The node of each pod, or why it has none.

    The current pods of the release `ignored` do not count as running. `coming` are nodes that do not exist yet.
    """
    room = _Room(entities, server, namespace)
    for one in entities.of(tokens.POD):
        if one.owner != ignored and one.outputs.get("node"):
            room.take(one.outputs["node"], one.outputs.get("needs") or {}, one.outputs.get("apart") or "")
            room.alive.append(one)
    there = [*entities.within(server, tokens.NODE), *coming]
    return [where for group in groups(pods) for where in [room.node_for(group, there)] * len(group)]


def groups(pods: Iterable[Pod]) -> list[list[Pod]]:
    """The pods in groups: consecutive pods that must run on one node, and every other pod alone."""
    found: list[list[Pod]] = []
    for pod in pods:
        if pod.together and found and found[-1][0].together == pod.together:
            found[-1].append(pod)
        else:
            found.append([pod])
    return found


def must_leave(pod: Pod, node: Entity) -> bool:
    """Whether a taint of the node evicts this pod.

    https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/ (NoExecute)
    """
    return any(taint.get("effect") == "NO_EXECUTE" and not _tolerates(pod, taint) for taint in taints(node))


@dataclass(slots=True)
class _Room:
    """The used and free resources of a cluster's nodes."""

    entities: Entities
    server: str
    namespace: str
    """Namespace of the pods to schedule."""
    taken: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Used resources by node, and anti-affinity values of the pods there."""
    alive: list[Entity] = field(default_factory=list)
    """Running pods."""

    def take(self, node: str, needs: dict[str, int], apart: str) -> None:
        self.taken.update({(node, resource): count for resource, count in {**needs, _group(apart): 1}.items()})

    def node_for(self, pods: list[Pod], there: list[Entity]) -> Entity | str:
        """Assigns the pods to the first node that fits all of them. Returns the node, or why none fits.

        No pod evicts another.
        """
        for pod in pods:
            for name in pod.claims:
                if (problem := self._claim_problem(name)) is not None:
                    return problem
        reasons: Counter[str] = Counter()
        for node in sorted(there, key=lambda node: -preference(pods[0], labels_seen(self.entities, node))):
            before = self.taken.copy()
            reason = self._refusal(pods, node)
            if reason is None:
                return node
            self.taken = before
            reasons[reason] += 1
        why = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        return f"0/{len(there)} nodes are available" + (f": {why}." if why else ".")

    def _refusal(self, pods: list[Pod], node: Entity) -> str | None:
        for pod in pods:
            if (reason := self._unfit(pod, node)) is not None:
                return reason
            self.take(node.id, pod.needs, pod.apart)
        return None

    def _claim_problem(self, name: str) -> str | None:
        claim = claims(self.entities, self.server, self.namespace, name)
        volume = bound(self.entities, claim) if claim else None
        if volume is not None and not handle(volume):
            return None  # a directory on the node, which needs no driver
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        missing = driver_missing(self.entities, self.server)
        return f"FailedAttachVolume for claim {name}: {missing}" if missing else None

    def _unfit(self, pod: Pod, node: Entity) -> str | None:
        """Why the scheduler rejects the node, or why the process would not start there. None if it fits."""
        has = labels_seen(self.entities, node)
        if any(has.get(key) != value for key, value in pod.selector.items()) or any(key in has for key in pod.avoids):
            return "node(s) didn't match Pod's node affinity/selector"
        if pod.terms and not any(_meets_all(has, term) for term in pod.terms):
            return "node(s) didn't match Pod's node affinity/selector"
        for taint in taints(node):
            if taint.get("effect") in BLOCKING and not _tolerates(pod, taint):
                return f"node(s) had untolerated taint {{{taint.get('key')}: {taint.get('value') or ''}}}"
        if pod.apart and self.taken[node.id, _group(pod.apart)]:
            return "node(s) didn't match pod anti-affinity rules"
        for name in pod.claims:
            claim = claims(self.entities, self.server, self.namespace, name)
            wanted = zones(bound(self.entities, claim)) if claim else []
            if wanted and has.get(ZONE_LABEL) not in wanted:
                return "node(s) didn't match PersistentVolume's node affinity"
        if not pod.needs:
            return None
        offers = offered(self.entities, node)
        for resource, count in pod.needs.items():
            if offers.get(resource, 0) - self.taken[node.id, resource] < count:
                return f"Insufficient {resource}"
        # The scheduler does not know this: the pod would start, and fail until the old process has stopped.
        return refuses_process(self.entities, node, [one for one in self.alive if one.outputs["node"] == node.id])


def preference(pod: Pod, labels: dict[str, str]) -> int:
    """How much a pod prefers a node with these labels."""
    return sum(one["weight"] for one in pod.prefers if _meets_all(labels, one["preference"]))


def _group(apart: str) -> str:
    """A key that is not the name of a resource."""
    return f"apart: {apart}"


def _meets_all(has: dict[str, str], term: dict[str, Any]) -> bool:
    return all(meets(has, one) for one in values_at(term, "matchExpressions"))


def _tolerates(pod: Pod, taint: dict[str, Any]) -> bool:
    effect = taint.get("effect")
    if effect == "NO_SCHEDULE" and taint.get("key") in pod.needs:
        # EKS enables ExtendedResourceToleration: a pod tolerates a NoSchedule taint whose key is a resource that it
        # requests (kubernetes plugin/pkg/admission/extendedresourcetoleration/admission.go).
        return True
    return any(
        one.get("key") in (None, "", taint.get("key"))
        and EFFECTS.get(str(one.get("effect")), one.get("effect")) in (None, "", effect)
        and (one.get("operator") == "Exists" or one.get("value") == taint.get("value"))
        for one in pod.tolerations
    )
