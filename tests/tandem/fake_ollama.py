"""An Ollama server that answers what a test says, on a port of this machine."""

import http.server
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.tandem.deployed.listening import listening

GIB = 2**30


class FakeOllama:
    """By path: what is answered, as JSON or as bytes; `status` for other codes than 200."""

    def __init__(self, *tags: str) -> None:
        self.answers: dict[str, Any] = {
            "/api/version": {"version": "0.32.15"},
            "/api/tags": {"models": [{"name": tag} for tag in tags]},
            "/api/ps": {"models": [loaded(tag) for tag in tags]},
            "/api/generate": {
                "load_duration": 1_500_000_000,
                "eval_count": 12,
                "eval_duration": 400_000_000,
                "response": "Hello",
            },
            "/api/embed": {"load_duration": 500_000_000, "embeddings": [[0.0] * 384]},
        }
        self.status: dict[str, int] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def loaded(tag: str, size: int = 5 * GIB, size_vram: int = 5 * GIB) -> dict[str, Any]:
    return {
        "name": tag,
        "size": size,
        "size_vram": size_vram,
        "context_length": 2048,
        "expires_at": "2318-03-04T05:06:07.123456789Z",
    }


@contextmanager
def serving(fake: FakeOllama) -> Iterator[FakeOllama]:
    class Answering(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            fake.asked.append((self.path, json.loads(body) if body else {}))
            answer = fake.answers.get(self.path, {"error": "no such path"})
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(fake.status.get(self.path, 200))
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = answer

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering)
    fake.port = server.server_port
    with listening(server):
        yield fake
