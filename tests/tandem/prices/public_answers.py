"""Answers of AWS's public price files. The folder `answers` has cuts of real ones; the others have their form.

Form: iammanis/ec2-vps tools/build_pricing.py (price pages), AWS Price List Bulk API (EKS), alexei-led/spotinfo (the
Spot Advisor, its file of 2025-06-28).
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx

FOLDER = Path(__file__).parent / "answers"
SPOT_ADVISOR = json.loads((FOLDER / "spot-advisor.json").read_text(encoding="utf-8"))
STOCKHOLM = json.loads((FOLDER / "ec2-stockholm.json").read_text(encoding="utf-8"))
OHIO = {"g4dn.xlarge": "0.5260000000", "g4dn.2xlarge": "0.7520000000", "t3.medium": "0.0416000000"}
"""As in us-east-1 (Karpenter, 2026-07-20)."""
SERVICES = {
    "natgateway.json": {
        "Hourly charge for NAT Gateways": "0.0450000000",
        "Charge for per GB data processed by NatGateways": "0.0460000000",
    },
    "ebs.json": {"Storage General Purpose gp3 GB Mo": "0.0800000000"},
    "vpc.json": {"Hourly charge for In use Public IPv4 Addresses per Hrs": "0.0050000000"},
}


def page(location: str, prices: Mapping[str, str]) -> dict[str, Any]:
    """A file of a price page, as `STOCKHOLM`: records by type, or by name."""
    records = {
        f"{name} {location} Linux" if "." in name else name: {
            "price": usd,
            **({"Instance Type": name, "Operating System": "Linux"} if "." in name else {}),
        }
        for name, usd in prices.items()
    }
    return {"manifest": {**STOCKHOLM["manifest"], "hawkFilePublicationDate": DAY}, "regions": {location: records}}


DAY = "2026-11-20T21:50:09Z"


def eks(code: str, extended_support: str) -> dict[str, Any]:
    """AmazonEKS in a region: a cluster and, on top of it, extended support; Fargate is another product."""
    products, terms = {}, {}
    for sku, usage, usd in (
        ("A", f"{code}-AmazonEKS-Hours:perCluster", "0.1000000000"),
        ("B", f"{code}-AmazonEKS-Hours:extendedSupport", extended_support),
        ("C", f"{code}-Fargate-GB-Hours", "0.0044450000"),
    ):
        products[sku] = {"sku": sku, "attributes": {"usagetype": usage, "servicecode": "AmazonEKS"}}
        dimension = {"unit": "Hours", "pricePerUnit": {"USD": usd}}
        terms[sku] = {f"{sku}.JRTCKXETXF": {"priceDimensions": {f"{sku}.JRTCKXETXF.6YS6EN2CT7": dimension}}}
    return {"publicationDate": "2026-11-18T19:51:42Z", "products": products, "terms": {"OnDemand": terms}}


class Pages:
    """AWS's hosts; `advised` is the day of the Spot Advisor's file, and `replies` replaces answers by URL's end."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.advisor: Any = SPOT_ADVISOR
        self.advised = "Mon, 10 Aug 2026 06:54:02 GMT"
        self.ec2: dict[str, Mapping[str, str]] = {"US East (Ohio)": OHIO}
        self.extended_support = "0.5000000000"
        self.replies: dict[str, httpx.Response | Exception] = {}

    def __call__(self, request: httpx.Request) -> httpx.Response:
        url = str(request.url)
        self.asked.append(url)
        reply = next((reply for end, reply in self.replies.items() if url.endswith(end)), None) or self.answer(url)
        if isinstance(reply, Exception):
            raise reply
        # A response that was made of its content counts as read.
        return httpx.Response(reply.status_code, headers=reply.headers, stream=httpx.ByteStream(reply.read()))

    def answer(self, url: str) -> httpx.Response:
        parts = unquote(url).split("/")
        if url.endswith("spot-advisor-data.json"):
            return httpx.Response(200, json=self.advisor, headers={"last-modified": self.advised})
        if url.endswith("/Linux/index.json") and parts[-3] in self.ec2:
            return httpx.Response(200, json=page(parts[-3], self.ec2[parts[-3]]))
        if parts[-1] in SERVICES:
            return httpx.Response(200, json=page("US East (Ohio)", SERVICES[parts[-1]]))
        if "AmazonEKS" in parts and parts[-2] == "us-east-2":
            return httpx.Response(200, json=eks("USE2", self.extended_support))
        return httpx.Response(404)
