"""The API servers of emulated clusters, for programs that look what is there before they create something.

The program sees what it sees in AWS: the cluster's endpoint, a certificate of the cluster's authority, and a token. An
HTTPS proxy leads to the endpoints, and knows these alone.
"""

import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest

import sandbox.engine
from sandbox.cloud.protocol import Question
from sandbox.engine import serving
from sandbox.world import Entity, World, tokens, world
from sandbox.world.controllers.nodes import EFFECTS, cluster_at, taints
from sandbox.world.controllers.pods import DISCOVERY, releases
from sandbox.world.entities import Entities
from sandbox.world.providers.callers import Callers
from sandbox.world.providers.descriptions import CLUSTER, describe
from sandbox.world.rules.access import may_do_all
from sandbox.world.rules.kubernetes import FIRST_NAMESPACES, is_custom
from tests.authority import identify_server, show_authority

Values = Mapping[str, Any]
_LIST = re.compile(r"/(?:api/(v1)|apis/([^/]+/[^/]+))(?:/namespaces/([^/]+))?/([^/]+)")
_EFFECTS = {eks: kubernetes for kubernetes, eks in EFFECTS.items()}


@contextmanager
def answering() -> Iterator[None]:
    """From here on, the API server of each emulated cluster answers the programs that the engine runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox.engine, "serving", _serving)
        patch.setattr(world, "describe", _describe)
        yield


def _describe(entities: Entities, question: Question, callers: Callers) -> Values | None:
    found = describe(entities, question, callers)
    shown = {"certificateAuthorities": [{"data": show_authority()}]} if question.token == CLUSTER else {}
    return None if found is None else {**found, **shown}


@contextmanager
def _serving(world: World) -> Iterator[str]:
    with _Proxy(world) as proxy, pytest.MonkeyPatch.context() as patch, serving(world) as providers:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        patch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.server_port}")
        patch.delenv("https_proxy", raising=False)
        patch.setenv("NO_PROXY", "127.0.0.1,localhost")
        yield providers
        proxy.shutdown()


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, world: World) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.world, self.tls = world, identify_server()


class _Handler(BaseHTTPRequestHandler):
    server: _Proxy
    protocol_version = "HTTP/1.1"
    host = ""

    def do_CONNECT(self) -> None:
        """From here on, the client speaks TLS with the host, which is here, too."""
        self.host = self.path.removesuffix(":443")
        self.send_response(200)
        self.end_headers()
        self.close_connection = True
        try:
            self.connection = self.server.tls.wrap_socket(self.connection, server_side=True)
        except OSError:  # the client does not trust the certificate, or has gone
            return
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", buffering=0)
        self.close_connection = False

    def do_GET(self) -> None:
        token = (self.headers["Authorization"] or "").removeprefix("Bearer ")
        status, body = _answer(Entities(self.server.world.entities()), f"https://{self.host}", token, self.path)
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


def _answer(entities: Entities, server: str, caller: str, path: str) -> tuple[int, Values]:
    """HTTP status and body of a GET request. Unknown addresses have no server: 502, as a proxy says it."""
    cluster = cluster_at(entities, server)
    if cluster is None:
        return 502, {}
    if entities.get(tokens.ACCESS_ENTRY, f"{cluster.id}:{caller}") is None:
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
    for namespace in FIRST_NAMESPACES:
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
            "spec": {"taints": [{**one, "effect": _EFFECTS[one["effect"]]} for one in taints(entity.outputs)]},
        }
    return {**entity.inputs, "metadata": metadata}
