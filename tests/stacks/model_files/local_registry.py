"""A registry on this machine that speaks Ollama's protocol in place of every host, and an empty cache."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from stacks.model_files import web

KINDS = "application/vnd.ollama.image."
"""Of layers: ollama v0.32.15 server/images.go."""
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
"""What Ollama asks a registry for: ollama v0.32.15 server/images.go, pullModelManifest."""
CDN = "cdn.example"
CONFIG = b'{"model_format": "gguf"}'


class Registry:
    """What it has, and what it was asked for."""

    def __init__(self) -> None:
        self.manifests: dict[str, bytes] = {}
        """By `host/namespace/model:tag`."""
        self.blobs: dict[str, bytes] = {}
        """By digest."""
        self.failures: dict[str, tuple[int, bytes]] = {}
        """Status and body by a part of the path."""
        self.asked: list[str] = []
        self.accepted = ""
        """The header `Accept` of the last request."""
        self.port = 0
        self.sent = 0
        """Bytes of blobs."""

    def push(self, name: str, *layers: tuple[str, bytes]) -> list[str]:
        """Adds a model; each layer is its kind and its content. Returns the digests."""
        config, *listed = (
            {
                "mediaType": kind if "/" in kind else f"{KINDS}{kind}",
                "digest": f"sha256:{hashlib.sha256(content).hexdigest()}",
                "size": len(content),
            }
            for kind, content in (("application/vnd.docker.container.image.v1+json", CONFIG), *layers)
        )
        self.manifests[name] = json.dumps({"schemaVersion": 2, "config": config, "layers": listed}).encode()
        digests = [str(layer["digest"]) for layer in listed]
        contents = [content for _, content in layers]
        self.blobs |= dict(zip([str(config["digest"]), *digests], [CONFIG, *contents], strict=True))
        return digests

    def answer(self, host: str, path: str, wanted: str | None, is_head: bool) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body."""
        for part, (status, body) in self.failures.items():
            if part in f"{host}{path}":
                return status, {"WWW-Authenticate": 'Bearer realm="https://auth.example/token"'}, body
        _, _, namespace, model, kind, what = path.split("/")
        if kind == "manifests":
            assert self.accepted == MANIFEST
            found = self.manifests.get(f"{host}/{namespace}/{model}:{what}")
            return (200, {}, found) if found else (404, {}, b'{"errors":[{"code":"MANIFEST_UNKNOWN"}]}')
        content = self.blobs[what]
        elsewhere = f"http://localhost:{self.port}" if host.endswith(f":{self.port}") else f"https://{CDN}"
        if is_head:  # Ollama asks for the size first
            return 200, {}, content
        if host not in elsewhere:  # both real registries keep their files elsewhere
            return 307, {"Location": f"{elsewhere}{path}?signature=secret"}, b"elsewhere"
        if wanted is None:
            return 200, {}, content
        end = min(int(wanted.rpartition("-")[2]) + 1, len(content))
        return 206, {"Content-Range": f"bytes 0-{end - 1}/{len(content)}"}, content[:end]


class _ToLocal(httpx.BaseTransport):
    """Sends the requests for every host to one port, with the host that was meant."""

    def __init__(self, port: int) -> None:
        self._port, self._inner = port, httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url.copy_with(scheme="http", host="127.0.0.1", port=self._port)
        request.headers["Host"] = request.url.netloc.decode()
        sent = httpx.Request(request.method, url, headers=request.headers)
        return self._inner.handle_request(sent)

    def close(self) -> None:
        self._inner.close()


@contextmanager
def running(cache: Path) -> Iterator[Registry]:
    """The registry while it runs, with a way to it and an empty cache."""
    registry = Registry()

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET(has_body=False)

        def do_GET(self, has_body: bool = True) -> None:
            host, path = self.headers["Host"], self.path.partition("?")[0]
            registry.asked.append(f"{host}{path}")
            registry.accepted = self.headers["Accept"]
            status, headers, body = registry.answer(host, path, self.headers["Range"], not has_body)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                for start in range(0, len(body) * has_body, 4096):
                    registry.sent += self.wfile.write(body[start : start + 4096])
            except OSError:
                pass  # the client has seen enough

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    registry.port = server.server_port
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(web.OFFLINE)
        patch.setenv("XDG_CACHE_HOME", str(cache))
        client = lambda: httpx.Client(transport=_ToLocal(server.server_port), headers=web.IDENTITY)  # noqa: E731
        patch.setattr(web, "open_client", client)
        try:
            yield registry
        finally:
            server.shutdown()
            server.server_close()
