"""Stacks with several pools of GPU nodes: a group for each, each model on its own, one device plugin for all."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from components import OllamaPair, OllamaPairArgs
from components.ollama_pair import OllamaModel
from sandbox.graph import Graph, plain
from sandbox.preview.program import run
from stacks.stack_file.judge import Plan
from tandem.planned.first_token import DISK_MIB_PER_SECOND, DOWNLOAD_MIB_PER_SECOND, first_token
from tests.program.conftest import graph_with, source_of

Graphs = Callable[[str], Graph]
Plans = Callable[[str], Plan]
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"


def group(graph: Graph, pool: str) -> dict[str, Any]:
    return dict(plain(graph.named(f"tandem-{pool}-group").inputs))


def test_each_pool_is_a_node_group_with_a_taint_of_its_own_mode(graphs: Graphs) -> None:
    graph = graphs("pools")
    names = [resource.name for resource in graph.of_type("tandem:index:SpotGpuNodeGroup")]
    assert sorted(names) == ["tandem-rest", "tandem-steady"]
    for pool, config in (("steady", "exclusive"), ("rest", "timeslice-2")):
        assert group(graph, pool)["taints"][1]["value"].startswith(f"{config}-")
    assert len(graph.of_type(NODE_GROUP)) == 3, "and the system nodes"


def test_nodes_are_labelled_with_their_pool_and_its_own_sharing_or_the_stacks(graphs: Graphs) -> None:
    found = {
        pool: group(graphs(stack), pool)["labels"]
        for stack, pools in (("pools", ("steady", "rest")), ("cards", ("gpu", "big")))
        for pool in pools
    }
    assert {pool: labels["tandem/pool"] for pool, labels in found.items()} == {pool: pool for pool in found}
    configs = {
        pool: release(graphs(stack), pool)["config"]
        for stack, pools in (("pools", ("steady", "rest")), ("cards", ("gpu", "big")))
        for pool in pools
    }
    assert {pool: config["default"] for pool, config in configs.items()} == {
        "steady": "exclusive",
        "rest": "timeslice-2",
        "gpu": "timeslice-2",
        "big": "mps-3",
    }
    assert all(list(config["map"]) == [config["default"]] for config in configs.values()), "nothing to choose from"


def release(graph: Graph, pool: str) -> dict[str, Any]:
    """Values of the pool's release of the plugin's chart."""
    inputs = graph.named(f"tandem-sharing-{pool}-plugin").inputs
    assert inputs["name"] == f"nvidia-device-plugin-{pool}"
    assert inputs["values"]["nodeSelector"]["tandem/pool"] == pool
    return dict(inputs["values"])


def test_only_the_pool_with_a_volume_is_bound_to_a_zone(graphs: Graphs) -> None:
    graph = graphs("cards")
    assert (len(group(graph, "big")["subnetIds"]), len(group(graph, "gpu")["subnetIds"])) == (1, 2)
    [subnet] = group(graph, "big")["subnetIds"]
    [home] = [one for one in graph.of_type("aws:ec2/subnet:Subnet") if one.id == subnet]
    [volume] = graph.of_type("aws:ebs/volume:Volume")
    assert volume.name == "tandem-ollama-mistral-7b-volume"
    assert plain(volume.inputs)["availabilityZone"] == plain(home.inputs)["availabilityZone"]
    assert graph.named("tandem-aws-ebs-csi-driver").urn in graph.named("tandem-ollama").dependencies


def test_outputs_tell_how_the_models_of_all_pools_fit(graphs: Graphs) -> None:
    outputs = graphs("cards").stack_outputs
    assert set(outputs["fit"]) == {"mistral-7b", "llama2-7b", "llama3-2-1b"}


def test_a_pool_that_is_put_into_a_list_under_the_name_gpu_stays_what_it_is(graphs: Graphs) -> None:
    source = source_of("timeslice").sections
    models = [{**one, "pool": "gpu"} for one in source["models"]]
    listed = graph_with("timeslice", {"gpu-nodes": [{"name": "gpu", **source["gpu-nodes"]}], "models": models})
    before = graphs("timeslice")
    assert set(listed.resources) == set(before.resources)
    assert [urn for urn in before.resources if before[urn].inputs != listed[urn].inputs] == []


def test_a_model_shares_the_line_with_the_models_of_its_own_pool_alone(graphs: Graphs, plans: Plans) -> None:
    graph, setup = graphs("pools"), plans("pools").setup
    mib = {tenant.served.id: tenant.served.model.weights_bytes / 2**20 for tenant in setup.tenants}
    crowd = replace(setup, tenants=tuple(replace(tenant, pool="rest") for tenant in setup.tenants))
    apart, together = first_token(graph, setup), first_token(graph, crowd)
    last = [estimate.path[-1].urn.rpartition("tandem-ollama-")[2] for estimate in (apart, together)]
    assert last == ["mistral-7b", "llama3-1-8b"], "the largest of those that start last"
    download = mib["llama3-1-8b"] / DOWNLOAD_MIB_PER_SECOND
    load = (mib["llama3-1-8b"] - mib["mistral-7b"]) / DISK_MIB_PER_SECOND
    assert together.minutes - apart.minutes == pytest.approx((download + load) / 60)


def test_the_estimate_waits_for_no_model_of_a_parked_pool(graphs: Graphs, plans: Plans) -> None:
    graph, setup = graphs("pools"), plans("pools").setup
    assert first_token(graph, setup).path[-1].urn.endswith("tandem-ollama-mistral-7b")
    steady, rest = setup.pools
    parked = replace(setup, pools=(steady, replace(rest, desired=0)))
    assert first_token(graph, parked).path[-1].urn.endswith("tandem-ollama-llama3-1-8b")
    none = replace(setup, pools=(replace(steady, desired=0), replace(rest, desired=0)))
    assert first_token(graph, none).minutes < first_token(graph, parked).minutes - 3, "nothing is downloaded"


def test_a_model_asks_for_one_of_what_its_nodes_offer() -> None:
    pair = [
        OllamaModel("llama2:7b", id="one", resource_name="nvidia.com/mig-1g.5gb", pool="slices"),
        OllamaModel("llama2:7b", id="two"),
    ]
    graph = run(lambda: OllamaPair("theirs", OllamaPairArgs(models=pair)), project="test", stack="test")
    values = {id: plain(graph.named(f"theirs-{id}").inputs)["values"] for id in ("one", "two")}
    asked = {id: (value["ollama"]["gpu"]["nvidiaResource"], value["nodeSelector"]) for id, value in values.items()}
    assert asked == {
        "one": ("nvidia.com/mig-1g.5gb", {"tandem/pool": "slices"}),
        "two": ("nvidia.com/gpu", {"tandem/pool": "gpu"}),
    }
