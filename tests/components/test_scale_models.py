"""The script of the parking CronJobs as it runs in its pod, against a server that answers like the Kubernetes API."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.scheduled_parking.cron_jobs import SCRIPT, script_text
from tests.components.json_server import Answer, JsonServer, Request, serve

pytestmark = pytest.mark.slow

PATH = "/apis/apps/v1/namespaces/models/deployments/{}/scale"


class Api:
    """Deployments by path."""

    def __init__(self, **replicas: int) -> None:
        self.replicas = {PATH.format(name): count for name, count in replicas.items()}

    def __call__(self, asked: Request) -> Answer:
        if asked.path not in self.replicas:
            return 404, {"message": "not found"}
        if asked.body:
            self.replicas[asked.path] = asked.body["spec"]["replicas"]
        found = self.replicas[asked.path]
        # The API leaves out a number of 0 (autoscaling/v1 ScaleSpec: omitempty).
        return 200, {"kind": "Scale", "spec": {"replicas": found} if found else {}}


@pytest.fixture
def api() -> Api:
    return Api(a=1, b=1)


@pytest.fixture
def server(api: Api) -> Iterator[JsonServer]:
    with serve(api) as server:
        yield server


def scale(server: JsonServer, folder: Path, names: list[str], replicas: int, **more: str) -> tuple[int, str]:
    (folder / SCRIPT).write_text(script_text(), encoding="utf-8")
    (folder / "token").write_text("secret\n", encoding="utf-8")
    environment = {
        "DEPLOYMENTS": json.dumps(names),
        "REPLICAS": str(replicas),
        "NAMESPACE": "models",
        "API_SERVER": f"http://127.0.0.1:{server.server_port}",
        "CREDENTIALS": str(folder),
        "PATH": os.environ["PATH"],
        **more,
    }
    command = [sys.executable, "-B", str(folder / SCRIPT)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_every_deployment_is_scaled_to_zero_and_back(api: Api, server: JsonServer, tmp_path: Path) -> None:
    assert scale(server, tmp_path, ["a", "b"], 0) == (0, "a had 1, has 0\nb had 1, has 0\n")
    assert {*api.replicas.values()} == {0}
    assert scale(server, tmp_path, ["a"], 1) == (0, "a had 0, has 1\n")
    assert [*api.replicas.values()] == [1, 0]
    assert [asked[:4] for asked in server.asked[:2]] == [
        ("GET", PATH.format("a"), "Bearer secret", None),
        ("PATCH", PATH.format("a"), "Bearer secret", "application/merge-patch+json"),
    ]


def test_a_deployment_that_has_the_number_is_left_alone(server: JsonServer, tmp_path: Path) -> None:
    assert scale(server, tmp_path, ["b"], 1) == (0, "b has 1 already\n")
    assert [asked.method for asked in server.asked] == ["GET"]


def test_a_missing_deployment_fails_the_job_but_not_the_others(api: Api, server: JsonServer, tmp_path: Path) -> None:
    code, said = scale(server, tmp_path, ["gone", "b"], 0)
    assert (code, api.replicas[PATH.format("b")]) == (1, 0)
    assert 'gone: 404 {"message": "not found"}' in said


def test_a_server_that_does_not_answer_fails_the_job(server: JsonServer, tmp_path: Path) -> None:
    server.shutdown()
    server.server_close()
    code, said = scale(server, tmp_path, ["a"], 0)
    assert code == 1
    assert "a: " in said
    assert "Traceback" not in said


def test_it_changes_nothing_after_its_time(server: JsonServer, tmp_path: Path) -> None:
    code, said = scale(server, tmp_path, ["a"], 0, UNTIL="2020-01-01T00:00:00+00:00")
    assert (code, server.asked) == (0, [])
    assert said.startswith("nothing to do: this was for a time before ")
    assert scale(server, tmp_path, ["a"], 0, UNTIL="2999-01-01T00:00:00+00:00") == (0, "a had 1, has 0\n")
