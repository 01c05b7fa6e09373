"""The partitions of AWS: separate clouds. An account, and the ARNs in it, belong to one.

Source: botocore/data/partitions.json (`regionRegex`, `implicitGlobalRegion`).
"""

COMMERCIAL = "aws"
BY_PREFIX = {
    "cn-": "aws-cn",
    "us-gov-": "aws-us-gov",
    "us-iso-": "aws-iso",
    "us-isob-": "aws-iso-b",
    "eu-isoe-": "aws-iso-e",
    "us-isof-": "aws-iso-f",
    "eusc-": "aws-eusc",
}
"""Partition of a region, by the prefix of its name; every other region is commercial."""
HOME_REGION = "us-east-1"
"""The default of commands that need no account, and the region with the best-known prices. They replace missing ones,
are marked, and never decide about a budget.
"""
HOME_REGIONS = {
    COMMERCIAL: HOME_REGION,
    "aws-cn": "cn-north-1",
    "aws-us-gov": "us-gov-west-1",
    "aws-iso": "us-iso-east-1",
    "aws-iso-b": "us-isob-east-1",
    "aws-iso-e": "eu-isoe-west-1",
    "aws-iso-f": "us-isof-south-1",
    "aws-eusc": "eusc-de-east-1",
}
"""A region of each partition that is enabled in every account."""


def partition_of(region: str) -> str:
    """The partition that a region belongs to."""
    return next((name for start, name in BY_PREFIX.items() if region.startswith(start)), COMMERCIAL)
