"""Models that scale to zero: which stacks may have them, how long a start takes, and what idle costs."""

import math
from typing import Any

import pytest

from sharing import tables
from sharing.artifacts import images_mib
from sharing.cost.bill import cost
from sharing.models.served import Cache, ServedModel
from sharing.sections.config import StackConfig
from sharing.sections.scale_to_zero import ScaleToZeroSettings
from sharing.sections.startup import cold_start
from sharing.verdict.features.scale_to_zero import longest_wait_minutes, sleepers
from tests.sharing.builders import pool, served, setup, tenants

KARPENTER = pool(provisioner="karpenter")


def sleeper(model: ServedModel, cache: Cache = "node") -> ServedModel:
    [one] = tenants(model, cache=cache)
    return one


def sleeping(idle_minutes: int = 15, **overrides: Any) -> StackConfig:
    return setup(
        **{
            "pools": (KARPENTER,),
            "scale_to_zero": ScaleToZeroSettings(enabled=True, idle_minutes=idle_minutes),
            **overrides,
        }
    )


def by_hand(file_mib: float, cache: Cache) -> tuple[float, float]:
    """From the rows of the table: 50 MiB/s of download, 125 MiB/s from the disk (sharing/sections/startup.py).

    And on a new disk, a minute to compile kernels, with a doubt of 0.8 (audio.cpp#559: 57 s on one GPU).
    """
    rows = {row["type"]: row for row in tables.read("durations").rows}
    node, plugin = rows["kubernetes:karpenter.sh/v1:NodeClaim"], rows["kubernetes:apps/v1:DaemonSet"]
    pulled = (images_mib() + (file_mib if cache == "node" else 0)) / 50 / 60
    minutes = float(node["minutes"]) + float(plugin["minutes"]) + pulled + file_mib / 125 / 60
    spread = (float(node["plus_minus"]) ** 2 + float(plugin["plus_minus"]) ** 2 + (0.6 * pulled) ** 2) ** 0.5
    return (minutes, spread) if cache == "volume" else (minutes + 1.0, math.hypot(spread, 0.8))


@pytest.mark.parametrize("cache", ["node", "volume"])
def test_a_cold_start_is_node_plugin_downloads_and_loading(cache: Cache) -> None:
    model = served()
    assert cold_start(sleeper(model, cache=cache)) == pytest.approx(by_hand(model.model.file_bytes / 2**20, cache))


def test_a_model_has_more_time_to_start_than_it_needs() -> None:
    small, large = sleeper(served("llama3.2:1b")), sleeper(served("llama3.3:70b"))
    assert longest_wait_minutes(small) == 15
    assert longest_wait_minutes(large) == pytest.approx(2 * cold_start(large)[0], abs=1)
    assert longest_wait_minutes(large) >= 2 * cold_start(large)[0]


def test_models_of_parked_pools_stay_parked() -> None:
    assert len(sleepers(sleeping())) == 2
    parked = sleeping(idle_minutes=1, pools=(pool(provisioner="karpenter", desired=0),))
    assert sleepers(parked) == []
    assert sleepers(setup(pools=(KARPENTER,))) == []


def test_shares_of_nodes_that_come_and_go_are_not_checked() -> None:
    assert setup(pools=(KARPENTER,)).unproved(KARPENTER) == ""
    assert "scale to zero" in sleeping().unproved(KARPENTER)


def test_idle_costs_what_remains_without_gpu_nodes() -> None:
    bill = cost(sleeping())
    running = {line.item.split(" 1 × ")[0]: line.usd_per_hour for line in bill.lines}
    parked = cost(sleeping(pools=(pool(provisioner="karpenter", desired=0),)))
    assert bill.idle_usd_per_hour == pytest.approx(parked.usd_per_hour)
    assert bill.idle_usd_per_hour is not None
    assert bill.usd_per_hour - bill.idle_usd_per_hour > running["GPU nodes"] > 0
    assert cost(setup(pools=(KARPENTER,))).idle_usd_per_hour is None
