"""How often AWS reclaims spot instances: the kept copy of its Spot Advisor."""

import pytest

from sharing import tables
from sharing.artifacts import images_mib
from sharing.hardware.gpus import instance_types
from sharing.hardware.spot_risk import SpotRisk, reclaimed_part, spot_risks
from sharing.sections.startup import after_a_reclaim, cold_start
from tests.sharing.builders import pool, served, setup, tenants

# From spot-advisor-data.json of 2025-06-28: `r` and `s` of a type under "Linux", and the labels of `ranges`.
SEEN = {
    ("us-east-1", "g4dn.xlarge"): ("15–20 %", 64),
    ("us-east-1", "g4dn.12xlarge"): ("10–15 %", 64),
    ("us-east-1", "g6e.2xlarge"): ("10–15 %", 63),
    ("ap-northeast-2", "g4dn.xlarge"): ("5–10 %", 64),
    ("us-east-1", "p5.48xlarge"): (">20 %", 52),
    ("ca-central-1", "p5.48xlarge"): ("<5 %", -62),
}


@pytest.mark.parametrize(("region", "name"), SEEN)
def test_part_and_saving_are_those_of_the_spot_advisor(region: str, name: str) -> None:
    [risk] = spot_risks([name], region)
    assert (reclaimed_part([risk]), risk.savings_percent, risk.date) == (*SEEN[region, name], "2025-06-28")


def test_a_type_without_data_is_unknown() -> None:
    # Newer than the file, and a region without NVIDIA types in it.
    assert spot_risks(["g7e.2xlarge"], "us-east-1") == []
    assert spot_risks(["g4dn.xlarge"], "cn-north-1") == []
    assert reclaimed_part([]) == ""


def test_several_types_have_the_range_that_covers_them() -> None:
    rare, middle, often = (SpotRisk("", least, most, 0, "") for least, most in ((0, 5), (5, 10), (20, 100)))
    assert reclaimed_part([rare, middle]) == "<10 %"
    assert reclaimed_part([often, middle]) == ">5 %"


def test_the_table_has_types_of_the_catalogue_only() -> None:
    assert {row["instance_type"] for row in tables.read("spot_risk").rows} <= set(instance_types())


def test_a_reclaim_takes_the_models_of_one_node() -> None:
    config = setup(models=tenants(served("llama3.2:1b"), served("mistral:7b"), served("llama2:7b")))
    [only] = config.pools
    large, middle = config.models[1], config.models[2]
    assert only.shares_per_node == 2
    assert after_a_reclaim(only, config) == cold_start(large, middle)
    # 3.6 GiB more at 50 MiB/s: 1.2 minutes (llama2:7b has 3.8 GB in Ollama's library).
    assert cold_start(large, middle)[0] - cold_start(large)[0] == pytest.approx(3.8e9 / 2**20 / 50 / 60, abs=0.05)
    # Without models: the node (2.2), the plugin (1.0) and the images (50 MiB/s).
    assert after_a_reclaim(pool(name="empty"), config)[0] == pytest.approx(3.2 + images_mib() / 50 / 60)
