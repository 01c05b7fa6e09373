"""Reads the price files of AWS's web pages and the Spot Advisor: public, without credentials."""

import datetime
import ssl
import time
import zlib
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import TypeVar
from urllib.parse import quote

import httpx
from pydantic import AliasPath, BaseModel, Field, ValidationError

from sharing import tables
from sharing.hardware.gpus import instance_types
from sharing.hardware.prices import Advice
from stacks.network_errors import reason_of
from tandem.price_cache import Kept
from tandem.prices.reading import positive, wanted_types
from tandem.terminal import CallError, short

PAGES = "https://b0.p.awsstatic.com/pricing/2.0/meteredUnitMaps"
BULK = "https://pricing.us-east-1.amazonaws.com/offers/v1.0/aws"
ADVISOR = "https://spot-bid-advisor.s3.amazonaws.com/spot-advisor-data.json"
RANGES = ["<5%", "5-10%", "10-15%", "15-20%", ">20%"]
SECONDS = 60.0
MOST_BYTES = 64 * 2**20
"""Of a file, packed or not. The largest, EKS in one region, has about 1.4 MB."""
FIX = "Plan without `--live-prices`: the built-in prices stay in use."
SERVICES = {
    "ebs-gp3": ("ec2/USD/current/ebs.json", "Storage General Purpose gp3 GB Mo"),
    "ebs-gp2": ("ec2/USD/current/ebs.json", "Storage General Purpose gp2 GB Mo"),
    "ebs-snapshot": ("ec2/USD/current/ebs.json", "Storage Snapshot Amazon S3 GB Mo"),
    "nat-gateway-hour": ("ec2/USD/current/natgateway.json", "Hourly charge for NAT Gateways"),
    "nat-gateway-gb": ("ec2/USD/current/natgateway.json", "Charge for per GB data processed by NatGateways"),
    "public-ipv4-hour": ("vpc/USD/current/vpc.json", "Hourly charge for In use Public IPv4 Addresses per Hrs"),
    "vpc-endpoint-hour": ("vpc/USD/current/vpc.json", "Hourly charge for VPC Endpoints per Hrs"),
}
"""File and record of each item of `service_prices.csv` (the names: iammanis/ec2-vps tools/build_pricing.py)."""


class _Page(BaseModel):
    """A file of a price page: the fields of each record, by location and name."""

    published: datetime.datetime = Field(validation_alias=AliasPath("manifest", "hawkFilePublicationDate"))
    regions: dict[str, dict[str, dict[str, object]]]


class _Product(BaseModel):
    attributes: dict[str, str]


class _Dimension(BaseModel):
    per_unit: dict[str, str] = Field(alias="pricePerUnit")


class _Term(BaseModel):
    dimensions: dict[str, _Dimension] = Field(alias="priceDimensions")


class _Offer(BaseModel):
    """A region's file of the bulk price list."""

    published: datetime.datetime = Field(alias="publicationDate")
    products: dict[str, _Product]
    terms: dict[str, dict[str, dict[str, _Term]]]


class _Advised(BaseModel):
    r: int = Field(ge=0, le=4)
    s: int = Field(le=99)


class _Advisor(BaseModel):
    ranges: list[dict[str, object]]
    spot_advisor: dict[str, dict[str, dict[str, _Advised]]]


Shape = TypeVar("Shape", bound=BaseModel)


