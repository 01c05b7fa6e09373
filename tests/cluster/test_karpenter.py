"""Karpenter's own core brings the nodes that our pools expect, no more and no fewer, and takes empty ones away."""

from typing import Any

import pulumi
import pytest

from components import OllamaPair, OllamaPairArgs
from components.mps_daemon import CLAIM, claim_directory
from components.ollama_pair import OllamaModel
from sandbox.preview.program import run
from sharing.models.share import Share
from sharing.names import GPU_TAINT, tolerations
from tests.cluster.charts import objects_of
from tests.cluster.deployment import is_ready, releases
from tests.cluster.deployment import manifests as of_graph
from tests.cluster.karpenter import POOLS, Pools, manifests
from tests.control_plane.karpenter import Karpenter
from tests.control_plane.karpenter_types import for_sale

QUARTERS = POOLS["timeslice-4"]
PER_MODEL = POOLS["mps-2-per-model"]


@pytest.mark.parametrize("name", POOLS)
def test_our_objects_are_accepted_under_awss_own_rules(karpenter_at_work: Karpenter, name: str) -> None:
    node_class, *_ = [karpenter_at_work.plane.api.apply(one, dry_run=True) for one in manifests(POOLS[name])]
    assert ("tandem-mps.service" in node_class["spec"].get("userData", "")) == (name == "mps-2-per-model")


def test_pods_that_fill_a_node_get_one_node_that_has_what_was_expected(pools: Pools) -> None:
    made = {name: pools.make(pool) for name, pool in POOLS.items()}
    for pool in made.values():
        pools.ask(pool, pool.shares)
    pools.wait_until_placed()
    assert {name: pools.nodes(pool) for name, pool in made.items()} == dict.fromkeys(POOLS, 1)
    expected = {name: pools.expected(pool) for name, pool in made.items()}
    assert expected == {name: [pool.shares] for name, pool in POOLS.items()}


def test_seventeen_pods_at_once_get_as_few_nodes_as_their_shares_allow(pools: Pools) -> None:
    expected = {"timeslice-4": 5, "timeslice-4-on-4-gpus": 2, "mig-mixed": 9}
    made = {name: pools.make(POOLS[name]) for name in expected}
    for pool in made.values():
        pools.ask(pool, 17)
    pools.wait_until_placed()
    assert {name: pools.nodes(pool) for name, pool in made.items()} == expected


@pytest.mark.parametrize("name", ["timeslice-4", "timeslice-4-on-4-gpus", "mps-2-per-model"])
def test_the_proof_of_shares_brings_one_node_and_the_models_need_no_other(pools: Pools, name: str) -> None:
    pool = pools.make(POOLS[name])
    pools.prove(pool)
    assert pools.nodes(pool) == 1
    pools.ask(pool, pool.shares)
    pools.wait_until_placed()
    assert pools.nodes(pool) == 1


def test_two_models_of_different_limits_get_one_node_which_is_marked_as_one_with_an_mps_daemon(pools: Pools) -> None:
    pool = pools.make(PER_MODEL)
    models = [
        OllamaModel("qwen2.5:14b", id="large", pool=pool.name, share=Share(memory_gib=9.5)),
        OllamaModel("llama3.2:3b", id="small", pool=pool.name, share=Share(memory_gib=3, compute_percent=50)),
    ]
    graph = run(lambda: OllamaPair("pair", OllamaPairArgs(models=models)), project="test", stack="test")
    for one in (*of_graph(graph), *(one for release in releases(graph, "ollama") for one in objects_of(release))):
        pools.api.apply(one)

    def running() -> list[dict[str, Any]]:
        pods = pools.api.list("v1", "Pod", "ollama")
        return pods if len(pods) == 2 and all(map(is_ready, pods)) else []

    [name] = {pod["spec"]["nodeName"] for pod in pools.wait_for("both models ran", running)}
    assert pools.nodes(pool) == 1
    node = pools.api.get("v1", "Node", name)
    assert node is not None
    assert node["metadata"]["labels"]["tandem/mps"] == "per-model"
    assert {"key": "tandem/mode", "value": "mps-2-per-model", "effect": "NoExecute"} in node["spec"]["taints"]


@pytest.mark.real_world(
    behaviour="Karpenter adds no node for a pod whose claim has no PersistentVolume yet, and one once it is bound",
    source="karpenter v1.14.1 pkg/controllers/provisioning/scheduling/volumetopology.go; its core was run",
)
def test_a_pod_gets_a_node_once_its_claim_on_the_daemons_directory_is_bound(pools: Pools) -> None:
    pool = pools.make(PER_MODEL)
    graph = run(lambda: claim_directory("test", "default", pulumi.ResourceOptions()), project="test", stack="test")
    volume, claim = of_graph(graph)
    pools.api.apply(claim)
    pools.apply_pod(
        "model",
        nodeSelector={"tandem/pool": pool.name, "tandem/mps": "per-model"},
        resources={"limits": {pool.asked: "1"}},
        tolerations=tolerations(pool.sharing.config_name),
        volumes=[{"name": CLAIM, "persistentVolumeClaim": {"claimName": CLAIM}}],
    )
    assert 'PersistentVolume "default-mps-daemon" not found' in pools.wait_until_karpenter_refuses("model")
    assert pools.nodes(pool) == 0
    pools.api.apply(volume)
    pools.wait_until_placed()
    assert pools.nodes(pool) == 1


