"""ScaleToZero: what KEDA, its add-on and a model's release get, by the sources of their versions."""

import json
from typing import Any

import pytest

from components import OllamaModel, OllamaPair, OllamaPairArgs, ScaleToZero, ScaleToZeroArgs, Scaling
from components.scaling import scaling_objects
from sandbox.graph import Graph, plain
from sandbox.preview.program import run

RELEASE = "kubernetes:helm.sh/v3:Release"


def route_of(**settings: Any) -> dict[str, Any]:
    route: dict[str, Any] = scaling_objects("llama2-7b", "ollama", Scaling(**settings))[0]["spec"]
    return route


def pair(scaling: Scaling | None, **settings: Any) -> dict[str, Any]:
    """Values of a model's release."""
    model = OllamaModel("llama2:7b", context=2048, scaling=scaling, **settings)
    graph = run(lambda: OllamaPair("models", OllamaPairArgs(models=[model])), project="test", stack="test")
    return values(graph, "ollama")


def values(graph: Graph, chart: str) -> dict[str, Any]:
    [found] = [one for one in graph.of_type(RELEASE) if plain(one.inputs)["chart"] == chart]
    return dict(plain(found.inputs)["values"])


@pytest.mark.real_world(
    behaviour="A route takes any path below those that it names, and each path below `/v1` counts as a request",
    source="http-add-on v0.15.0 pkg/routing/key.go and pkg/routing/tablememory.go; ollama v0.32.15 server/routes.go",
)
def test_paths_that_programs_poll_do_not_wake_a_model() -> None:
    [rule] = route_of()["rules"]
    paths = [one["value"] for one in rule["paths"]]

    def is_routed(asked: str) -> bool:
        return any(f"{asked}/".startswith(f"{path}/") for path in paths)

    for path in ("/api/generate", "/api/chat", "/api/embed", "/v1/chat/completions", "/v1/completions"):
        assert is_routed(path), path
    for path in ("/", "/api/tags", "/api/version", "/api/ps", "/api/show", "/v1/models", "/v1/models/a", "/api/delete"):
        assert not is_routed(path), path


@pytest.mark.real_world(
    behaviour="The interceptor compares the host of a request, without its port, with whole names",
    source="http-add-on v0.15.0 pkg/routing/table.go, Route, and pkg/routing/key.go, stripPort",
)
def test_every_name_of_the_service_in_the_cluster_leads_to_the_model() -> None:
    [rule] = route_of(namespace="mine")["rules"]
    assert rule["hosts"] == ["llama2-7b.mine", "llama2-7b.mine.svc", "llama2-7b.mine.svc.cluster.local"]


@pytest.mark.real_world(
    behaviour="The interceptor waits five minutes for headers unless a route says otherwise, and for ever for a pod; "
    "Ollama sends headers with the first token, and without `stream` at the end of the answer",
    source="http-add-on v0.15.0 interceptor/config/timeouts.go; ollama v0.32.15 server/routes.go, streamResponse and "
    "GenerateHandler",
)
def test_a_held_request_waits_for_node_and_model() -> None:
    route = route_of(longest_wait_minutes=40)
    assert route["timeouts"] == {"readiness": "40m", "responseHeader": "40m", "request": "0s"}
    assert "coldStart" not in route
    assert route["scalingMetric"] == {"concurrency": {"targetValue": 1000}}


@pytest.mark.real_world(
    behaviour="The scaler asks for waiting requests twice a second: only a rate counts those that end at once",
    source="http-add-on v0.15.0 scaler/queue_pinger.go and interceptor/middleware/placeholder.go",
)
def test_a_refused_request_counts_although_it_ends_at_once() -> None:
    route = route_of(cold_requests="refuse")
    response = route["coldStart"]["placeholder"]["response"]
    assert response["statusCode"] == 503
    assert response["headers"] == {"Content-Type": "application/json", "Retry-After": "60"}
    assert "starting" in json.loads(response["body"])["error"]
    assert {**route["scalingMetric"]["requestRate"]} == {"targetValue": 1000, "window": "1m", "granularity": "1s"}


def test_the_objects_come_and_go_with_the_number_of_pods() -> None:
    """If a ScaledObject outlived the upgrade that sets one pod, KEDA would set none while Helm waits for it."""
    on, off = pair(Scaling()), pair(None)
    assert (on["replicaCount"], off["replicaCount"]) == (0, 1)
    assert [one["kind"] for one in on["extraObjects"]] == ["InterceptorRoute", "ScaledObject"]
    assert "extraObjects" not in off
    assert {key for key in on if on[key] != off.get(key)} == {"replicaCount", "extraObjects"}


@pytest.mark.real_world(
    behaviour="KEDA counts the idle time in seconds, and a new object has another one of its own",
    source="keda.sh/docs/2.20/reference/scaledobject-spec, cooldownPeriod and initialCooldownPeriod",
)
def test_a_model_stops_after_its_idle_time() -> None:
    [_, scaled] = pair(Scaling(idle_minutes=25))["extraObjects"]
    scaled["spec"].pop("triggers")
    assert scaled["spec"] == {
        "scaleTargetRef": {"name": "llama2-7b"},
        "minReplicaCount": 0,
        "maxReplicaCount": 1,
        "cooldownPeriod": 1500,
        "initialCooldownPeriod": 1500,
    }


def test_a_parked_model_has_no_objects() -> None:
    assert "extraObjects" not in pair(Scaling(), running=False)


def test_models_depend_on_the_add_on_and_the_add_on_on_keda() -> None:
    """In the other order, nothing would remove the finalizers of ScaledObjects, and `destroy` would hang."""

    def program() -> None:
        zero = ScaleToZero("zero", ScaleToZeroArgs(models=["llama2-7b"]))
        model = OllamaModel("llama2:7b", context=2048, scaling=Scaling(scaler=zero.scaler))
        OllamaPair("models", OllamaPairArgs(models=[model]))

    graph = run(program, project="test", stack="test")
    keda, add_on = graph.named("zero-keda", RELEASE), graph.named("zero-add-on", RELEASE)
    assert keda.urn in add_on.dependencies
    assert add_on.urn in graph.named("models-llama2-7b", RELEASE).dependencies


@pytest.mark.real_world(
    behaviour="With vpc-cni's policies, a Service and its container need the same port number",
    source="EKS User Guide, cni-network-policy",
)
def test_each_model_has_a_service_on_the_port_of_the_interceptor() -> None:
    args = ScaleToZeroArgs(models=["llama2-7b"])
    graph = run(lambda: ScaleToZero("zero", args), project="test", stack="test")
    [port] = plain(graph.named("zero-llama2-7b", "kubernetes:core/v1:Service").inputs)["spec"]["ports"]
    proxy = values(graph, "keda-add-ons-http")["interceptor"]["proxy"]["port"]
    assert (port["port"], port["targetPort"], proxy) == (11434, 11434, 11434)
