"""What `choose`, `modes` and `init` take from a stack file, and what they write into one."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tandem.search import base_stack
from tandem.search.base_stack import BaseStack, Values, models_of
from tests.descriptions import write_description
from tests.sharing.builders import TODAY, setup, tenants

HOUR, MONTH = "max-usd-per-hour", "max-usd-per-month"


@pytest.fixture
def read(tmp_path: Path) -> Any:
    def of_file(limits: Values, **sections: Any) -> BaseStack:
        keys = {"sharing": {"mode": "exclusive"}, "models": [{"name": "llama2:7b"}], **sections}
        config = {"aws:region": "us-east-1", **{f"tandem:{key}": value for key, value in keys.items()}}
        file = tmp_path / "Pulumi.x.yaml"
        file.write_text(yaml.safe_dump({"config": config}))
        return base_stack.of_file(file, {}, None, limits, TODAY)

    return of_file


def test_of_the_nodes_of_a_file_only_their_provisioner_is_kept(read: Any) -> None:
    nodes = {"provisioner": "karpenter", "on-demand-fallback": True, "check-offers": False}
    [pool] = read({}, **{"gpu-nodes": nodes}).config.pools
    assert (pool.provisioner, pool.on_demand_fallback, pool.check_offers) == ("karpenter", False, True)


def test_a_list_of_pools_becomes_one_pool(read: Any) -> None:
    pools = [{"name": "a", "capacity": "on-demand"}, {"name": "b"}]
    base = read({}, **{"gpu-nodes": pools, "models": [{"name": "llama2:7b", "pool": "b"}]})
    [pool] = base.config.pools
    assert (pool.name, pool.listed, base.sections["models"]) == ("gpu", False, [{"name": "llama2:7b"}])


def test_a_description_is_found_beside_the_file(read: Any, tmp_path: Path) -> None:
    base = read({}, models=[{"name": "mine", "gguf": write_description(tmp_path)}])
    assert [served.model.name for served in base.config.models] == ["mine:latest"]


def test_a_limit_of_the_call_replaces_both_of_the_file(read: Any) -> None:
    alert = {"alert": {"max-usd": 900, "emails": ["ops@example.com"]}}
    budget = {"budget": {HOUR: 3, MONTH: 900, **alert}}
    assert read({}, **budget).sections["budget"] == budget["budget"]
    assert read({MONTH: 500}, **budget).sections["budget"] == {MONTH: 500, **alert}
    assert read({HOUR: 2}, **budget).sections["budget"] == {HOUR: 2, **alert}


def test_a_chosen_pool_is_written_without_what_is_a_default(read: Any) -> None:
    base = read({})
    [pool] = base.config.pools
    usual = {"instance-types": ["g4dn.xlarge"], "capacity": "spot", "desired": 1, "max": 1}
    own = {"volume-gib": 300, "replacement": "delete-first"}
    karpenter = {"provisioner": "karpenter", **{key: usual[key] for key in usual if key != "desired"}}
    for changes, nodes in (
        ({}, usual),
        ({"volume_gib": 300, "replacement": "delete-first"}, {**usual, **own}),
        ({"provisioner": "karpenter"}, karpenter),
    ):
        made = pool.changed(instance_types=["g4dn.xlarge"], capacity="spot", desired=1, max=1, **changes)
        assert base.sections_of(base.config.with_pool(made))["gpu-nodes"] == nodes


@pytest.mark.parametrize(
    ("models", "said"),
    [
        ((), "0 models"),
        (("llama2:7b", "qwen3:8b", "mistral:7b"), "llama2:7b, qwen3:8b and mistral:7b"),
        (("llama2:7b",) * 4, "4 models"),
    ],
)
def test_the_sentence_names_as_many_models_as_have_room(models: tuple[str, ...], said: str) -> None:
    assert models_of(setup(models=tenants(*models))) == said
