"""Models on several pools: the real scheduler and Karpenter's core choose the first pool with room, and pack nodes."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from components import OllamaPair, OllamaPairArgs
from components.ollama_pair import OllamaModel
from components.ollama_pair.placement import Nodes, Place
from components.ollama_pair.values import choose_nodes
from sandbox.preview.program import run
from sharing.models.importance import Importance
from tests.cluster.deployment import SECONDS, Deployment, Graphs, Object, instance_of, is_ready, manifests, releases
from tests.cluster.karpenter import POOLS, Pool, Pools
from tests.cluster.nodes import nodes
from tests.cluster.test_importance import apply, pair
from tests.cluster.test_placement import GPU_NODE, NO_SHARE_LEFT
from tests.control_plane.karpenter_types import for_sale

STEADY, REST = "tandem-steady-group-0", "tandem-rest-group-0"
HOMES = {"llama2-7b": STEADY, "mistral-7b": REST, "llama3-2-1b": REST}
"""Of the stack `placed`: the first model is of high importance, the last of low importance."""
HALVES = POOLS["timeslice-2"]


@pytest.fixture
def placed(cluster: Deployment, graphs: Graphs) -> Deployment:
    """The stack with all models on their own pools, of two shares each."""
    cluster.deploy(graphs("placed"))
    cluster.wait_for(f"models ran on {HOMES}", lambda: cluster.models() == HOMES)
    return cluster


def identity(cluster: Deployment, id: str) -> str:
    return next(str(one["metadata"]["uid"]) for one in cluster.pods("ollama") if instance_of(one) == id)


def lose(cluster: Deployment, node: str) -> None:
    """A spot interruption as EKS handles it for a node group: no new pods, every pod is evicted, the node disappears.

    https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html, Spot
    """
    cluster.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})

    def there() -> list[Object]:
        return cluster.api.list("v1", "Pod", "ollama", fieldSelector=f"spec.nodeName={node}")

    for pod in there():
        name = pod["metadata"]["name"]
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "ollama"}}
        cluster.api.call("POST", f"/api/v1/namespaces/ollama/pods/{name}/eviction", eviction)
    cluster.wait_for(f"{node} was drained", lambda: not there())
    cluster.api.call("DELETE", f"/api/v1/nodes/{node}")


def wait_until_on(cluster: Deployment, expected: dict[str, str]) -> None:
    """Waits until these models run on these nodes, for a minute longer than usual.

    On a busy machine, the scheduler places a last pod on a node that disappears. That pod counts until it is deleted.
    """
    cluster.plane.wait_for(f"models ran on {expected}", lambda: cluster.models() == expected, 3 * SECONDS)


def test_when_the_spot_node_is_lost_high_stays_low_spills_and_the_model_without_spill_waits(placed: Deployment) -> None:
    before = identity(placed, "llama2-7b")
    lose(placed, REST)
    wait_until_on(placed, {"llama2-7b": STEADY, "llama3-2-1b": STEADY})
    placed.wait_until_refused("mistral-7b", "didn't match Pod's node affinity/selector")
    assert identity(placed, "llama2-7b") == before


def test_when_the_on_demand_node_is_lost_high_takes_the_share_of_low_on_spot(placed: Deployment) -> None:
    before = identity(placed, "mistral-7b")
    lose(placed, STEADY)
    wait_until_on(placed, {"llama2-7b": REST, "mistral-7b": REST})
    placed.wait_until_refused("llama3-2-1b", NO_SHARE_LEFT)
    assert identity(placed, "mistral-7b") == before


def test_a_waiting_model_starts_on_the_first_pool_that_has_room_again(placed: Deployment, graphs: Graphs) -> None:
    [back] = [one for one in nodes(graphs("placed")) if one["metadata"]["name"] == STEADY]
    lose(placed, STEADY)
    placed.wait_for_models("llama2-7b", "mistral-7b")
    placed.join(back)
    # The model that has spilled keeps its share; the other one finds room on the pool to which it may spill.
    wait_until_on(placed, {"llama2-7b": REST, "mistral-7b": REST, "llama3-2-1b": STEADY})


@pytest.mark.real_world(
    behaviour="The default scheduler spreads pods over the nodes with free shares",
    source="kubernetes v1.36 pkg/scheduler/framework/plugins/noderesources, LeastAllocated; it was run",
)
@pytest.mark.parametrize(("packed", "expected"), [(True, GPU_NODE), (False, "tandem-gpu-group-1")])
def test_only_a_packed_model_prefers_the_node_that_is_in_use(
    cluster: Deployment, graphs: Graphs, packed: bool, expected: str
) -> None:
    models = [OllamaModel("llama2:7b", id=id, packed=packed) for id in ("one", "two")]
    graph = run(lambda: OllamaPair("pair", OllamaPairArgs(models=models)), project="test", stack="test")
    first, second = [one for one in nodes(graphs("timeslice"), desired=2) if "gpu-group" in one["metadata"]["name"]]
    apply(cluster, graph)
    one, two = releases(graph, "ollama")
    cluster.join(first)
    cluster.install(one)
    assert cluster.wait_for_models("one") == {"one": GPU_NODE}
    cluster.join(second)
    cluster.wait_for_nodes("tandem-gpu-group-1")
    cluster.install(two)
    assert cluster.wait_for_models("one", "two")["two"] == expected


def only_buy(capacity: str) -> Any:
    def change(manifest: dict[str, Any]) -> None:
        if manifest["kind"] == "NodePool":
            for one in manifest["spec"]["template"]["spec"]["requirements"]:
                if one["key"] == "karpenter.sh/capacity-type":
                    one["values"] = [capacity]

    return change


def choose(home: Pool, *others: Pool, packed: bool = False) -> dict[str, Any]:
    """The part of a pod's spec with which our component chooses the nodes of a model."""
    own, *spill = [Nodes(pool=pool.name, mode_taint=pool.sharing.config_name) for pool in (home, *others)]
    return choose_nodes(OllamaModel("llama2:7b", packed=packed), Place(home=own, spill=spill))


