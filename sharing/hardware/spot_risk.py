"""How often AWS reclaims spot instances, as its Spot Advisor says: `sharing/data/spot_risk.csv`."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache

from sharing import tables

RANGES = ((0, 5), (5, 10), (10, 15), (15, 20), (20, 100))
"""Per cent of the instances, by the number in the table. In the file of AWS, `max` is 11, 16 and 22."""


@dataclass(frozen=True, slots=True)
class SpotRisk:
    """An instance type in a region."""

    instance_type: str
    least_percent: int
    most_percent: int
    """AWS reclaimed between these parts of its spot instances in the month before `date`."""
    savings_percent: int
    """Of the on-demand price, on average of all zones. Below zero, spot was more expensive."""
    date: str


def spot_risks(instance_types: Iterable[str], region: str) -> list[SpotRisk]:
    """The risk of each of these types there, without those that the Spot Advisor does not have."""
    return [risk for name in instance_types if (risk := _risks().get((region, name)))]


def reclaimed_part(risks: Collection[SpotRisk]) -> str:
    """The part of the instances that AWS reclaimed, over all of these types: `5–10 %`; empty without any."""
    if not risks:
        return ""
    least, most = min(risk.least_percent for risk in risks), max(risk.most_percent for risk in risks)
    if most == 100:
        return f">{least} %"
    return f"{least}–{most} %" if least else f"<{most} %"


@cache
def _risks() -> dict[tuple[str, str], SpotRisk]:
    table = tables.read("spot_risk")
    return {
        (row["region"], row["instance_type"]): SpotRisk(
            row["instance_type"], *RANGES[int(row["range"])], int(row["savings_percent"]), table.date
        )
        for row in table.rows
    }