class Files:
    """The public files, each read once. Every method raises `CallError`, one line."""

    def __init__(self, transport: httpx.BaseTransport | None = None) -> None:
        """`transport` is for tests."""
        # The certificates of the system, which may include a company's own; a proxy is that of the environment.
        self._client = httpx.Client(timeout=SECONDS, transport=transport, verify=ssl.create_default_context())
        self._read: dict[str, tuple[BaseModel, datetime.date]] = {}

    def on_demand(self, region: str) -> tuple[dict[str, float], datetime.date]:
        """USD per hour of the catalogue's types, and the day of the file."""
        place = _location(region)
        url = f"{PAGES}/ec2/USD/current/ec2-ondemand-without-sec-sel/{quote(place)}/Linux/index.json"
        page, _ = self._get(url, _Page)
        records = page.regions.get(place, {}).values()
        wanted = wanted_types()
        every = {str(each.get("Instance Type")): positive(str(each.get("price"))) for each in records}
        found = {name: usd for name, usd in every.items() if usd and name in wanted}
        if not found:
            raise CallError(f"{url} has no prices of {region}. {FIX}")
        return found, page.published.date()

    def services(self, region: str) -> Iterator[tuple[str, float, datetime.date]]:
        """Item of `service_prices.csv`, USD and day of the file; without those that the files lack."""
        place = _location(region)
        for item, (path, name) in SERVICES.items():
            page, _ = self._get(f"{PAGES}/{path}", _Page)
            if usd := positive(str(page.regions.get(place, {}).get(name, {}).get("price"))):
                yield item, usd, page.published.date()
        offer, _ = self._get(f"{BULK}/AmazonEKS/current/{region}/index.json", _Offer)
        standard, surcharge = (_eks(offer, what) for what in ("perCluster", "extendedSupport"))
        if standard:
            yield "eks-standard", standard, offer.published.date()
        if standard and surcharge:
            yield "eks-extended", round(standard + surcharge, 6), offer.published.date()

    def advice(self) -> tuple[dict[str, dict[str, Advice]], datetime.date]:
        """What the Spot Advisor says of the catalogue's types under Linux, by region and type, and its day."""
        advisor, day = self._get(ADVISOR, _Advisor)
        if [each.get("label") for each in advisor.ranges] != RANGES:
            raise CallError(f"{ADVISOR} has other ranges than before. {FIX}")
        by_region = {
            region: {
                name: Advice(at.r, at.s) for name, at in systems.get("Linux", {}).items() if name in instance_types()
            }
            for region, systems in advisor.spot_advisor.items()
        }
        return by_region, day

    def _get(self, url: str, shape: type[Shape]) -> tuple[Shape, datetime.date]:
        """The file at `url` and its day as the server says, today if it does not."""
        if url not in self._read:
            try:
                body, day = self._fetch(url)
                self._read[url] = shape.model_validate_json(body), day
            except ValidationError as error:
                first = error.errors()[0]
                where = short(".".join(map(str, first["loc"])))
                what = "is not JSON" if first["type"] == "json_invalid" else f"has another format ({where})"
                raise CallError(f"{url} {what}. {FIX}") from None
            except httpx.TimeoutException:
                raise CallError(f"{url} did not arrive within {SECONDS:g} s. {FIX}") from None
            except (httpx.HTTPError, zlib.error) as error:
                if isinstance(error, httpx.ConnectError) and "SSL" not in str(error):
                    host = httpx.URL(url).host
                    raise CallError(f"no network, or the host {host} cannot be reached. {FIX}") from None
                raise CallError(f"{url} cannot be read ({reason_of(error)}). {FIX}") from None
        found, day = self._read[url]
        assert isinstance(found, shape)
        return found, day

    def _fetch(self, url: str) -> tuple[bytes, datetime.date]:
        late, body = time.monotonic() + SECONDS, bytearray()
        with self._client.stream("GET", url, headers={"accept-encoding": "identity"}) as response:
            if response.status_code != httpx.codes.OK:
                raise CallError(f"{url} answered with {response.status_code} {response.reason_phrase}. {FIX}")
            for part in response.iter_raw():
                body += part
                if time.monotonic() > late:
                    raise httpx.ReadTimeout("")
                if len(body) > MOST_BYTES:
                    raise CallError(f"{url} has more than {MOST_BYTES // 2**20} MiB. {FIX}")
            day = _day(response.headers.get("last-modified", ""))
        # The pages' files are packed whether one asks for it or not, also without a header that says so.
        return _unpacked(url, bytes(body)) if body[:2] == b"\x1f\x8b" else bytes(body), day


def read(region: str, now: datetime.datetime) -> Kept:
    """The prices of `region` without its zones' spot prices and its offers; raises `CallError`."""
    files = Files()
    on_demand, _ = files.on_demand(region)
    by_region, day = files.advice()
    return Kept(region=region, read_at=now, on_demand=on_demand, spot={}, advice=by_region.get(region, {}), advised=day)


def locations() -> dict[str, str]:
    """The name of each region in AWS's public price files."""
    return {row["region"]: row["price_location"] for row in tables.read("regions").rows if row["price_location"]}


def _location(region: str) -> str:
    if place := locations().get(region):
        return place
    raise CallError(f"{region} has no public price file in US dollars. {FIX}")


def _eks(offer: _Offer, usage: str) -> float | None:
    """The price of a usage type, which begins with a code of the region: `EU-`."""
    for sku, product in offer.products.items():
        if product.attributes.get("usagetype", "").endswith(f"-AmazonEKS-Hours:{usage}"):
            for term in offer.terms.get("OnDemand", {}).get(sku, {}).values():
                for dimension in term.dimensions.values():
                    return positive(dimension.per_unit.get("USD", ""))
    return None


def _unpacked(url: str, body: bytes) -> bytes:
    packed = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    whole = packed.decompress(body, MOST_BYTES)
    if packed.unconsumed_tail:
        raise CallError(f"{url} has more than {MOST_BYTES // 2**20} MiB. {FIX}")
    if not packed.eof:
        raise zlib.error("it ends early")
    return whole


def _day(header: str) -> datetime.date:
    today = datetime.datetime.now(datetime.UTC).date()
    try:
        return min(parsedate_to_datetime(header).date(), today)
    except ValueError:
        return today