def ask(pools: Pools, name: str, home: Pool, *others: Pool, packed: bool = False) -> None:
    """A pod that requests a share, on the nodes that our component chooses for a model."""
    chosen = choose(home, *others, packed=packed)
    labels = chosen.pop("podLabels", {})
    pools.apply_pod(name, resources={"limits": {home.asked: "1"}}, labels=labels, **chosen)


def serve(pools: Pools, importance: Importance, home: Pool, *others: Pool) -> None:
    """A Deployment of such a pod, which has the importance as its name."""
    graph = pair(one=importance)
    [ranked] = [one for one in manifests(graph) if one["kind"] == "PriorityClass"]
    pools.api.apply(ranked)
    labels = {"importance": importance}
    container = {"name": "main", "image": "pause", "resources": {"limits": {home.asked: "1"}}}
    spec = {
        **choose(home, *others),
        "containers": [container],
        "priorityClassName": ranked["metadata"]["name"],
        "terminationGracePeriodSeconds": 0,
    }
    deployed = {
        "selector": {"matchLabels": labels},
        "strategy": {"type": "Recreate"},
        "template": {"metadata": {"labels": labels}, "spec": spec},
    }
    metadata = {"name": importance, "namespace": "default"}
    pools.api.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": deployed})
    pools.wait_for(f"{importance} ran", lambda: importance in served(pools))


def served(pools: Pools) -> dict[str, str]:
    """The node of each model that runs, by its importance."""
    return {
        one["metadata"]["labels"]["importance"]: one["spec"]["nodeName"]
        for one in pools.api.list("v1", "Pod", "default", labelSelector="importance")
        if is_ready(one) and "deletionTimestamp" not in one["metadata"]
    }


@pytest.fixture
def sell_no_spot(pools: Pools) -> Iterator[Callable[[], None]]:
    yield lambda: pools.karpenter.sell(for_sale(without_spot=[one["name"] for one in for_sale()]))
    pools.karpenter.sell(for_sale())


def test_an_important_model_takes_a_share_at_once_and_karpenter_starts_a_node_for_the_other_one(pools: Pools) -> None:
    halves = pools.make(HALVES)
    serve(pools, "normal", halves)
    serve(pools, "low", halves)
    [node] = set(served(pools).values())
    serve(pools, "high", halves)
    pools.wait_for("all models ran", lambda: len(served(pools)) == 3)
    places = served(pools)
    assert (places["high"], places["normal"], pools.nodes(halves)) == (node, node, 2)
    assert places["low"] != node


@pytest.mark.parametrize(("own", "other"), [("spot", "on-demand"), ("on-demand", "spot")])
def test_karpenter_starts_a_node_of_the_models_own_pool_while_it_can(pools: Pools, own: str, other: str) -> None:
    home, spill = pools.make(HALVES, only_buy(own)), pools.make(HALVES, only_buy(other))
    ask(pools, "model", home, spill)
    pools.wait_until_placed()
    assert (pools.nodes(home), pools.nodes(spill)) == (1, 0)


def test_without_spot_capacity_karpenter_starts_an_on_demand_node_for_the_model_that_may_spill(
    pools: Pools, sell_no_spot: Callable[[], None]
) -> None:
    sell_no_spot()
    spot, steady = pools.make(HALVES, only_buy("spot")), pools.make(HALVES, only_buy("on-demand"))
    ask(pools, "spills", spot, steady)
    ask(pools, "stays", spot)
    pools.wait_for("a pod ran", lambda: pools.waiting(["spills", "stays"]) == ["stays"])
    assert [capacity for capacity, _ in pools.bought(steady)] == ["on-demand"]
    pools.wait_until_karpenter_refuses("stays")
    assert pools.nodes(spot) == 0
    pools.delete_pod("stays")


def test_a_full_pool_spills_and_each_model_fills_its_own_pool_first(pools: Pools) -> None:
    one, two = pools.make(HALVES, max_nodes=1), pools.make(HALVES, max_nodes=1)
    names = [f"model-{index}" for index in range(3)]
    for name in names:
        ask(pools, name, one, two)
        pools.wait_until_placed()
    [own], [other] = pools.claims(one), pools.claims(two)
    places = [pools.place_of(name) for name in names]
    assert places == [own["status"]["nodeName"]] * 2 + [other["status"]["nodeName"]]


def test_packed_models_fill_the_node_that_is_in_use(pools: Pools) -> None:
    halves = pools.make(HALVES, only_buy("on-demand"))
    for name in ("one", "two", "three"):
        ask(pools, name, halves, packed=True)
        pools.wait_until_placed()
    full, other = pools.place_of("one"), pools.place_of("three")
    assert (pools.place_of("two"), pools.nodes(halves)) == (full, 2)
    pools.delete_pod("one")
    pools.delete_pod("three")
    ask(pools, "four", halves, packed=True)
    pools.wait_until_placed()
    assert pools.place_of("four") == full != other
