"""Regions of AWS: partition, zones, ARNs."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from sandbox.cloud.identity import ACCOUNT
from sandbox.cloud.protocol import Values

DEFAULT_REGION = "us-east-1"
ZONES = {
    "us-east-1": "123456",
    "us-west-1": "13",
    "us-west-2": "1234",
    "ca-central-1": "124",
    "ap-northeast-1": "124",
    "ap-northeast-2": "1234",
}
"""Numbers of a region's zones as a newer account sees them; other regions have three. A program must not count on an
order. Source: AWS, Regions and Availability Zones, aws-availability-zones.html; us-west-1 and ap-northeast-1 hide one.
"""
_DIRECTIONS = {
    "north": "n",
    "south": "s",
    "east": "e",
    "west": "w",
    "central": "c",
    "northeast": "ne",
    "northwest": "nw",
    "southeast": "se",
    "southwest": "sw",
}


@dataclass(frozen=True, slots=True)
class Place:
    """One region as one account sees it."""

    region: str
    default_tags: Values = field(default_factory=dict)
    """The provider's default tags."""

    @classmethod
    def of(cls, provider: Values) -> Place:
        """The region of the provider (its inputs as on the wire), or us-east-1."""
        tags = provider.get("defaultTags") or {}
        # A provider's inputs are JSON texts on the wire.
        tags = json.loads(tags) if isinstance(tags, str) else tags
        return cls(str(provider.get("region") or DEFAULT_REGION), tags.get("tags") or {})

    @property
    def partition(self) -> str:
        if self.region.startswith("us-gov-"):
            return "aws-us-gov"
        return "aws-cn" if self.region.startswith("cn-") else "aws"

    @property
    def suffix(self) -> str:
        """Domain of the partition's services."""
        return "amazonaws.com.cn" if self.partition == "aws-cn" else "amazonaws.com"

    @property
    def zones(self) -> dict[str, str]:
        """Zone names to zone ids, e.g. us-east-1a to use1-az1. Real accounts have them shuffled."""
        *area, number = self.region.split("-")
        code = "".join(_DIRECTIONS.get(part, part) for part in area) + number
        numbers = ZONES.get(self.region, "123")
        return {f"{self.region}{letter}": f"{code}-az{number}" for letter, number in zip("abcdef", numbers)}  # noqa: B905

    def arn(self, service: str, resource: str, *, regional: bool = True) -> str:
        """An ARN in this account; IAM's have no region."""
        return f"arn:{self.partition}:{service}:{self.region if regional else ''}:{ACCOUNT}:{resource}"
