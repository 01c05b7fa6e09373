"""KEDA wakes a model for a request and puts it back to sleep; Karpenter's core brings and removes its node.

KEDA's operator and its HTTP add-on are the real programs of the pinned versions.
"""

import json

import pytest

from tests.cluster.deployment import manifests, releases
from tests.cluster.karpenter import Pool
from tests.program.conftest import graph_of
from tests.scale.sleeping import ALPHA, MODELS, WORK, Sleepers

COLD = "X-Keda-Http-Cold-Start"
"""The add-on's header of an answer; its value says whether the model slept (pkg/http/headers.go)."""


def test_a_request_brings_the_node_and_is_answered_once_the_model_is_ready_and_both_go_again(
    sleepers: Sleepers, halves: Pool
) -> None:
    pools = sleepers.pools
    model = sleepers.make(halves)
    assert (sleepers.replicas(model), pools.nodes(halves)) == (0, 0)
    pools.plugin_works = False
    answer = sleepers.ask(model)
    pools.wait_for("Karpenter brought a node", lambda: pools.nodes(halves) == 1)
    assert sleepers.replicas(model) == 1
    assert not answer.done()
    assert sleepers.server.got == []
    pools.plugin_works = True
    pools.wait_for("the request was answered", answer.done)
    assert answer.result().status == 200
    assert answer.result().headers[COLD] == "true"
    assert sleepers.server.got == [(f"{model}.keda:11434", "/api/chat")]
    assert pools.expected(halves) == [2]
    pools.wait_for("the model slept", lambda: sleepers.replicas(model) == 0)
    pools.wait_for("no node was left", lambda: pools.nodes(halves) == 0)


def test_two_models_of_a_gpu_wake_on_one_node(sleepers: Sleepers, halves: Pool) -> None:
    pools = sleepers.pools
    sleepers.server.hold.clear()
    models = [sleepers.make(halves) for _ in range(2)]
    answers = [sleepers.ask(model) for model in models]
    pools.wait_for("both models got their request", lambda: len(sleepers.server.got) == 2)
    assert pools.nodes(halves) == 1
    sleepers.server.hold.set()
    pools.wait_for("both were answered", lambda: all(answer.done() for answer in answers))


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/"), ("GET", "/api/tags"), ("GET", "/api/version"), ("GET", "/api/ps"), ("GET", "/v1/models")],
)
def test_what_pollers_ask_is_refused_and_not_counted(sleepers: Sleepers, halves: Pool, method: str, path: str) -> None:
    model = sleepers.make(halves)
    assert sleepers.ask(model, path, method).result().status == 404
    assert sleepers.keda.counts()[f"{MODELS}/{model}"] == {"Concurrency": 0, "RequestCount": 0}
    assert sleepers.replicas(model) == 0


def test_every_path_that_means_work_is_counted(sleepers: Sleepers, halves: Pool) -> None:
    model = sleepers.make(halves)
    sleepers.server.hold.clear()
    answers = [sleepers.ask(model, path) for path in WORK]

    def counted() -> bool:
        return sleepers.keda.counts()[f"{MODELS}/{model}"]["Concurrency"] == len(WORK)

    sleepers.pools.wait_for("all were counted", counted)
    sleepers.server.hold.set()
    sleepers.pools.wait_for("all were answered", lambda: all(answer.done() for answer in answers))
    assert {answer.result().status for answer in answers} == {200}


def test_a_request_that_takes_longer_than_the_cooldown_keeps_the_model_awake(sleepers: Sleepers, halves: Pool) -> None:
    pools, cooldown = sleepers.pools, 2
    sleepers.server.hold.clear()
    model = sleepers.make(halves, cooldown=cooldown)
    answer = sleepers.ask(model)
    pools.wait_for("the model got the request", lambda: sleepers.server.got)
    began = sleepers.last_active(model)
    pools.wait_for("KEDA saw it for longer", lambda: sleepers.last_active(model) > began + 3 * cooldown)
    assert sleepers.replicas(model) == 1
    assert not answer.done()
    sleepers.server.hold.set()
    pools.wait_for("the request was answered", answer.done)
    assert answer.result().status == 200
    pools.wait_for("the model slept", lambda: sleepers.replicas(model) == 0)


def test_instead_of_waiting_a_caller_can_be_sent_away_and_wakes_the_model_all_the_same(
    sleepers: Sleepers, halves: Pool
) -> None:
    pools = sleepers.pools
    model = sleepers.make(halves, cold_requests="refuse")
    # The scaler counts a route's requests from its second look on (scaler/queue_pinger.go). It has looked once it
    # reports a later route.
    later = sleepers.ask(sleepers.make(halves))
    pools.wait_for("a model of a later route answered", later.done)
    first = sleepers.ask(model).result()
    assert (first.status, first.headers["Retry-After"]) == (503, "60")
    assert json.loads(first.text)["error"]
    pools.wait_for("the model was ready", lambda: sleepers.ready(model))
    second = sleepers.ask(model).result()
    assert (second.status, second.text) == (200, "hi")


def test_a_deleted_scaled_object_waits_for_keda(sleepers: Sleepers, halves: Pool) -> None:
    """So whatever KEDA has to let go must be deleted before KEDA."""
    model = sleepers.make(halves)
    sleepers.keda.stop_operator()
    path = f"{sleepers.api.collection(ALPHA, 'ScaledObject', MODELS)}/{model}"
    sleepers.api.call("DELETE", path)
    left = sleepers.scaled(model)["metadata"]
    assert left["deletionTimestamp"]
    assert left["finalizers"] == ["finalizer.keda.sh"]
    sleepers.keda.start_operator()
    sleepers.pools.wait_for("KEDA let it go", lambda: not sleepers.api.get(ALPHA, "ScaledObject", model, MODELS))


@pytest.mark.parametrize("name", ["karpenter-idle", "karpenter-refusing"])
def test_the_server_accepts_every_object_of_a_stack_whose_models_sleep(sleepers: Sleepers, name: str) -> None:
    graph = graph_of(name)
    made = manifests(graph)
    for namespace in {one["metadata"].get("namespace", "default") for one in made}:
        sleepers.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    extra = [one for release in releases(graph, "ollama") for one in release["values"]["extraObjects"]]
    assert sorted(one["kind"] for one in extra) == ["InterceptorRoute"] * 2 + ["ScaledObject"] * 2
    for one in [*made, *extra]:
        sleepers.api.apply(one, dry_run=True)
