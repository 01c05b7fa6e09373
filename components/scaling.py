"""The objects that scale one model to zero and back: part of the model's Helm release (docs/decisions/0145)."""

import json
from dataclasses import dataclass
from typing import Any

import pulumi

from components.arguments import check_arguments, check_least
from sharing.names import KEDA_NAMESPACE, OLLAMA_PORT, SCALER_PORT
from sharing.sections.scale_to_zero import ColdRequests

SCALER = "keda-add-ons-http-external-scaler"
"""Name of the Service of the add-on's scaler, which its chart names after itself."""
WORKING_PATHS = (
    "/api/generate",
    "/api/chat",
    "/api/embed",
    "/api/embeddings",
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/responses",
    "/v1/messages",
    "/v1/audio/transcriptions",
)
"""Paths that run a model (ollama v0.32.15 server/routes.go). Others get status 404: programs that poll the list of
models, like `/api/tags` and `/v1/models`, would keep a model awake. A path covers what is below it."""
MANY_REQUESTS = 1000
"""Requests per pod, above which KEDA would want another pod. A model has at most one."""
RETRY_SECONDS = 60
SLEEPING = "The model is starting because of this request. Try again later."


@check_arguments
@dataclass(frozen=True, kw_only=True)
class Scaling:
    """How a model scales to zero and back, with the component `ScaleToZero`.

    Raises `ValueError` for a value of the wrong type, and a number below one.
    """

    idle_minutes: int = 15
    """Minutes without requests after which the model stops. A start should take less."""
    cold_requests: ColdRequests = "wait"
    """`wait` holds requests until the model answers; `refuse` answers them with status 503 while it starts."""
    longest_wait_minutes: int = 15
    """Held requests fail with status 504 after this time without a running model, and again without headers of the
    answer, which come at its end without `stream`."""
    scaler: pulumi.Input[str] = f"{SCALER}.{KEDA_NAMESPACE}:{SCALER_PORT}"
    """Address of the add-on's scaler. `ScaleToZero.scaler` also deploys KEDA before the model, and deletes it after."""
    namespace: str = KEDA_NAMESPACE
    """Namespace of the interceptor."""

    def __post_init__(self) -> None:
        check_least(self, idle_minutes=1, longest_wait_minutes=1)


def scaling_objects(id: str, namespace: pulumi.Input[str], scaling: Scaling) -> list[dict[str, Any]]:
    """An InterceptorRoute and a ScaledObject for the model's Deployment and Service, both named `id`.

    Helm creates them in this order, and the ScaledObject needs the route.
    """
    meta = {"name": id, "namespace": namespace}
    return [
        {
            "apiVersion": "http.keda.sh/v1beta1",
            "kind": "InterceptorRoute",
            "metadata": meta,
            "spec": _route(id, scaling),
        },
        {
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "ScaledObject",
            "metadata": meta,
            "spec": _scaled_object(id, scaling),
        },
    ]


def _route(id: str, scaling: Scaling) -> dict[str, Any]:
    wait = f"{scaling.longest_wait_minutes}m"
    host = f"{id}.{scaling.namespace}"
    route: dict[str, Any] = {
        "target": {"service": id, "port": OLLAMA_PORT},
        # The interceptor compares hosts without their port, and knows no search domains.
        "rules": [
            {
                "hosts": [host, f"{host}.svc", f"{host}.svc.cluster.local"],
                "paths": [{"value": path} for path in WORKING_PATHS],
            }
        ],
        # Ollama sends headers with the first token, and without `stream` at the end (server/routes.go). So
        # `responseHeader` covers loading, queueing, and then the whole answer. Its default is five minutes.
        "timeouts": {"readiness": wait, "responseHeader": wait, "request": "0s"},
        "scalingMetric": {"concurrency": {"targetValue": MANY_REQUESTS}},
    }
    if scaling.cold_requests == "refuse":
        response = {
            "statusCode": 503,
            "headers": {"Content-Type": "application/json", "Retry-After": str(RETRY_SECONDS)},
            "body": json.dumps({"error": SLEEPING}),
        }
        route["coldStart"] = {"placeholder": {"response": response}}
        # The scaler looks twice a second. A refused request is over by then, so the rate has to remember it.
        route["scalingMetric"]["requestRate"] = {"targetValue": MANY_REQUESTS, "window": "1m", "granularity": "1s"}
    return route


def _scaled_object(id: str, scaling: Scaling) -> dict[str, Any]:
    seconds = scaling.idle_minutes * 60
    # Without the initial period, a model without any request yet stops at once, also one that `up` has just started.
    return {
        "scaleTargetRef": {"name": id},
        "minReplicaCount": 0,
        "maxReplicaCount": 1,
        "cooldownPeriod": seconds,
        "initialCooldownPeriod": seconds,
        "triggers": [
            {"type": "external-push", "metadata": {"scalerAddress": scaling.scaler, "interceptorRoute": id}},
        ],
    }
