"""The script of the parking CronJobs, against a server that answers like the Kubernetes API."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from components.scheduled_parking.cron_jobs import SCRIPT, script_text
from components.scheduled_parking.scale_models import main
from tests.components.json_server import Answer, JsonServer, Request, serve

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


def environment_of(server: JsonServer, folder: Path, names: list[str], replicas: int, **more: str) -> dict[str, str]:
    (folder / "token").write_text("secret\n", encoding="utf-8")
    return {
        "DEPLOYMENTS": json.dumps(names),
        "REPLICAS": str(replicas),
        "NAMESPACE": "models",
        "API_SERVER": f"http://127.0.0.1:{server.server_port}",
        "CREDENTIALS": str(folder),
        **more,
    }


def scale(server: JsonServer, folder: Path, names: list[str], replicas: int, **more: str) -> tuple[int, str]:
    said = StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        status = main(environment_of(server, folder, names, replicas, **more))
    return status, said.getvalue()


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
    assert said.startswith("a: ")


def test_a_server_that_accepts_and_says_nothing_fails_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: JsonServer
) -> None:
    monkeypatch.setattr("components.scheduled_parking.scale_models.ANSWER_SECONDS", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        there = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert scale(server, tmp_path, ["a"], 0, API_SERVER=there) == (1, "a: timed out\n")


def test_it_changes_nothing_after_its_time(server: JsonServer, tmp_path: Path) -> None:
    code, said = scale(server, tmp_path, ["a"], 0, UNTIL="2020-01-01T00:00:00+00:00")
    assert (code, server.asked) == (0, [])
    assert said.startswith("nothing to do: this was for a time before ")
    assert scale(server, tmp_path, ["a"], 0, UNTIL="2999-01-01T00:00:00+00:00") == (0, "a had 1, has 0\n")


@pytest.mark.slow
def test_the_script_needs_only_its_file(server: JsonServer, tmp_path: Path) -> None:
    (tmp_path / SCRIPT).write_text(script_text(), encoding="utf-8")
    environment = environment_of(server, tmp_path, ["a"], 0)
    done = subprocess.run([sys.executable, "-B", tmp_path / SCRIPT], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "a had 1, has 0\n")
