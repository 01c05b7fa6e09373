"""An AWS account in this process: moto, and beside it what moto does not know (add-ons, most quotas, prices)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import botocore.loaders

REGION = "us-east-1"
OURS = {"tandem:project": "tandem", "tandem:stack": "timeslice"}
CLUSTER = "tandem-timeslice"
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
"""Quotas by code, for any stack of the tests."""
Tags = dict[str, str]
LOADER = botocore.loaders.Loader()
"""Reads each service's description once for all tests: a session would do so anew, for half a second."""


@dataclass
class Emulated:
    """What answers beside moto."""

    addons: dict[tuple[str, str], Tags] = field(default_factory=dict)
    quotas: dict[str, float] = field(default_factory=dict)
    """By code, as they were set for the account."""
    default_quotas: dict[str, float] = field(default_factory=dict)
    products: list[dict[str, Any]] = field(default_factory=list)
    spot: list[dict[str, Any]] = field(default_factory=list)
    offers: dict[str, str] | None = None
    """Letters of the zones in which an instance type is offered; None: moto answers."""
    builds: dict[str, list[str]] = field(default_factory=dict)
    """Builds that EKS offers, by add-on; the first is the default."""
    addon_status: dict[str, str] = field(default_factory=dict)
    """By add-on; ACTIVE where nothing is said."""
    parameters: dict[str, str] = field(default_factory=dict)
    """What AWS publishes in the Parameter Store."""
    denied: dict[str, str] = field(default_factory=dict)
    """Error code by operation, e.g. `{"ListRoles": "AccessDenied"}`."""
    closed: set[str] = field(default_factory=set)
    """Regions that the account has not enabled."""
    calls: list[str] = field(default_factory=list)
    asked: list[tuple[str, Any]] = field(default_factory=list)
    """Operations answered here, with what was asked."""

    def __call__(self, model: Any, params: Any, **_: Any) -> Any:
        """A handler of botocore's event `before-call`: an answer, or None for moto's."""
        self.calls.append(model.name)
        if model.name in self.denied:
            return _error(403, self.denied[model.name], "you may not")
        if params["context"]["client_region"] in self.closed:
            return _error(403, "InvalidClientTokenId", "The security token included in the request is invalid.")
        own = getattr(self, f"_{model.name}", None)
        if own is None or (model.name == "DescribeInstanceTypeOfferings" and self.offers is None):
            return None
        body = params["body"]
        asked = json.loads(body) if isinstance(body, bytes | str) and body[:1] in (b"{", "{") else body
        asked = asked or params.get("query_string", {})
        self.asked.append((model.name, asked))
        return own(asked, params["url_path"].strip("/").split("/"))

    def _ListAddons(self, body: Any, path: list[str]) -> Any:
        return _answer(addons=[name for cluster, name in self.addons if cluster == path[1]])

    def _DescribeAddon(self, body: Any, path: list[str]) -> Any:
        tags = self.addons.get((path[1], path[3]))
        if tags is None:
            return _error(404, "ResourceNotFoundException", "no such add-on")
        status = self.addon_status.get(path[3], "ACTIVE")
        return _answer(addon={"addonName": path[3], "status": status, "health": {"issues": []}, "tags": tags})

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
        return _answer(addons=[{"addonName": name, "type": "networking", "addonVersions": builds}] if builds else [])

    def _GetParameters(self, body: Any, path: list[str]) -> Any:
        """As in the Systems Manager API reference, GetParameters; moto's store has none of EKS's."""
        known = [name for name in body["Names"] if name in self.parameters]
        found = [{"Name": name, "Type": "String", "Value": self.parameters[name]} for name in known]
        return _answer(Parameters=found, InvalidParameters=[name for name in body["Names"] if name not in known])

    def _DeleteAddon(self, body: Any, path: list[str]) -> Any:
        del self.addons[path[1], path[3]]
        return _answer(addon={})

    def _GetServiceQuota(self, body: Any, path: list[str]) -> Any:
        if body["QuotaCode"] not in self.quotas:
            return _error(400, "NoSuchResourceException", "no such quota")
        return _answer(Quota={"Value": self.quotas[body["QuotaCode"]]})

    def _GetAWSDefaultServiceQuota(self, body: Any, path: list[str]) -> Any:
        if body["QuotaCode"] not in self.default_quotas:
            return _error(400, "NoSuchResourceException", "no such quota")
        return _answer(Quota={"Value": self.default_quotas[body["QuotaCode"]]})

    def _GetProducts(self, body: Any, path: list[str]) -> Any:
        return _answer(PriceList=[json.dumps(product) for product in self.products])

    def _DescribeInstanceTypeOfferings(self, body: Any, path: list[str]) -> Any:
        offers = [(name, zone) for name, zones in (self.offers or {}).items() for zone in zones]
        return _answer(InstanceTypeOfferings=[{"InstanceType": n, "Location": f"{REGION}{z}"} for n, z in offers])

    def _DescribeSpotPriceHistory(self, body: Any, path: list[str]) -> Any:
        return _answer(SpotPriceHistory=self.spot)


def _answer(**parsed: Any) -> Any:
    return SimpleNamespace(status_code=200, headers={}), {"ResponseMetadata": {}, **parsed}


def _error(status: int, code: str, message: str) -> Any:
    parsed = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {}}
    return SimpleNamespace(status_code=status, headers={}), parsed


def pairs(tags: Tags) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def spec(kind: str, tags: Tags) -> list[dict[str, Any]]:
    return [{"ResourceType": kind, "Tags": pairs(tags)}] if tags else []
