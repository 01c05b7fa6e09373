"""Which prices a region lacks: the plan then shows that of us-east-1 and says so. The lists may only shrink."""

import pytest

from sharing import tables
from sharing.hardware import prices
from sharing.hardware.gpus import instance_types
from sharing.hardware.offerings import family, offered

WITH_GPUS = {row["region"] for row in tables.read("offerings").rows if row["families"]}
NEVER_READ = {
    *("ap-south-2", "eu-central-2", "eu-south-2", "me-central-1"),
    *("cn-north-1", "cn-northwest-1", "eusc-de-east-1", "us-gov-east-1", "us-gov-west-1"),
}
"""Regions that the programs did not read from which the tables come."""
WITH_EKS = {"us-east-1", "us-east-2", "ap-northeast-2"}
LACK = {
    "ebs-gp3": NEVER_READ,
    "nat-gateway-hour": NEVER_READ,
    "nat-gateway-gb": NEVER_READ,
    "public-ipv4-hour": NEVER_READ | {"ap-southeast-5"},
    "eks-standard": WITH_GPUS - WITH_EKS - {"ap-southeast-2", "ap-southeast-5"},
    "eks-extended": WITH_GPUS - WITH_EKS,
}
LACK_GPUS = {
    "ap-northeast-1": "g7e p3dn",
    "ap-northeast-2": "g7e p6-b300",
    "ap-northeast-3": "g6e",
    "ap-south-1": "g6e g7e p6-b200",
    "ap-south-2": "g6 g6e p6-b200 p6-b300",
    "ap-southeast-2": "p5e",
    "ap-southeast-3": "g7e p5e p6-b300",
    "ap-southeast-5": "g6 gr6",
    "cn-north-1": "g4dn g5",
    "cn-northwest-1": "g4dn g5",
    "eu-central-1": "g7 g7e",
    "eu-central-2": "g6 gr6",
    "eu-north-1": "g7 g7e p5e p6-b200",
    "eu-south-2": "g5 g7 g7e",
    "eu-west-1": "p3dn",
    "eu-west-2": "g7e p5e",
    "eu-west-3": "g5 p6-b200",
    "eusc-de-east-1": "g6",
    "il-central-1": "g5 p4de",
    "me-central-1": "g6e",
    "sa-east-1": "g4dn g5 g6 g6f gr6 gr6f p4d p5 p5e p6-b300",
    "us-east-2": "g7 p5e p6-b200",
    "us-west-2": "g7 g7e p5e p6-b200 p6-b300",
}


@pytest.mark.parametrize("item", LACK)
def test_only_these_regions_lack_the_price_of_a_service(item: str) -> None:
    assert {region for region in WITH_GPUS if not prices.service(item, region).own} <= LACK[item]


def test_only_these_regions_lack_the_price_of_the_system_nodes() -> None:
    lacking = {region for region in WITH_GPUS if not prices.system_node("t3.medium", region).own}
    assert lacking <= NEVER_READ | {"ap-southeast-5"}


@pytest.mark.parametrize("region", sorted(WITH_GPUS))
def test_only_these_regions_lack_the_price_of_a_gpu_family(region: str) -> None:
    here = [name for name in instance_types() if offered(name, region) == "yes"]
    lacking = {family(name) for name in here if not prices.on_demand(name, region).own}
    assert lacking <= {*LACK_GPUS.get(region, "").split()}


@pytest.mark.parametrize(
    ("item", "region", "usd"),
    [
        # AWS's price list of AmazonEC2 of 2026-09-25 (a note of 2026-09-28), not by way of ec2-vps
        ("ebs-gp3", "ap-southeast-5", 0.0864),
        # AWS's price list of EKS: $0.10, and $0.50 more for extended support
        ("eks-extended", "ap-northeast-2", 0.60),
        # vpc.json of 2026-08-31, natgateway.json of 2026-09-03
        ("nat-gateway-hour", "sa-east-1", 0.093),
        ("public-ipv4-hour", "il-central-1", 0.005),
    ],
)
def test_a_service_has_the_price_of_its_region(item: str, region: str, usd: float) -> None:
    found = prices.service(item, region)
    assert (found.usd_per_hour, found.region, found.note, found.own) == (usd, region, "", True)
