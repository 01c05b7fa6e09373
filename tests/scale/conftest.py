"""A cluster with KEDA and Karpenter for the whole tier, without models after each test."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import programs
from tests.cluster.karpenter import POOL_KINDS, POOLS, Pool, Pools
from tests.control_plane.karpenter import karpenter
from tests.control_plane.karpenter_types import for_sale
from tests.control_plane.keda import keda
from tests.control_plane.recipe import CONTROL_PLANE, KARPENTER, KEDA, KEDA_DEFINITIONS, Recipe
from tests.control_plane.running import control_plane
from tests.scale.sleeping import Sleepers, server

__all__ = ["programs"]


@pytest.fixture(scope="session")
def awake(programs: Callable[[Recipe], Path]) -> Iterator[Sleepers]:
    made = [programs(recipe) for recipe in (CONTROL_PLANE, KARPENTER, KEDA_DEFINITIONS, KEDA)]
    with (
        control_plane(made[0]) as plane,
        karpenter(plane, made[1]) as buyer,
        keda(plane, *made[2:]) as running,
        server() as answering,
    ):
        buyer.sell(for_sale())
        sleepers = Sleepers(running, Pools(buyer), answering)
        sleepers.prepare()
        yield sleepers


@pytest.fixture
def sleepers(awake: Sleepers) -> Iterator[Sleepers]:
    yield awake
    awake.server.hold.set()
    awake.pools.plugin_works = True
    awake.clear()
    awake.pools.clear(POOL_KINDS)  # the interceptor's pod stays
    awake.server.got.clear()


@pytest.fixture
def halves(sleepers: Sleepers) -> Pool:
    """A pool that gives empty nodes back at once."""

    def hurry(manifest: dict[str, Any]) -> None:
        if manifest["kind"] == "NodePool":
            manifest["spec"]["disruption"]["consolidateAfter"] = "1s"

    return sleepers.pools.make(POOLS["timeslice-2"], hurry)
