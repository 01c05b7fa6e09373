"""Rules of KEDA: its charts bring the kinds, and only its operator deletes a ScaledObject."""

from typing import Any

from sandbox.world import tokens
from sandbox.world.controllers.helm import custom_type
from sandbox.world.controllers.pods import chart, releases
from sandbox.world.entities import values_at
from sandbox.world.rules.rule import CHANGE, DELETE, Case, Rule

OPERATOR, ADD_ON = "keda", "keda-add-ons-http"
OWN = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": f"{ADD_ON}-interceptor"}}
"""The add-on's chart has it for its interceptor (chart 0.15.0 templates/interceptor/scaledobject.yaml)."""
FINALIZER = "https://github.com/kedacore/keda/blob/v2.20.2/controllers/keda/scaledobject_finalizer.go"
MAPPING = "https://github.com/helm/helm/blob/v3.18.0/pkg/kube/client.go (Build)"


def _objects(inputs: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects of KEDA's kinds in a release."""
    found = [*values_at(inputs, "values.extraObjects"), *([OWN] if chart(inputs) == ADD_ON else ())]
    return [one for one in found if "keda.sh" in str(one.get("apiVersion"))]


def _unknown_kind(case: Case) -> str | None:
    known = {custom_type(entity) for entity in case.entities.within(case.cluster, tokens.CRD)}
    for one in _objects(case.inputs):
        kind, version, name = one["kind"], str(one["apiVersion"]), one["metadata"]["name"]
        if (version.partition("/")[0], kind) not in known:
            return (
                "unable to build kubernetes objects from release manifest: resource mapping not found for name: "
                f'"{name}": no matches for kind "{kind}" in version "{version}"'
            )
    return None


def _without_operator(case: Case) -> str | None:
    held = [str(one["metadata"]["name"]) for one in _objects(case.inputs) if one["kind"] == "ScaledObject"]
    if not held or releases(case.entities, case.cluster, OPERATOR):
        return None
    return f"uninstall: context deadline exceeded: ScaledObject {held[0]} is Terminating: no KEDA removes its finalizer"


RULES: tuple[Rule, ...] = (
    Rule((tokens.RELEASE,), CHANGE, "NotFound", MAPPING, _unknown_kind),
    Rule((tokens.RELEASE,), DELETE, "Timeout", FINALIZER, _without_operator),
)
