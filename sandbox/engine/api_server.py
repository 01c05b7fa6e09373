"""Leads programs to the API servers of the emulated clusters: an HTTPS proxy that only knows these.

The program sees what it sees in AWS: the cluster's endpoint, a certificate of the cluster's authority, and a token.
"""

import json
import ssl
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from sandbox.world import World


class _Proxy(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, world: World, tls: ssl.SSLContext) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.world, self.tls = world, tls


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
        status, body = self.server.world.ask_api_server(f"https://{self.host}", token, self.path)
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@contextmanager
def serving_clusters(world: World) -> Iterator[str]:
    """Yields the address of the proxy; "" for a cloud without a certificate authority, whose clusters answer nobody."""
    if not world.authority:
        yield ""
        return
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory(prefix="tandem-sandbox-") as folder:
        keys = Path(folder, "server.pem")
        keys.write_text(world.authority["server"], encoding="ascii")
        tls.load_cert_chain(keys)
    with _Proxy(world, tls) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{proxy.server_port}"
        proxy.shutdown()
