"""EC2's instance types by zone."""

from collections.abc import Mapping, Sequence

from sandbox.cloud.aws.places import Place
from sandbox.cloud.protocol import Question, Values

OFFERINGS = "aws:ec2/getInstanceTypeOfferings:getInstanceTypeOfferings"
ZONES = "aws:index/getAvailabilityZones:getAvailabilityZones"
Offers = Mapping[str, Sequence[str]]
"""Zones by instance type."""
SCARCE: Mapping[tuple[str, str], str] = {("us-east-1", "g7e"): "bd"}
"""Families that are only available in a few zones of a region, with the letters of these zones. Here, everything else
is available everywhere, unlike at AWS. Source: skypilot-org/skypilot-catalog@00148f2 catalogs/v8/aws/vms.csv, which
lists g7e in two zones of us-east-1. AWS maps letters to zones per account, so any two letters are possible.
"""


def zones_selling(place: Place, instance_type: str, own: Offers) -> list[str]:
    """Zones of the region that offer the type. `own` are the account's offers, which override the default."""
    if instance_type in own:
        return [zone for zone in own[instance_type] if zone in place.zones]
    letters = SCARCE.get((place.region, instance_type.partition(".")[0]))
    return [zone for zone in place.zones if letters is None or zone[-1] in letters]


def offerings(question: Question, own: Offers) -> Values:
    """The result of the data source: parallel lists. Only the filter `instance-type` is supported.

    Source: terraform-provider-aws, ec2_instance_type_offerings_data_source.go.
    """
    place = Place.of(question.provider)
    types = [value for one in question.args.get("filters") or () for value in one["values"]]
    found = [(name, zone) for name in types for zone in zones_selling(place, name, own)]
    return {
        "instanceTypes": [name for name, _ in found],
        "locations": [zone for _, zone in found],
    }
