"""Regions of AWS: partition, zones, ARNs."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from sandbox.cloud.identity import ACCOUNT
from sandbox.cloud.protocol import Values

DEFAULT_REGION = "us-east-1"
ZONES = {"us-east-1": "123456", "us-west-1": "13"}
"""Numbers of a region's zones in a newer account. Here, other regions have three. A program must not rely on their
order. Source: AWS, Regions and Availability Zones, aws-availability-zones.html; us-west-1 hides one.
"""
_SHORTENED = re.compile(r"-|(?<=[nsewc])(?:orth|outh|ast|est|entral)")
"""What a zone id leaves out of the region's name: `us-east-1` becomes `use1`, and `ap-northeast-1` becomes `apne1`."""


@dataclass(frozen=True, slots=True)
class Place:
    """One region in one account."""

    region: str
    default_tags: Values = field(default_factory=dict)
    """The provider's default tags."""

    @classmethod
    def of(cls, provider: Values) -> Place:
        """The provider's region, or us-east-1. Its inputs are as on the wire."""
        tags = provider.get("defaultTags") or {}
        # On the wire, a provider's inputs are JSON strings.
        tags = json.loads(tags) if isinstance(tags, str) else tags
        return cls(str(provider.get("region") or DEFAULT_REGION), tags.get("tags") or {})

    @property
    def partition(self) -> str:
        if self.region.startswith("us-gov-"):
            return "aws-us-gov"
        return "aws-cn" if self.region.startswith("cn-") else "aws"

    @property
    def suffix(self) -> str:
        """Domain suffix of the partition's services."""
        return "amazonaws.com.cn" if self.partition == "aws-cn" else "amazonaws.com"

    @property
    def zones(self) -> dict[str, str]:
        """Zone ids by zone name, e.g. us-east-1a to use1-az1. In real accounts, the mapping is random."""
        code = _SHORTENED.sub("", self.region)
        numbers = ZONES.get(self.region, "123")
        return {f"{self.region}{letter}": f"{code}-az{number}" for letter, number in zip("abcdef", numbers)}  # noqa: B905

    def arn(self, service: str, resource: str, *, regional: bool = True) -> str:
        """An ARN in this account. ARNs of IAM have no region."""
        return f"arn:{self.partition}:{service}:{self.region if regional else ''}:{ACCOUNT}:{resource}"
