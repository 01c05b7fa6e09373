"""Rules of KEDA: only its operator deletes a ScaledObject, and its charts bring the kinds."""

from sandbox.world import tokens
from sandbox.world.controllers import custom_type
from sandbox.world.keda import OPERATOR, custom_objects, is_running, scaled_objects
from sandbox.world.pods import chart
from sandbox.world.rules.rule import CHANGE, DELETE, Case, Rule

FINALIZER = "https://github.com/kedacore/keda/blob/v2.20.2/controllers/keda/scaledobject_finalizer.go"
MAPPING = "https://github.com/helm/helm/blob/v3.18.0/pkg/kube/client.go (Build)"
CHARTS = "https://github.com/kedacore/charts (keda 2.20.2, templates/crds)"


def _unknown_kind(case: Case) -> str | None:
    known = {custom_type(one) for one in case.entities.within(case.cluster, tokens.CRD)}
    for one in custom_objects(case.inputs):
        kind, version, name = one["kind"], str(one["apiVersion"]), one["metadata"]["name"]
        if (version.partition("/")[0], kind) not in known:
            return (
                "unable to build kubernetes objects from release manifest: resource mapping not found for name: "
                f'"{name}": no matches for kind "{kind}" in version "{version}"'
            )
    return None


def _without_operator(case: Case) -> str | None:
    held = next(scaled_objects(case.inputs), None)
    if held is None or is_running(case.entities, case.cluster):
        return None
    return f"uninstall: context deadline exceeded: ScaledObject {held} is Terminating: no KEDA removes its finalizer"


def _kept_by_others(case: Case) -> str | None:
    """Helm deletes the operator before the CRDs."""
    if chart(case.inputs) != OPERATOR:
        return None
    others = [one for one in case.entities.within(case.cluster, tokens.RELEASE) if one is not case.entity]
    held = [name for one in others for name in scaled_objects(one.inputs)]
    if not held:
        return None
    return f"uninstall: context deadline exceeded: ScaledObject {held[0]} holds the CRD scaledobjects.keda.sh"


RULES: tuple[Rule, ...] = (
    Rule((tokens.RELEASE,), CHANGE, "NotFound", MAPPING, _unknown_kind),
    Rule((tokens.RELEASE,), DELETE, "Timeout", FINALIZER, _without_operator, waits=True),
    Rule((tokens.RELEASE,), DELETE, "Timeout", CHARTS, _kept_by_others, waits=True),
)