def test_a_pod_that_wants_no_gpu_brings_no_node(pools: Pools) -> None:
    quarters = pools.make(QUARTERS)
    pools.apply_pod("plain")
    assert GPU_TAINT in pools.wait_until_karpenter_refuses("plain")
    assert pools.nodes(quarters) == 0


@pytest.mark.real_world(
    behaviour="Within one batch of pods Karpenter's `limits.nodes` stops nothing; a limit of shares does",
    source="kubernetes-sigs/karpenter v1.14.1, scheduling/scheduler.go `subtractMax`; its core was run",
)
@pytest.mark.parametrize("name", POOLS)
def test_seventeen_pods_at_once_bring_no_more_nodes_than_the_limit(pools: Pools, name: str) -> None:
    pool = pools.make(POOLS[name], max_nodes=2)
    names = pools.ask(pool, 17)
    fit = min(2 * pool.shares, 17)
    pools.wait_for(f"{fit} pods had a node", lambda: len(pools.waiting(names)) <= 17 - fit)
    waiting = pools.waiting(names)
    assert pools.nodes(pool) <= 2
    if waiting:
        assert "limit" in pools.wait_until_karpenter_refuses(waiting[0])
    for name in waiting:
        pools.delete_pod(name)
    pools.wait_until_placed()
    assert (pools.nodes(pool), len(waiting)) == (2, 17 - fit)


def test_a_drifted_node_at_the_limit_is_replaced(pools: Pools) -> None:
    def label(manifest: dict[str, Any]) -> None:
        if manifest["kind"] == "NodePool":
            manifest["spec"]["template"]["metadata"]["labels"]["test/drifted"] = "true"

    quarters = pools.make(QUARTERS, max_nodes=1)
    pools.ask(quarters, quarters.shares)
    pools.wait_until_placed()
    [before] = pools.claims(quarters)
    pools.change(quarters, label, max_nodes=1)
    pools.wait_for(
        "another node had replaced it",
        lambda: (
            [one["metadata"]["name"] for one in pools.claims(quarters)] not in ([], [before["metadata"]["name"]])
            and len(pools.claims(quarters)) == 1
        ),
    )


def test_a_node_is_not_complete_until_the_plugin_offers_shares(pools: Pools) -> None:
    pools.plugin_works = False
    quarters = pools.make(QUARTERS)
    pools.ask(quarters, 1)

    def reasons() -> list[str]:
        return [
            condition["reason"]
            for claim in pools.claims(quarters)
            for condition in claim.get("status", {}).get("conditions", [])
            if condition["type"] == "Initialized"
        ]

    pools.wait_for("the node missed its shares", lambda: reasons() == ["ResourceNotRegistered"])
    pools.plugin_works = True
    pools.wait_until_placed()
    assert pools.nodes(quarters) == 1


def test_spot_comes_first_then_another_type_on_spot_then_on_demand(pools: Pools) -> None:
    first, second = QUARTERS.types
    bought = []
    for withdrawn in ([], [first], [one["name"] for one in for_sale()]):
        pools.karpenter.sell(for_sale(without_spot=withdrawn))
        quarters = pools.make(QUARTERS)
        pools.ask(quarters, 2)
        pools.wait_until_placed()
        bought += pools.bought(quarters)
        pools.clear()
    pools.karpenter.sell(for_sale())
    assert bought == [("spot", first), ("spot", second), ("on-demand", first)]


def test_an_empty_node_goes_and_one_with_a_model_stays(pools: Pools) -> None:
    def hurry(manifest: dict[str, Any]) -> None:
        if manifest["kind"] == "NodePool":
            manifest["spec"]["disruption"]["consolidateAfter"] = "1s"

    quarters = pools.make(QUARTERS, hurry)
    names = pools.ask(quarters, quarters.shares + 1)
    pools.wait_until_placed()
    assert pools.nodes(quarters) == 2
    places = {name: pools.place_of(name) for name in names}
    stays = places[names[0]]
    for name, place in places.items():
        if place != stays:
            pools.delete_pod(name)
    pools.wait_for("one node was left", lambda: pools.nodes(quarters) == 1)
    [left] = pools.claims(quarters)
    assert left["status"]["nodeName"] == stays
    assert all(map(is_ready, pools.api.list("v1", "Pod", "default")))
