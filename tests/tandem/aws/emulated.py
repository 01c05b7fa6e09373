"""An AWS account in this process: moto, plus what moto lacks (add-ons, most quotas, prices)."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import botocore.loaders
from moto.budgets.models import budgets_backends
from moto.logs.models import logs_backends

from tandem.aws.resources import Owner

ACCOUNT = "123456789012"
REGION = "us-east-1"
OURS = {"tandem:project": "tandem", "tandem:stack": "timeslice"}
CLUSTER = "tandem-timeslice"
OWNER = Owner(stack="timeslice", own_tags=OURS, cluster=CLUSTER, region=REGION, by_cluster=False)
CLUSTER_LOGS = "/aws/eks/{}/cluster"
ENOUGH = {
    "L-3819A6DF": 64.0,
    "L-DB2E81BA": 64.0,
    "L-7212CCBC": 64.0,
    "L-C4BD4855": 64.0,
    "L-417A185B": 64.0,
    "L-1216C47A": 64.0,
    "L-0263D0A3": 5.0,
    "L-F678F1CE": 5.0,
    "L-1194D53C": 100.0,
}
"""Quotas by code, high enough for every stack of the tests."""
Tags = dict[str, str]
LOADER = botocore.loaders.Loader()
"""Reads each service's description once for all tests. Each session would take half a second to read it again."""


