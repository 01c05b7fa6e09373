"""Reads a region's offers and prices from AWS: the on-demand list, and the spot history zone by zone."""

import datetime
import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from sharing.hardware.gpus import instance_types
from sharing.hardware.system_instances import system_types
from tandem.aws.session import Account, AccountError, explained
from tandem.price_cache import Kept

LIST_REGION = "us-east-1"
"""Where AWS serves its price list, for every region of the partition `aws`."""


def read(account: Account, now: datetime.datetime) -> Kept:
    """The prices of the account's region for every type of the catalogue; raises `AccountError`."""
    if account.region.startswith("cn-"):
        raise AccountError(f"{account.region} is not supported: its prices are in yuan. Choose another region.")
    if account.region.startswith("us-gov-"):
        raise AccountError(
            f"{account.region} has no API for price lists: plans use the built-in prices. Plan without `--live-prices`."
        )
    with explained(account.region):
        on_demand = dict(_on_demand(account))
        spot = _spot(account, now)
        offered = sorted(_offered(account))
    if not on_demand:
        raise AccountError(f"AWS's price list has no entry for {account.region}. Check the region's name.")
    return Kept(region=account.region, read_at=now, on_demand=on_demand, spot=spot, offered=offered)


def _on_demand(account: Account) -> Iterator[tuple[str, float]]:
    wanted = wanted_types()
    pages = account.client("pricing", LIST_REGION).get_paginator("get_products")
    # They leave one price for each type (aws/karpenter-provider-aws pkg/providers/pricing).
    fields = {
        "serviceCode": "AmazonEC2",
        "preInstalledSw": "NA",
        "operatingSystem": "Linux",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "tenancy": "Shared",
        "productFamily": "Compute Instance",
        "regionCode": account.region,
    }
    filters = [{"Type": "TERM_MATCH", "Field": key, "Value": value} for key, value in fields.items()]
    for page in pages.paginate(ServiceCode="AmazonEC2", Filters=filters):
        for text in page["PriceList"]:
            product = json.loads(text)
            name = product["product"]["attributes"].get("instanceType", "")
            if name in wanted and (usd := _usd(product)):
                yield name, usd


def _usd(product: Mapping[str, Any]) -> float | None:
    """The first hourly price above 0: a list may hold terms at no cost (of reservations) beside it."""
    for term in product["terms"].get("OnDemand", {}).values():
        for dimension in term["priceDimensions"].values():
            if usd := positive(dimension["pricePerUnit"].get("USD", "")):
                return usd
    return None


def _spot(account: Account, now: datetime.datetime) -> dict[str, dict[str, float]]:
    """Current prices by type and zone. A filter, not `InstanceTypes`: that refuses types unknown to the region."""
    prices: dict[str, dict[str, float]] = defaultdict(dict)
    filters = [{"Name": "instance-type", "Values": [*instance_types()]}]
    newest: dict[tuple[str, str], datetime.datetime] = {}
    linux = ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"]
    for page in account.pages(
        "ec2", "describe_spot_price_history", ProductDescriptions=linux, StartTime=now, Filters=filters
    ):
        for raw in page["SpotPriceHistory"]:
            name, zone, at = raw["InstanceType"], raw["AvailabilityZone"], raw["Timestamp"]
            usd = positive(raw["SpotPrice"])
            if usd and name in instance_types() and at >= newest.get((name, zone), at):
                newest[name, zone], prices[name][zone] = at, usd
    return dict(prices)


def _offered(account: Account) -> Iterator[str]:
    """The GPU types of the catalogue that the region offers. A price is no offer: AWS still lists P2, G3 and P3.

    The answer is about the whole region unless one asks about zones.
    """
    filters = [{"Name": "instance-type", "Values": [*instance_types()]}]
    pages = account.pages("ec2", "describe_instance_type_offerings", Filters=filters)
    return (raw["InstanceType"] for page in pages for raw in page["InstanceTypeOfferings"])


def wanted_types() -> frozenset[str]:
    """The types of GPU nodes and system nodes."""
    return frozenset(instance_types()) | frozenset(system_types())


def positive(text: str) -> float | None:
    """The number in `text` if it is a price."""
    try:
        usd = float(text)
    except ValueError:
        return None
    return usd if usd > 0 and math.isfinite(usd) else None
