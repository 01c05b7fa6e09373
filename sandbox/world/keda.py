"""KEDA with its HTTP add-on: it sets the replicas of models that have a ScaledObject."""

from collections.abc import Iterator
from typing import Any

from sandbox.world import controllers, karpenter, tokens
from sandbox.world.entities import CloudError, Entities, Entity, values_at
from sandbox.world.pods import chart, releases

OPERATOR, ADD_ON = "keda", "keda-add-ons-http"
OWN = {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": f"{ADD_ON}-interceptor"}}
"""The add-on's chart has it for its interceptor (chart 0.15.0 templates/interceptor/scaledobject.yaml)."""


def custom_objects(inputs: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects of KEDA's kinds in a release."""
    found = [*values_at(inputs, "values.extraObjects"), *([OWN] if chart(inputs) == ADD_ON else ())]
    return [one for one in found if "keda.sh" in str(one.get("apiVersion"))]


def scaled_objects(inputs: dict[str, Any]) -> Iterator[str]:
    """Names of the ScaledObjects in a release."""
    return (str(one["metadata"]["name"]) for one in custom_objects(inputs) if one["kind"] == "ScaledObject")


def is_running(entities: Entities, server: str, name: str = OPERATOR) -> bool:
    """Whether all pods of KEDA, or of its add-on, have a node."""
    pods = [pod for release in releases(entities, server, name) for pod in entities.owned_by(release, tokens.POD)]
    return bool(pods) and all(pod.outputs["node"] for pod in pods)


def request(entities: Entities, model: str) -> None:
    """A request for a model. Raises CloudError if nothing forwards it."""
    for release in _scaled(entities):
        if model in scaled_objects(release.inputs):
            if not entities.scaled.get(release.id):
                controllers.rescale(entities, release, 1)
            return
    raise CloudError("NotFound", f"no route for {model}", "http-add-on v0.15.0 interceptor/middleware/routing.go")


def rest(entities: Entities) -> None:
    """Stops every model with a ScaledObject; Karpenter terminates the nodes."""
    for release in _scaled(entities):
        controllers.rescale(entities, release, 0)
    karpenter.consolidate(entities)


def _scaled(entities: Entities) -> list[Entity]:
    found = [
        one for one in entities.of(tokens.RELEASE) if chart(one.inputs) != ADD_ON and [*scaled_objects(one.inputs)]
    ]
    return [one for one in found if is_running(entities, one.cluster) and is_running(entities, one.cluster, ADD_ON)]