@dataclass
class Emulated:
    """The part of the account that moto lacks."""

    addons: dict[tuple[str, str], Tags] = field(default_factory=dict)
    quotas: dict[str, float] = field(default_factory=dict)
    """The account's own values, by code."""
    default_quotas: dict[str, float] = field(default_factory=dict)
    products: list[dict[str, Any]] = field(default_factory=list)
    spot: list[dict[str, Any]] = field(default_factory=list)
    offers: dict[str, str] | None = None
    """Letters of the zones in which an instance type is offered; None: moto answers."""
    zones: list[tuple[str, str, str, str]] | None = None
    """Name, id, state and opt-in status of the region's zones; None: moto answers."""
    builds: dict[str, list[str]] = field(default_factory=dict)
    """Builds that EKS offers, by add-on; the first is the default."""
    budget_tags: dict[str, Tags] = field(default_factory=dict)
    """By the name of a budget: moto keeps budgets without tags."""
    addon_status: dict[str, str] = field(default_factory=dict)
    """By add-on; ACTIVE if an add-on is missing here."""
    denied: dict[str, str] = field(default_factory=dict)
    """Error code by operation, e.g. `{"ListRoles": "AccessDenied"}`."""
    closed: set[str] = field(default_factory=set)
    """Regions that the account has not enabled."""
    calls: list[str] = field(default_factory=list)
    asked: list[tuple[str, Any]] = field(default_factory=list)
    """Operations answered here, with their arguments."""
    slow: Callable[[str, dict[str, Any]], Any] | None = None
    """Answers first if a test needs deletions that take time: see `slow_deletions`."""
    faults: dict[str, list[str | BaseException | None]] = field(default_factory=dict)
    """By operation, the results of its next calls: an error code, an exception, or None for the normal answer."""
    lost: Callable[[str], BaseException | None] | None = None
    """By operation, the exception that is raised after AWS has done the change."""
    regions: tuple[str, ...] = (REGION, "eu-west-1", "ap-south-1")
    """Regions that the account has enabled."""
    one_per_page: bool = False

    def remember(self, params: Any, model: Any, context: Any, **_: Any) -> None:
        """A handler of botocore's event `before-parameter-build`."""
        if self.one_per_page and not any(name.endswith("Ids") for name in params):
            pages = LOADER.load_service_model(model.service_model.service_name, "paginators-1")["pagination"]
            if limit := pages.get(model.name, {}).get("limit_key"):
                params.setdefault(limit, model.input_shape.members[limit].metadata.get("min", 1))
        context["asked"] = dict(params)

    def lose(self, model: Any, **_: Any) -> None:
        """A handler of botocore's event `after-call`."""
        if self.lost is not None and (error := self.lost(model.name)) is not None:
            raise error

    def __call__(self, model: Any, params: Any, **_: Any) -> Any:
        """A handler of botocore's event `before-call`. Returns an answer, or None to let moto answer."""
        self.calls.append(model.name)
        if waiting := self.faults.get(model.name):
            fault = waiting.pop(0)
            if isinstance(fault, BaseException):
                raise fault
            if fault:
                return error(400, fault, "not now")
        if model.name in self.denied:
            return error(403, self.denied[model.name], "you may not")
        if params["context"]["client_region"] in self.closed:
            return error(403, "InvalidClientTokenId", "The security token included in the request is invalid.")
        if self.slow is not None and (said := self.slow(model.name, params["context"]["asked"])) is not None:
            return said
        own = getattr(self, f"_{model.name}", None)
        if own is None or (model.name == "DescribeInstanceTypeOfferings" and self.offers is None):
            return None
        body = params["body"]
        asked = json.loads(body) if isinstance(body, bytes | str) and body[:1] in (b"{", "{") else body
        asked = asked or params.get("query_string", {})
        self.asked.append((model.name, asked))
        return own(asked, params["url_path"].strip("/").split("/"))

    def _DescribeRegions(self, body: Any, path: list[str]) -> Any:
        if "AllRegions" in body or "RegionName.1" in body:
            return None
        return answer(Regions=[{"RegionName": name} for name in self.regions])

    def _DescribeAvailabilityZones(self, body: Any, path: list[str]) -> Any:
        keys = ("ZoneName", "ZoneId", "State", "OptInStatus")
        return self.zones and answer(AvailabilityZones=[dict(zip(keys, zone, strict=True)) for zone in self.zones])

    def _ListTagsForResource(self, body: Any, path: list[str]) -> Any:
        """Of a budget, or of a log group, as in the API references: moto keeps the tags of a deleted one."""
        budget = str((body or {}).get("ResourceARN", "")).partition(f"arn:aws:budgets::{ACCOUNT}:budget/")[2]
        if budget:
            if budget not in budgets_backends[ACCOUNT]["aws"].budgets[ACCOUNT]:
                return error(400, "NotFoundException", "no such budget")
            return answer(ResourceTags=pairs(self.budget_tags[budget]))
        name = str((body or {}).get("resourceArn", "")).partition(":log-group:")[2]
        there = any(name in backend.groups for backend in logs_backends[ACCOUNT].values())
        return error(400, "ResourceNotFoundException", "no such log group") if name and not there else None

    def _ListAddons(self, body: Any, path: list[str]) -> Any:
        return answer(addons=[name for cluster, name in self.addons if cluster == path[1]])

    def _DescribeAddon(self, body: Any, path: list[str]) -> Any:
        tags = self.addons.get((path[1], path[3]))
        if tags is None:
            return error(404, "ResourceNotFoundException", "no such add-on")
        status = self.addon_status.get(path[3], "ACTIVE")
        return answer(addon={"addonName": path[3], "status": status, "health": {"issues": []}, "tags": tags})

    def _DescribeAddonVersions(self, body: Any, path: list[str]) -> Any:
        """As in the example of the EKS API reference, DescribeAddonVersions."""
        name, kubernetes = body["addonName"], body["kubernetesVersion"]
        builds = [
            {
                "addonVersion": build,
                "architecture": ["amd64", "arm64"],
                "compatibilities": [
                    {"clusterVersion": kubernetes, "platformVersions": ["*"], "defaultVersion": index == 0}
                ],
            }
            for index, build in enumerate(self.builds.get(name, []))
        ]
        return answer(addons=[{"addonName": name, "type": "networking", "addonVersions": builds}] if builds else [])

    def _DeleteAddon(self, body: Any, path: list[str]) -> Any:
        del self.addons[path[1], path[3]]
        return answer(addon={})

    def _GetServiceQuota(self, body: Any, path: list[str]) -> Any:
        if body["QuotaCode"] not in self.quotas:
            return error(400, "NoSuchResourceException", "no such quota")
        return answer(Quota={"Value": self.quotas[body["QuotaCode"]]})

    def _GetAWSDefaultServiceQuota(self, body: Any, path: list[str]) -> Any:
        if body["QuotaCode"] not in self.default_quotas:
            return error(400, "NoSuchResourceException", "no such quota")
        return answer(Quota={"Value": self.default_quotas[body["QuotaCode"]]})

    def _GetProducts(self, body: Any, path: list[str]) -> Any:
        return answer(PriceList=[json.dumps(product) for product in self.products])

    def _DescribeInstanceTypeOfferings(self, body: Any, path: list[str]) -> Any:
        offers = [(name, zone) for name, zones in (self.offers or {}).items() for zone in zones]
        return answer(InstanceTypeOfferings=[{"InstanceType": n, "Location": f"{REGION}{z}"} for n, z in offers])

    def _DescribeSpotPriceHistory(self, body: Any, path: list[str]) -> Any:
        return answer(SpotPriceHistory=self.spot)


def answer(**parsed: Any) -> Any:
    return SimpleNamespace(status_code=200, headers={}), {"ResponseMetadata": {}, **parsed}


def error(status: int, code: str, message: str) -> Any:
    parsed = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {}}
    return SimpleNamespace(status_code=status, headers={}), parsed


def pairs(tags: Tags) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def spec(kind: str, tags: Tags) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": pairs(tags)}] if tags else []
