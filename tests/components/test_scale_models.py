"""The script of the parking CronJobs as it runs in its pod, against a server that answers like the Kubernetes API."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from components.scheduled_parking.cron_jobs import SCRIPT, script_text

pytestmark = pytest.mark.slow

PATH = "/apis/apps/v1/namespaces/models/deployments/{}/scale"


class Api(ThreadingHTTPServer):
    """Deployments by path, and the calls."""

    daemon_threads = True

    def __init__(self, **replicas: int) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.replicas = {PATH.format(name): count for name, count in replicas.items()}
        self.calls: list[tuple[str, str, str | None, str | None]] = []


class Handler(BaseHTTPRequestHandler):
    server: Api

    def do_GET(self) -> None:
        self._answer()

    def do_PATCH(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path in self.server.replicas:
            self.server.replicas[self.path] = asked["spec"]["replicas"]
        self._answer()

    def _answer(self) -> None:
        kind = self.headers["Content-Type"] if self.command == "PATCH" else None
        self.server.calls.append((self.command, self.path, self.headers["Authorization"], kind))
        found = self.server.replicas.get(self.path)
        # The API leaves out a number of 0 (autoscaling/v1 ScaleSpec: omitempty).
        spec = {"replicas": found} if found else {}
        body: dict[str, Any] = {"message": "not found"} if found is None else {"kind": "Scale", "spec": spec}
        self.send_response(404 if found is None else 200)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def api() -> Iterator[Api]:
    with Api(a=1, b=1) as api:
        threading.Thread(target=api.serve_forever, daemon=True).start()
        yield api
        api.shutdown()


def scale(api: Api, folder: Path, names: list[str], replicas: int, **more: str) -> tuple[int, str]:
    (folder / SCRIPT).write_text(script_text(), encoding="utf-8")
    (folder / "token").write_text("secret\n", encoding="utf-8")
    environment = {
        "DEPLOYMENTS": json.dumps(names),
        "REPLICAS": str(replicas),
        "NAMESPACE": "models",
        "API_SERVER": f"http://127.0.0.1:{api.server_port}",
        "CREDENTIALS": str(folder),
        "PATH": os.environ["PATH"],
        **more,
    }
    command = [sys.executable, "-B", str(folder / SCRIPT)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_every_deployment_is_scaled_to_zero_and_back(api: Api, tmp_path: Path) -> None:
    assert scale(api, tmp_path, ["a", "b"], 0) == (0, "a had 1, has 0\nb had 1, has 0\n")
    assert {*api.replicas.values()} == {0}
    assert scale(api, tmp_path, ["a"], 1) == (0, "a had 0, has 1\n")
    assert [*api.replicas.values()] == [1, 0]
    assert api.calls[:2] == [
        ("GET", PATH.format("a"), "Bearer secret", None),
        ("PATCH", PATH.format("a"), "Bearer secret", "application/merge-patch+json"),
    ]


def test_a_deployment_that_has_the_number_is_left_alone(api: Api, tmp_path: Path) -> None:
    assert scale(api, tmp_path, ["b"], 1) == (0, "b has 1 already\n")
    assert [method for method, *_ in api.calls] == ["GET"]


def test_a_missing_deployment_fails_the_job_but_not_the_others(api: Api, tmp_path: Path) -> None:
    code, said = scale(api, tmp_path, ["gone", "b"], 0)
    assert (code, api.replicas[PATH.format("b")]) == (1, 0)
    assert 'gone: 404 {"message": "not found"}' in said


def test_a_server_that_does_not_answer_fails_the_job(api: Api, tmp_path: Path) -> None:
    api.shutdown()
    api.server_close()
    code, said = scale(api, tmp_path, ["a"], 0)
    assert code == 1
    assert "a: " in said
    assert "Traceback" not in said


def test_it_changes_nothing_after_its_time(api: Api, tmp_path: Path) -> None:
    code, said = scale(api, tmp_path, ["a"], 0, UNTIL="2020-01-01T00:00:00+00:00")
    assert (code, api.calls) == (0, [])
    assert said.startswith("nothing to do: this was for a time before ")
    assert scale(api, tmp_path, ["a"], 0, UNTIL="2999-01-01T00:00:00+00:00") == (0, "a had 1, has 0\n")
