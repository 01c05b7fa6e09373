"""Helm: a release's pods, and the CRDs of its chart, which an uninstall deletes or leaves."""

from sandbox.world import tokens
from sandbox.world.controllers.nodes import made
from sandbox.world.controllers.pods import DISCOVERY, chart, pods_of
from sandbox.world.entities import Entities, Entity, value_at

BY_HELM, BY_SCHEDULER = "helm", "kube-scheduler"

# CRDs of the pinned charts, as far as our stacks have such objects or Helm leaves the CRDs behind: kinds by group.
CRDS: dict[str, dict[str, tuple[str, ...]]] = {
    "karpenter-crd": {"karpenter.sh": ("NodePool", "NodeOverlay"), "karpenter.k8s.aws": ("EC2NodeClass",)},
    DISCOVERY: {"nfd.k8s-sigs.io": ("NodeFeature", "NodeFeatureGroup", "NodeFeatureRule")},
    "keda": {"keda.sh": ("ScaledObject",)},
    "keda-add-ons-http": {"http.keda.sh": ("InterceptorRoute",)},
    "gpu-operator": {"nvidia.com": ("ClusterPolicy", "NVIDIADriver")},
}
DELETED = ("karpenter-crd", "keda", "keda-add-ons-http")
"""Charts whose CRDs are templates: an uninstall deletes them. Helm keeps those in `crds/` (seen by installing both)."""


def deletes_its_crds(release: Entity) -> bool:
    """Whether an uninstall of the release deletes the CRDs of its chart."""
    return chart(release.inputs) in DELETED


def custom_type(entity: Entity) -> tuple[str, str]:
    """Group and kind that a CRD defines."""
    return str(value_at(entity.inputs, "spec.group")), str(value_at(entity.inputs, "spec.names.kind"))


def group_and_kind(token: str) -> tuple[str, str]:
    """Group and kind of a Kubernetes type token."""
    _, place, kind = token.split(":", 2)
    return place.partition("/")[0], kind


def custom_resources(entities: Entities, crd: Entity) -> list[Entity]:
    """All objects of the kind that a CRD defines."""
    return [one for one in entities.inside(crd.cluster) if group_and_kind(one.type) == custom_type(crd)]


def install(entities: Entities, release: Entity) -> None:
    """Creates the CRDs and pods of a new release."""
    for group, kinds in CRDS.get(chart(release.inputs), {}).items():
        for kind in kinds:
            name = f"{kind.lower()}s.{group}"
            defined = {"spec": {"group": group, "names": {"kind": kind}}}
            crd = made(entities, tokens.CRD, name, name, BY_HELM, release.key, defined, release.cluster)
            # The next release takes over a CRD that an uninstalled release has left behind.
            crd.owner = release.key
    replace_pods(entities, release)


def replace_pods(entities: Entities, release: Entity) -> None:
    """Recreates the pods of a release, without nodes."""
    for old in entities.owned_by(release, tokens.POD):
        entities.remove(old)
    for pod in pods_of(release.inputs):
        identity = f"{release.namespace}/{pod.name}"
        created = made(entities, tokens.POD, identity, pod.name, BY_SCHEDULER, release.key, {}, release.cluster)
        created.outputs = {
            "needs": pod.needs,
            "claims": [f"{release.namespace}/{name}" for name in pod.claims],
            "node": "",
        }


def uninstall(entities: Entities, release: Entity) -> None:
    """Deletes everything that Helm deletes with a release: its pods, and CRDs that are templates."""
    if deletes_its_crds(release):
        # Kubernetes then deletes all objects of their kinds, without Pulumi's knowledge.
        crds = entities.owned_by(release, tokens.CRD)
        for custom in [one for crd in crds for one in custom_resources(entities, crd)]:
            entities.remove(custom)
    else:
        forget(entities, release)


def forget(entities: Entities, release: Entity) -> None:
    """Deletes a release with its pods, but not its CRDs."""
    for crd in entities.owned_by(release, tokens.CRD):
        crd.owner = None
    entities.remove(release)
