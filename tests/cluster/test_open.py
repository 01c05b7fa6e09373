"""`tandem open` against a real API server, which forwards its port to a server of the test."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from tests.cluster.deployment import Deployment, Graphs, is_ready
from tests.cluster.kubelet import Kubelet, kubelet
from tests.cluster.nodes import nodes
from tests.control_plane.running import ControlPlane
from tests.tandem.fake_ollama import FakeOllama, ollama

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server() -> Iterator[FakeOllama]:
    with ollama("llama2:7b") as fake:
        fake.answers["/health"] = {"status": True}
        yield fake


@pytest.fixture(scope="module")
def node_agent(plane: ControlPlane, server: FakeOllama, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubelet]:
    folder, port = tmp_path_factory.mktemp("kubelet"), int(server.url.rpartition(":")[2])
    with kubelet(plane, folder, {8080: port}, programs=folder) as running:
        yield running


def test_the_page_is_reached_until_ctrl_c(
    cluster: Deployment, graphs: Graphs, node_agent: Kubelet, tmp_path: Path
) -> None:
    graph = graphs("ui")
    for node in nodes(graph):
        cluster.join(node_agent.of(node))
    cluster.deploy(graph, with_nodes=False)
    cluster.wait_for("the page ran", lambda: [pod for pod in cluster.pods("open-webui") if is_ready(pod)])

    document = yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text(encoding="utf-8"))
    document["config"]["tandem:ui"] = {"enabled": True, "admin-email": "ops@example.com"}
    file = tmp_path / "Pulumi.page.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    command = [sys.executable, "-m", "tandem", "open", str(file), "--kubeconfig", str(cluster.plane.kubeconfig)]
    with subprocess.Popen(
        [*command, "--port", "0", "--json"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        shown = json.loads(process.stdout.readline())
        assert httpx.get(f"{shown['url']}/health").json() == {"status": True}
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert (process.returncode, said) == (0, "")
    with pytest.raises(httpx.ConnectError):
        httpx.get(shown["url"])
