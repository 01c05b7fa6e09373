"""The API server of an emulated cluster, for those who only read: its objects, as its HTTP API lists them."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from sandbox.cloud.identity import digest
from sandbox.cloud.protocol import Values
from sandbox.world import tokens
from sandbox.world.controllers.nodes import EFFECTS, cluster_at, taints
from sandbox.world.controllers.plugin import advertised
from sandbox.world.controllers.workloads import workloads
from sandbox.world.entities import Entities, Entity
from sandbox.world.providers.descriptions import caller_of
from sandbox.world.rules.access import ADMIN_POLICY
from sandbox.world.rules.kubernetes import FIRST_NAMESPACES, is_custom

READERS = (ADMIN_POLICY, "AmazonEKSAdminViewPolicy")
"""Access policies that allow to list every kind of object.
https://docs.aws.amazon.com/eks/latest/userguide/access-policy-permissions.html"""
_LIST = re.compile(r"/(?:api/(v1)|apis/([^/]+/[^/]+))(?:/namespaces/([^/]+))?/([^/]+)")
_EFFECTS = {eks: kubernetes for kubernetes, eks in EFFECTS.items()}
NOT_FOUND = "the server could not find the requested resource"
Answer = tuple[int, Values]


def answer(entities: Entities, server: str, token: str, path: str) -> Answer:
    """HTTP status and body of a GET request. Unknown addresses have no server: 502, as a proxy says it."""
    cluster, caller, place = cluster_at(entities, server), caller_of(token), urlsplit(path).path
    if cluster is None:
        return _refusal(502, "BadGateway", f"{server} cannot be resolved")
    if not caller or entities.get(tokens.ACCESS_ENTRY, f"{cluster.id}:{caller}") is None:
        return _refusal(401, "Unauthorized", "Unauthorized")
    if (found := _LIST.fullmatch(place)) is None:
        return _refusal(404, "NotFound", NOT_FOUND)
    core, others, namespace, plural = found.groups()
    version = core or others
    group = version.rpartition("/")[0]
    policies = entities.having(tokens.ACCESS_POLICY, clusterName=cluster.id, principalArn=caller)
    if not any(str(one.inputs["policyArn"]).endswith(READERS) for one in policies):
        words = f'cannot list resource "{plural}" in API group "{group}" at the cluster scope'
        return _refusal(403, "Forbidden", f'{plural}.{group} is forbidden: User "{caller}" {words}')
    custom = is_custom(f"{tokens.KUBERNETES}{version}:")
    if custom and entities.get(tokens.CRD, f"{plural}.{group}") not in entities.within(server, tokens.CRD):
        return _refusal(404, "NotFound", NOT_FOUND)
    # Only lists of custom resources name the kind of each item.
    items = [
        one if custom else {key: value for key, value in one.items() if key not in ("apiVersion", "kind")}
        for of, one in _objects(entities, server)
        if of == (version, plural) and namespace in (None, one["metadata"].get("namespace"))
    ]
    return 200, {"kind": "List", "apiVersion": version, "metadata": {"resourceVersion": "1"}, "items": items}


def _objects(entities: Entities, server: str) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    """Version and plural of each object, and the object."""
    for namespace in sorted(FIRST_NAMESPACES):
        yield ("v1", "namespaces"), _complete({"metadata": {"name": namespace}})
    for kind, workload in workloads(entities, server):
        yield ("v1" if kind == "Service" else "apps/v1", _plural(kind)), _complete(workload)
    for entity in entities.inside(server):
        _, version, kind = entity.type.split(":")
        if entity.type not in (tokens.RELEASE, tokens.POD):
            yield (version.removeprefix("core/"), _plural(kind)), _complete(_shown(entities, entity))


def _shown(entities: Entities, entity: Entity) -> dict[str, Any]:
    metadata = {"name": entity.id.rpartition("/")[2], **(entity.outputs.get("metadata") or {})}
    if entity.type != tokens.NODE:
        return {**{key: value for key, value in entity.inputs.items() if key[:2] != "__"}, "metadata": metadata}
    has = [{**one, "effect": _EFFECTS[one["effect"]]} for one in taints(entity)]
    offered = {resource: str(offer.count) for resource, offer in advertised(entities, entity).items()}
    return {"metadata": metadata, "spec": {**entity.outputs["spec"], "taints": has}, "status": {"allocatable": offered}}


def _complete(one: Values) -> dict[str, Any]:
    """The object with the metadata that the server sets."""
    metadata = one["metadata"]
    uid = digest("uid", str(metadata.get("namespace")), metadata["name"], length=32)
    return {**one, "metadata": {**metadata, "uid": uid, "resourceVersion": "1"}}


def _plural(kind: str) -> str:
    """The plural of a kind (apimachinery, pkg/api/meta/restmapper.go, UnsafeGuessKindToResource)."""
    word = kind.lower()
    return word + "es" if word.endswith("s") else word[:-1] + "ies" if word.endswith("y") else word + "s"


def _refusal(code: int, reason: str, message: str) -> Answer:
    return code, {"apiVersion": "v1", "kind": "Status", "code": code, "reason": reason, "message": message}
