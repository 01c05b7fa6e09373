"""`cluster.zones` and `cluster.zone-names`: what is accepted, what is refused, and what the plan makes of it."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from stacks.stack_file.judge import Judged, judge
from stacks.stack_file.yaml import Source

TODAY = datetime.date(2026, 11, 22)
SECTIONS = {"sharing": {"mode": "timeslice"}, "models": [{"name": "llama3.2:1b"}]}


def read(region: str = "us-east-1", **cluster: Any) -> Judged:
    settings = {key.replace("_", "-"): value for key, value in cluster.items()}
    return judge(Source({**SECTIONS, "cluster": settings}, {"aws:region": region}), "Pulumi.tried.yaml")


def test_names_say_how_many_zones_there_are() -> None:
    reading = read(zone_names=["us-east-1d", "us-east-1a", "us-east-1f"])
    assert reading.problems == ()
    setup = reading.config.setup(TODAY)
    assert (setup.zones, setup.zone_names) == (3, ("us-east-1d", "us-east-1a", "us-east-1f"))
    assert read(zones=2, zone_names=["us-east-1d", "us-east-1a"]).problems == ()
    assert read().config.setup(TODAY).zones == 2


@pytest.mark.parametrize(
    ("cluster", "region", "problem"),
    [
        (
            {"zones": 4},
            "eu-west-1",
            "cluster.zones: eu-west-1 has 3 zones in which EKS runs (got 4). Write `zones: 3` or fewer.",
        ),
        (
            {"zones": 3, "zone_names": ["us-east-1a", "us-east-1b"]},
            "us-east-1",
            "cluster.zone-names: lists 2 zones, and `zones` is 3 (got us-east-1a, us-east-1b). "
            "Remove `zones`: the list says how many.",
        ),
        (
            {"zone_names": ["us-east-1a"]},
            "us-east-1",
            "cluster.zone-names: EKS needs two zones (got us-east-1a). Add another zone.",
        ),
        (
            {"zone_names": ["eu-west-1a", "us-east-1b"]},
            "us-east-1",
            "cluster.zone-names[0]: is no zone of us-east-1, the stack's region (got 'eu-west-1a'). "
            "Write zones of us-east-1, for example `[us-east-1a, us-east-1b]`.",
        ),
        (
            {"zone_names": ["us-east-1a", 7]},
            "us-east-1",
            'cluster.zone-names[1]: must be text (got 7). Put it in quotes: "7".',
        ),
    ],
)
def test_impossible_zones_are_one_error_each(cluster: dict[str, Any], region: str, problem: str) -> None:
    assert [str(one) for one in read(region, **cluster).problems] == [problem]
