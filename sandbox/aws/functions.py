"""What AWS's functions (data sources) answer."""

from __future__ import annotations

import json
import zlib
from typing import Any

from sandbox.aws.offers import OFFERINGS, ZONES, offerings
from sandbox.aws.places import Place
from sandbox.identity import ACCOUNT, digest
from sandbox.protocol import Answer, Question, Refused, Values

IMAGE_PARAMETERS = ("/aws/service/eks/", "/aws/service/bottlerocket/", "/aws/service/ami-")
_PRINCIPALS = (("principals", "Principal"), ("notPrincipals", "NotPrincipal"))
_LISTS = (
    ("actions", "Action"),
    ("notActions", "NotAction"),
    ("resources", "Resource"),
    ("notResources", "NotResource"),
)


def _place(question: Question) -> Place:
    return Place.of(question.args.get("region"), question.provider)


def _zones(question: Question) -> Values:
    place, args = _place(question), question.args
    hidden = {*(args.get("excludeZoneIds") or ()), *(args.get("excludeNames") or ())}
    zones = {name: code for name, code in place.zones.items() if name not in hidden and code not in hidden}
    return {
        "id": place.region,
        "region": place.region,
        "names": list(zones),
        "zoneIds": list(zones.values()),
        "groupNames": [place.region],
    }


def _partition(question: Question) -> Values:
    place = _place(question)
    reverse = ".".join(reversed(place.suffix.split(".")))
    return {
        "id": place.partition,
        "partition": place.partition,
        "dnsSuffix": place.suffix,
        "reverseDnsPrefix": reverse,
    }


def _region(question: Question) -> Values:
    place = _place(question)
    return {
        "id": place.region,
        "region": place.region,
        "name": place.region,
        "description": place.region,
        "endpoint": f"ec2.{place.region}.{place.suffix}",
    }


def _caller(question: Question) -> Values:
    arn = _place(question).arn("iam", "user/sandbox", regional=False)
    return {"id": ACCOUNT, "accountId": ACCOUNT, "arn": arn, "userId": "AIDASANDBOX"}


def _session(question: Question) -> Values:
    """Itself, for a user (terraform-provider-aws, internal/service/iam/session_context_data_source.go)."""
    arn = question.args["arn"]
    return {"id": arn, "arn": arn, "issuerArn": arn, "issuerId": "", "issuerName": "", "sessionName": ""}


def _parameter(question: Question) -> Values:
    """AWS's public parameters, which name machine images and their releases; nobody else's parameters exist here."""
    name = str(question.args["name"])
    if not name.startswith(IMAGE_PARAMETERS):
        raise Refused(
            f"the emulated account has no parameter {name!r}, only AWS's own below {', '.join(IMAGE_PARAMETERS)}. "
            "Give this run its own answer: Cloud(answers={'aws:ssm/getParameter:getParameter': {...}})."
        )
    place = _place(question)
    value = f"ami-{digest(name)}"
    if name.endswith(("release_version", "image_version")):
        version = next((part for part in name.split("/") if part[:1].isdigit()), "1.0")
        value = f"{version}.0-20260101"
    return {
        "id": name,
        "name": name,
        "region": place.region,
        "arn": place.arn("ssm", f"parameter{name}"),
        "type": "String",
        "value": value,
        "insecureValue": value,
        "version": 1,
    }


def addon_version(kubernetes: str) -> str:
    """An EKS add-on's version, invented."""
    return f"v{kubernetes}.0-eksbuild.1"


def _addon_version(question: Question) -> Values:
    args = question.args
    version = addon_version(str(args["kubernetesVersion"]))
    return {**args, "id": args["addonName"], "mostRecent": args.get("mostRecent", False), "version": version}


def _collapsed(values: Any) -> Any:
    """As the provider writes lists in a policy: one as itself, several sorted."""
    values = sorted({str(value) for value in values})
    return values[0] if len(values) == 1 else values


def _principals(given: Any) -> Any:
    by_type: dict[str, list[str]] = {}
    for one in given:
        by_type.setdefault(one["type"], []).extend(one["identifiers"])
    if by_type == {"*": ["*"]}:
        return "*"
    return {kind: _collapsed(identifiers) for kind, identifiers in sorted(by_type.items())}


def _statement(given: Values) -> Values:
    statement: dict[str, Any] = {"Sid": given["sid"]} if given.get("sid") else {}
    statement["Effect"] = given.get("effect") or "Allow"
    for key, written in _PRINCIPALS:
        if given.get(key):
            statement[written] = _principals(given[key])
    for key, written in _LISTS:
        if given.get(key):
            statement[written] = _collapsed(given[key])
    conditions: dict[str, dict[str, Any]] = {}
    for one in given.get("conditions") or ():
        conditions.setdefault(one["test"], {})[one["variable"]] = _collapsed(one["values"])
    return {**statement, "Condition": conditions} if conditions else statement


def _policy_document(question: Question) -> Values:
    args = question.args
    statements: list[Values] = []
    for source in args.get("sourcePolicyDocuments") or ():
        statements.extend(_statements_of(source))
    own = [_statement(one) for one in args.get("statements") or ()]
    statements = _overridden(statements, own)
    for source in args.get("overridePolicyDocuments") or ():
        statements = _overridden(statements, _statements_of(source))
    document: dict[str, Any] = {"Version": args.get("version") or "2012-10-17"}
    if args.get("policyId"):
        document["Id"] = args["policyId"]
    document["Statement"] = statements
    text = json.dumps(document, indent=2)
    return {
        **args,
        "id": str(zlib.crc32(text.encode())),
        "json": text,
        "minifiedJson": json.dumps(document, separators=(",", ":")),
    }


def _statements_of(document: str) -> list[Values]:
    statements: list[Values] | Values = json.loads(document)["Statement"]
    return statements if isinstance(statements, list) else [statements]


def _overridden(statements: list[Values], later: list[Values]) -> list[Values]:
    """Later statements take the place of earlier ones with the same Sid."""
    named = {one["Sid"]: one for one in later if "Sid" in one}
    kept = [named.pop(one["Sid"], one) if "Sid" in one else one for one in statements]
    return kept + [one for one in later if "Sid" not in one or one["Sid"] in named]


ANSWERS: dict[str, Answer | Values] = {
    ZONES: _zones,
    "aws:index/getPartition:getPartition": _partition,
    "aws:index/getRegion:getRegion": _region,
    "aws:index/getCallerIdentity:getCallerIdentity": _caller,
    "aws:iam/getSessionContext:getSessionContext": _session,
    "aws:ssm/getParameter:getParameter": _parameter,
    "aws:eks/getAddonVersion:getAddonVersion": _addon_version,
    "aws:iam/getPolicyDocument:getPolicyDocument": _policy_document,
    OFFERINGS: lambda question: offerings(question, {}),
    # Nothing is up before the first `up`; a world knows more (sandbox/world/functions.py).
    "aws:eks/getClusters:getClusters": {"id": "clusters", "names": []},
}
