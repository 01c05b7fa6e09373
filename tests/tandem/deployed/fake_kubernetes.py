"""An API server with answers that a test defines, on a local port, without TLS."""

import http.server
import json
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.tandem.deployed.fake_forward import forward
from tests.tandem.seen import facts

CORE, APPS = "/api/v1", "/apis/apps/v1"


class FakeKubernetes:
    """Answers by path, as JSON or bytes; `status` has codes other than 200."""

    def __init__(self) -> None:
        seen = facts()
        self.answers: dict[str, Any] = {
            "/version": {"gitVersion": "v1.36.2-eks-1"},
            f"{CORE}/nodes": {"items": seen.nodes},
            f"{CORE}/pods": {"items": seen.pods},
            f"{CORE}/namespaces/ollama/pods": {"items": seen.pods},
            f"{APPS}/namespaces/ollama/deployments": {"items": []},
            f"{APPS}/namespaces/nvidia-device-plugin/daemonsets": {
                "items": seen.daemon_sets["nvidia-device-plugin"],
            },
        }
        self.status: dict[str, int] = {}
        self.asked: list[tuple[str, str]] = []
        """Path and `Authorization` header of each request."""
        self.created: list[tuple[str, Any]] = []
        """Path and content of each object that was created. The answer is the content."""
        self.deleted: list[tuple[str, Any]] = []
        """Path and options of each deletion."""
        self.refuses: Callable[[str, str], bool] = lambda path, token: False
        self.forwarding, self.ended = threading.Event(), threading.Event()
        """Set once a port is being forwarded, and once the test has ended, which stops the forwarding."""
        self.port = 1
        """A port on which nobody listens, until it is served."""
        self.leads: dict[str, int] = {}
        """By path of a pod, the local port to which its port leads. Without one, forwarding never begins."""

    def kubeconfig(self, folder: Path, **user: Any) -> Path:
        """Writes a kubeconfig for this server into a folder."""
        config = {
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": "u", "user": user or {"token": "very-secret-token"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path = folder / "kubeconfig"
        path.write_text(json.dumps(config))
        return path


def _selects(selector: str, item: Any) -> bool:
    """Whether an object has the labels of a selector that only demands equal ones."""
    wanted = dict(pair.split("=") for pair in selector.split(","))
    return wanted.items() <= (item["metadata"].get("labels") or {}).items()


@contextmanager
def serving(fake: FakeKubernetes, port: int = 0) -> Iterator[FakeKubernetes]:
    class Answering(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def answer(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path, token = self.path.partition("?")[0].rstrip("/"), self.headers.get("Authorization") or ""
            fake.asked.append((path, token))
            pod = path.removesuffix("/portforward")
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
            if path != pod and pod in fake.leads:
                forward(self, int(query["ports"][0]), fake.leads[pod])
                return
            if path != pod:
                fake.forwarding.set()
                fake.ended.wait(60)
            default = {"message": "not found"}
            answer, status = (
                fake.answers.get(path, default),
                fake.status.get(path, 200 if path in fake.answers else 404),
            )
            if fake.refuses(path, token):
                answer, status = {"message": "Unauthorized"}, 401
            if status == 200 and "labelSelector" in query:
                answer = {"items": [item for item in answer["items"] if _selects(query["labelSelector"][0], item)]}
            if self.command == "POST" and status == 200:
                fake.created.append((path, json.loads(content)))
                answer = {**json.loads(content), **answer}
            if self.command == "DELETE":
                fake.deleted.append((path, json.loads(content)))
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = answer

    class Server(http.server.ThreadingHTTPServer):
        allow_reuse_address = True

        def handle_error(self, *_: object) -> None:
            """A client that has disconnected is no error here."""

    server = Server(("127.0.0.1", port), Answering)
    fake.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield fake
    finally:
        fake.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()
