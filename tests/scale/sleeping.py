"""Models that sleep until a request comes, on a cluster with KEDA and Karpenter.

The pods are KWOK's, so a server of this machine answers for the models.
"""

import http.client
import http.server
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any

from components.scaling import Scaling, scaling_objects
from sharing.names import tolerations
from sharing.sections.scale_to_zero import ColdRequests
from tests.cluster.karpenter import POOL, Pool, Pools
from tests.control_plane.keda import ADD_ON, ADMIN_PORT, NAMESPACE, Keda
from tests.control_plane.running import LOOPBACK

Object = dict[str, Any]
NUMBERS = count(1)
MODELS = "ollama"
PORT = 11434
ALPHA = "keda.sh/v1alpha1"
ROUTES = "http.keda.sh/v1beta1"
WORK = ("/api/generate", "/api/chat", "/api/embed", "/v1/chat/completions", "/v1/completions", "/v1/embeddings")
"""The documented paths that run a model (docs of Ollama: api.md, openai.md)."""
REQUEST_SECONDS = 240
"""Longer than any wait of a test."""


@dataclass(frozen=True)
class Answer:
    """What a caller gets."""

    status: int
    headers: dict[str, str]
    text: str


@dataclass
class Server:
    """Answers for every model, on this machine."""

    port: int = 0
    hold: threading.Event = field(default_factory=threading.Event)
    """While it is not set, no request is answered."""
    got: list[tuple[str, str]] = field(default_factory=list)
    """Host and path of each request that reached a model."""


@contextmanager
def server() -> Iterator[Server]:
    """A server while the block runs."""
    found = Server()
    found.hold.set()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            found.got.append((self.headers["Host"], self.path))
            found.hold.wait(REQUEST_SECONDS)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"hi")

        do_GET = do_POST

        def log_message(self, *_: Any) -> None:
            """Says nothing."""

    serving = http.server.ThreadingHTTPServer((LOOPBACK, 0), Handler)
    serving.daemon_threads = True
    found.port = serving.server_address[1]
    threading.Thread(target=serving.serve_forever, daemon=True).start()
    try:
        yield found
    finally:
        found.hold.set()
        serving.shutdown()
        serving.server_close()


class Sleepers:
    """Sleeping models on one cluster."""

    def __init__(self, keda: Keda, pools: Pools, server: Server) -> None:
        self.keda, self.pools, self.server = keda, pools, server
        self.api = pools.api
        self._callers = ThreadPoolExecutor(8)

    def prepare(self) -> None:
        """The pods and Services of KEDA's add-on, on a node for everything that wants no GPU."""
        for name in (NAMESPACE, MODELS):
            self.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        room = {"cpu": "2", "memory": "4Gi", "pods": "29"}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "system-0", "labels": {"kubernetes.io/os": "linux"}},
        }
        self.api.call("POST", "/api/v1/nodes", {**node, "status": {"capacity": room, "allocatable": room}})
        chosen = {"app.kubernetes.io/component": "interceptor", "app.kubernetes.io/name": "http-add-on"}
        container = {
            "name": "interceptor",
            "image": "interceptor",
            "ports": [{"name": "admin", "containerPort": ADMIN_PORT}],
        }
        for one in (
            workload(f"{ADD_ON}-interceptor", NAMESPACE, chosen, {"containers": [container]}, 1),
            service(f"{ADD_ON}-interceptor-admin", NAMESPACE, chosen, ADMIN_PORT, "admin"),
        ):
            self.api.apply(one)

    def make(
        self,
        pool: Pool,
        *,
        cooldown: int = 1,
        cold_requests: ColdRequests = "wait",
    ) -> str:
        """A model at 0 replicas with our objects that wake it; returns its name once KEDA watches it.

        `cooldown` is in seconds.
        """
        name = f"model-{next(NUMBERS)}"
        self.keda.network.serve(f"{name}.{MODELS}:{PORT}", self.server.port)
        chosen = {"app": name}
        container = {
            "name": "ollama",
            "image": "ollama",
            "ports": [{"name": "http", "containerPort": PORT}],
            "resources": {"limits": {pool.asked: "1"}},
        }
        spec = {
            "containers": [container],
            "nodeSelector": {POOL: pool.name},
            "tolerations": list(tolerations(pool.sharing.config_name)),
            "terminationGracePeriodSeconds": 0,
        }
        route, scaled = scaling_objects(name, MODELS, Scaling(cold_requests=cold_requests))
        # KEDA decides on 0 at each poll, every 30 seconds by default.
        scaled["spec"] |= {"cooldownPeriod": cooldown, "pollingInterval": 1}
        for one in (
            workload(name, MODELS, chosen, spec, 0),
            service(name, MODELS, chosen, PORT, "http"),
            route,
            scaled,
        ):
            self.api.apply(one)
        self.pools.wait_for(f"KEDA watched {name}", lambda: self.scaled(name)["status"].get("externalMetricNames"))
        self.pools.wait_for(f"the interceptor knew {name}", lambda: f"{MODELS}/{name}" in self.keda.counts())
        return name

    def scaled(self, name: str) -> Object:
        """The ScaledObject of a model."""
        return {"status": {}, **(self.api.get(ALPHA, "ScaledObject", name, MODELS) or {})}

    def replicas(self, name: str) -> int:
        """The replicas that a model's Deployment asks for."""
        found = self.api.get("apps/v1", "Deployment", name, MODELS)
        assert found
        return int(found["spec"]["replicas"])

    def ready(self, name: str) -> bool:
        """Whether a model's pod is ready."""
        found = self.api.get("apps/v1", "Deployment", name, MODELS) or {}
        return bool(found.get("status", {}).get("readyReplicas"))

    def last_active(self, name: str) -> float:
        """The last time at which KEDA saw a request, in seconds."""
        found = self.scaled(name)["status"].get("lastActiveTime")
        return datetime.fromisoformat(found).timestamp() if found else 0

    def ask(self, name: str, path: str = "/api/chat", method: str = "POST") -> "Future[Answer]":
        """Sends a request to a model through the interceptor, and does not wait."""
        return self._callers.submit(self._ask, f"{name}.{NAMESPACE}:{PORT}", path, method)

    def _ask(self, host: str, path: str, method: str) -> Answer:
        connection = http.client.HTTPConnection(LOOPBACK, self.keda.proxy, timeout=REQUEST_SECONDS)
        try:
            connection.request(method, path, "{}" if method == "POST" else None, {"Host": host})
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read().decode())
        finally:
            connection.close()

    def clear(self) -> None:
        """Deletes every model, what KEDA has to let go first."""
        for kind in (
            (ALPHA, "ScaledObject"),
            (ROUTES, "InterceptorRoute"),
            ("apps/v1", "Deployment"),
            ("v1", "Service"),
        ):
            self._delete(*kind)

    def _delete(self, api_version: str, kind: str) -> None:
        self.api.call("DELETE", self.api.collection(api_version, kind, MODELS))
        self.pools.wait_for(f"no {kind} was left", lambda: not self.api.list(api_version, kind, MODELS))


def workload(name: str, namespace: str, chosen: Object, spec: Object, replicas: int) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": chosen},
            "template": {"metadata": {"labels": chosen}, "spec": spec},
        },
    }


def service(name: str, namespace: str, chosen: Object, port: int, target: str) -> Object:
    ports = [{"name": target, "port": port, "targetPort": target}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": chosen, "ports": ports},
    }
