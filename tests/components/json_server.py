"""A server on this machine that answers with JSON, for what runs in pods."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Request(NamedTuple):
    """One request. `body` is None without one."""

    method: str
    path: str
    authorization: str | None
    kind: str | None
    """Type of the body."""
    body: Any


Answer = tuple[int, object]


class JsonServer(ThreadingHTTPServer):
    """Answers each request with the status and the object that `answer` returns for it."""

    daemon_threads = True

    def __init__(self, answer: Callable[[Request], Answer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.asked: list[Request] = []


class _Handler(BaseHTTPRequestHandler):
    server: JsonServer

    def do_GET(self) -> None:
        length = int(self.headers["Content-Length"] or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        kind = self.headers["Content-Type"] if length else None
        asked = Request(self.command, self.path, self.headers["Authorization"], kind, body)
        self.server.asked.append(asked)
        status, said = self.server.answer(asked)
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(said).encode())

    do_POST = do_PATCH = do_GET

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serve(answer: Callable[[Request], Answer], tls: ssl.SSLContext | None = None) -> Iterator[JsonServer]:
    with JsonServer(answer) as server:
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        # By default, it looks every half second whether it has to stop, and `shutdown` waits for that.
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield server
        server.shutdown()
