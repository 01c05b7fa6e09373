"""The API server of an emulated cluster, for programs that look what is there before they create something."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from sandbox.cloud.protocol import Values
from sandbox.world import tokens
from sandbox.world.controllers.nodes import EFFECTS, cluster_at, taints
from sandbox.world.controllers.pods import DISCOVERY, releases
from sandbox.world.entities import Entities, Entity
from sandbox.world.providers.descriptions import caller_of
from sandbox.world.rules.access import may_do_all
from sandbox.world.rules.kubernetes import FIRST_NAMESPACES, is_custom

_LIST = re.compile(r"/(?:api/(v1)|apis/([^/]+/[^/]+))(?:/namespaces/([^/]+))?/([^/]+)")
_EFFECTS = {eks: kubernetes for kubernetes, eks in EFFECTS.items()}


def answer(entities: Entities, server: str, token: str, path: str) -> tuple[int, Values]:
    """HTTP status and body of a GET request. Unknown addresses have no server: 502, as a proxy says it."""
    cluster, caller = cluster_at(entities, server), caller_of(token)
    if cluster is None:
        return 502, {}
    if not caller or entities.get(tokens.ACCESS_ENTRY, f"{cluster.id}:{caller}") is None:
        return 401, {}
    if not may_do_all(entities, cluster, caller):
        return 403, {}
    if (found := _LIST.fullmatch(urlsplit(path).path)) is None:
        return 404, {}
    core, others, namespace, plural = found.groups()
    version = core or others
    crd = entities.get(tokens.CRD, f"{plural}.{version.rpartition('/')[0]}")
    if is_custom(f"{tokens.KUBERNETES}{version}:") and crd not in entities.within(server, tokens.CRD):
        return 404, {}
    items = [
        one
        for of, one in _objects(entities, cluster)
        if of == (version, plural) and namespace in (None, one["metadata"].get("namespace"))
    ]
    return 200, {"items": items}


def _objects(entities: Entities, cluster: Entity) -> Iterator[tuple[tuple[str, str], dict[str, Any]]]:
    """Version and plural of each object, and the object. Of pods, only what a program looks for."""
    server = str(cluster.outputs["endpoint"])
    for namespace in sorted(FIRST_NAMESPACES):
        yield ("v1", "namespaces"), {"metadata": {"name": namespace}}
    for release in releases(entities, server, DISCOVERY):
        yield ("apps/v1", "deployments"), _workload(str(release.inputs["name"]), release.namespace, DISCOVERY)
    for addon in entities.having(tokens.ADDON, clusterName=cluster.id):
        name = str(addon.inputs["addonName"])
        if name == "coredns":
            yield ("v1", "services"), {"metadata": {"name": "kube-dns", "namespace": "kube-system"}}
        else:
            yield ("apps/v1", "daemonsets"), _workload(name, "kube-system", f"eks/{name}")
    for entity in entities.inside(server):
        _, version, kind = entity.type.split(":")
        plural = kind.lower() + ("es" if kind.endswith("s") else "s")
        yield (version.removeprefix("core/"), plural), _shown(entity)


def _workload(name: str, namespace: str, image: str) -> dict[str, Any]:
    """A workload whose pods run on every node. Those of vpc-cni have the folder by which a network plugin is known."""
    folders = [{"hostPath": {"path": "/etc/cni/net.d"}}] if name == "vpc-cni" else []
    pod = {"containers": [{"image": image}], "tolerations": [{"operator": "Exists"}], "volumes": folders}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"template": {"spec": pod}}}


def _shown(entity: Entity) -> dict[str, Any]:
    metadata = {"name": entity.id.rpartition("/")[2], **(entity.outputs.get("metadata") or {})}
    if entity.type == tokens.NODE:
        return {
            "metadata": metadata,
            "spec": {"taints": [{**one, "effect": _EFFECTS[one["effect"]]} for one in taints(entity)]},
        }
    return {**entity.inputs, "metadata": metadata}
