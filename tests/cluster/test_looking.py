"""`tandem verify` and `tandem watch` against a real API server: they list, forward ports and run commands through it.

The test's small server answers on the forwarded ports; commands in pods run on this machine.
"""

import io
import json
import os
import re
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from sandbox.graph import Graph
from tandem.deployed import connection
from tandem.deployed.connection import Connected, endpoints
from tandem.deployed.endpoints import NotConnectedError
from tandem.main import main
from tandem.verify.overfill import MARK, overfill
from tests.cluster.deployment import Deployment, Graphs
from tests.cluster.kubelet import Kubelet, kubelet
from tests.cluster.nodes import nodes
from tests.command import ROOT
from tests.control_plane.recipe import CERTIFICATE_MAKER
from tests.control_plane.running import ControlPlane
from tests.tandem.fake_ollama import FakeOllama, loaded, ollama
from tests.tandem.seen import planned

GPU_NODE = "tandem-gpu-group-0"
FOUND_OUT = {
    "nvidia.com/gpu.sharing-strategy": "time-slicing",
    "nvidia.com/gpu.replicas": "2",
    "nvidia.com/mps.capable": "false",
}
"""Labels that feature discovery would set."""
TAGS = ("llama2:7b", "mistral:7b")
SMI = "#!/bin/sh\necho 'GPU-1, Tesla T4, 9300, 15360, 37'\n"


@pytest.fixture(scope="module")
def server() -> Iterator[FakeOllama]:
    with ollama(*TAGS) as fake:
        yield fake


@pytest.fixture(scope="module")
def node_agent(plane: ControlPlane, server: FakeOllama, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubelet]:
    folder = tmp_path_factory.mktemp("kubelet")
    (folder / "nvidia-smi").write_text(SMI)
    (folder / "nvidia-smi").chmod(0o755)
    port = int(server.url.rpartition(":")[2])
    with kubelet(plane, folder, {11434: port}, programs=folder) as running:
        yield running


@dataclass
class Stack:
    """The stack `timeslice`, deployed and healthy."""

    cluster: Deployment
    kubeconfig: Path
    graph: Graph

    @property
    def config(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads(self.kubeconfig.read_text())
        return read


@pytest.fixture
def stack(cluster: Deployment, graphs: Graphs, node_agent: Kubelet, server: FakeOllama) -> Stack:
    server.answers["/api/ps"] = {"models": [loaded(tag) for tag in TAGS]}
    graph = graphs("timeslice")
    for node in nodes(graph):
        cluster.join(node_agent.of(node))
    cluster.deploy(graph, with_nodes=False)
    cluster.wait_for_models("llama2-7b", "mistral-7b")
    for daemon in ("nvidia-device-plugin-gpu", "nvidia-device-plugin-gpu-gpu-feature-discovery"):
        cluster.wait_for_daemons(daemon, {GPU_NODE})
    cluster.relabel(GPU_NODE, FOUND_OUT)
    return Stack(cluster, cluster.plane.kubeconfig, graph)


def run(command: str, kubeconfig: Path, *options: str) -> int:
    return main([command, "timeslice", "--kubeconfig", str(kubeconfig), *options])


def overfilling(stack: Stack) -> list[Any]:
    return stack.cluster.api.list("v1", "Pod", labelSelector=MARK)


@pytest.fixture
def reached(stack: Stack) -> Iterator[Connected]:
    with connection.connect(planned(), connection.by_kubeconfig(stack.kubeconfig, None)) as connected:
        yield connected


def test_a_stack_that_is_well_keeps_every_expectation(stack: Stack, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("verify", stack.kubeconfig, "--overfill") == 0
    shown = capfd.readouterr()
    assert "FAILED" not in shown.out
    assert "16 tokens, 50.0 tokens/s" in shown.out
    assert "Insufficient nvidia.com/gpu" in shown.out
    assert shown.out.rstrip().endswith("30 of 30 checks passed, 0 failed")
    assert "Traceback" not in shown.err
    assert overfilling(stack) == []


def test_one_pod_too_many_is_admitted_where_pods_are_restricted(stack: Stack, reached: Connected) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    stack.cluster.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "strict", "labels": labels}})
    at = [node for node in reached.cluster.nodes() if node["metadata"]["name"] == GPU_NODE]
    [check] = overfill(reached.cluster, reached.plan.config.pools[0], at, "strict")
    assert (check.held, check.what) == (True, "one pod too many stays Pending for nvidia.com/gpu (0 free)")
    assert overfilling(stack) == []


def delete_pod(stack: Stack, model: str) -> None:
    [pod] = [one["metadata"]["name"] for one in stack.cluster.pods("ollama") if model in one["metadata"]["name"]]
    stack.cluster.api.call("DELETE", f"/api/v1/namespaces/ollama/pods/{pod}", {"gracePeriodSeconds": 0})


def test_a_forwarded_port_finds_the_pod_that_replaces_another(stack: Stack, reached: Connected) -> None:
    with endpoints(reached) as [llama, _]:
        assert (llama.id, llama.model) == ("llama2-7b", "llama2:7b")
        with httpx.Client(base_url=llama.url) as client:
            assert client.get("/api/version").json() == {"version": "0.32.15"}
            delete_pod(stack, "llama2-7b")
            stack.cluster.wait_for_models("llama2-7b", "mistral-7b")
            assert client.get("/api/version").json() == {"version": "0.32.15"}
            assert httpx.get(f"{llama.url}/api/version").json() == {"version": "0.32.15"}


def test_a_forwarded_port_carries_much_and_many(stack: Stack, server: FakeOllama, reached: Connected) -> None:
    server.answers["/big"] = os.urandom(3_000_000)
    with endpoints(reached) as [llama, mistral], httpx.Client() as client:
        for endpoint in (llama, mistral, llama):
            assert client.get(f"{endpoint.url}/big").content == server.answers["/big"]
        answer = client.post(f"{llama.url}/api/generate", json={"model": TAGS[0], "prompt": "x" * 1_000_000})
        assert answer.status_code == 200
        assert len(server.asked[-1][1]["prompt"]) == 1_000_000


def test_run_and_env_reach_a_model_through_the_api_server(
    stack: Stack, server: FakeOllama, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.stdin", io.StringIO("Hello?"))
    way = ("--kubeconfig", str(stack.kubeconfig))
    assert main(["run", "timeslice", "mistral:7b", *way, "--max-tokens", "2"]) == 0
    assert capfd.readouterr().out.rstrip() == "word0 word1"
    assert (server.requests[-1]["model"], server.requests[-1]["messages"][-1]["content"]) == ("mistral:7b", "Hello?")
    try:
        assert main(["env", "timeslice", "--json", *way]) == 0
        opened = json.loads(capfd.readouterr().out)
        delete_pod(stack, "llama2-7b")
        stack.cluster.wait_for_models("llama2-7b", "mistral-7b")
        for model in opened["models"]:
            assert httpx.get(f"{model['ollama_host']}/api/version").json() == {"version": "0.32.15"}
    finally:
        assert main(["env", "timeslice", "--stop"]) == 0


@pytest.mark.parametrize("without", ["", "create"])
def test_the_role_of_the_guide_is_enough_to_run_a_model_and_to_open_ports(
    without: str, stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The WebSocket of a forwarded port is a GET, and Kubernetes 1.35 or later also asks for `create`."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    guide = (ROOT / "docs" / "how-to" / "connect-to-the-models.md").read_text(encoding="utf-8")
    [text] = re.findall(r"```yaml\n(apiVersion: rbac.*?)```", guide, re.DOTALL)
    role, binding = yaml.safe_load_all(text)
    for rule in role["rules"]:
        rule["verbs"] = [verb for verb in rule["verbs"] if verb != without]
    # In place of the group that EKS gives the token of an access entry.
    subjects = [{"kind": "ServiceAccount", "name": "colleague", "namespace": "default"}]
    assert [one["kind"] for one in binding["subjects"]] == ["Group"]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "colleague", "namespace": "default"}}
    for made in (account, role, {**binding, "subjects": subjects}):
        stack.cluster.api.apply(made)
    way = ("--kubeconfig", str(kubeconfig_with(stack, tmp_path, {"token": stack.cluster.token_of("colleague")})))
    monkeypatch.setattr("sys.stdin", io.StringIO("Hello?"))
    answered = main(["run", "timeslice", "mistral:7b", *way, "--max-tokens", "2"])
    shown = capfd.readouterr()
    if without:
        assert (answered, "refuses to forward a port" in shown.err) == (1, True), shown
        return
    assert (answered, shown.out.rstrip()) == (0, "word0 word1"), shown
    try:
        assert main(["env", "timeslice", "--json", *way]) == 0
        for model in json.loads(capfd.readouterr().out)["models"]:
            assert httpx.get(f"{model['ollama_host']}/api/version").json() == {"version": "0.32.15"}
    finally:
        assert main(["env", "timeslice", "--stop"]) == 0
    assert run("verify", Path(way[1])) == 2
    assert "denied access" in capfd.readouterr().err


def test_a_cluster_is_left_even_while_a_port_is_open(stack: Stack) -> None:
    """Ctrl-C is possible while a port is being opened or closed."""

    def leave() -> None:
        with connection.connect(planned(), connection.by_kubeconfig(stack.kubeconfig, None)) as connected:
            opened.append(connection.forwards(connected))
            opened[0].__enter__()

    opened: list[Any] = []
    leaving = threading.Thread(target=leave, daemon=True)
    leaving.start()
    leaving.join(30)
    assert opened
    assert not leaving.is_alive()
    with suppress(RuntimeError):  # its event loop has ended
        opened[0].__exit__(None, None, None)


def test_watch_asks_the_plugins_pod_for_the_gpu(stack: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("watch", stack.kubeconfig, "--once", "--json", "--probe") == 0
    [line] = capsys.readouterr().out.splitlines()
    look = json.loads(line)
    [gpu] = look["gpus"]
    assert (gpu["name"], gpu["used_mib"], gpu["busy_percent"]) == ("Tesla T4", 9300, 37)
    assert [model["tokens_per_s"] for model in look["models"]] == [50.0, 50.0]
    assert look["trouble"] == []


def refused(stack: Stack, kubeconfig: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """The error of `verify` when it cannot connect: one line on stderr, exit code 2."""
    assert run("verify", kubeconfig, *options) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    line = shown.err.splitlines()[-1]
    assert line.startswith("error: ")
    assert "Traceback" not in shown.err
    return line


def kubeconfig_with(stack: Stack, folder: Path, user: dict[str, Any], **cluster: str) -> Path:
    """The kubeconfig with another user, if one is given, and with changes to its cluster."""
    config = stack.config
    config["users"][0]["user"] = user or config["users"][0]["user"]
    config["clusters"][0]["cluster"] |= cluster
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return path


def test_a_user_who_may_look_and_not_forward_sees_that(
    stack: Stack, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    api, name = "rbac.authorization.k8s.io", {"name": "looker"}
    resources = ["nodes", "pods", "daemonsets", "deployments"]
    rules = [{"apiGroups": ["", "apps"], "resources": resources, "verbs": ["get", "list"]}]
    subjects = [{"kind": "ServiceAccount", **name, "namespace": "default"}]
    role = {"apiGroup": api, "kind": "ClusterRole", **name}
    for made in (
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**name, "namespace": "default"}},
        {"apiVersion": f"{api}/v1", "kind": "ClusterRole", "metadata": name, "rules": rules},
        {
            "apiVersion": f"{api}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": name,
            "roleRef": role,
            "subjects": subjects,
        },
    ):
        stack.cluster.api.apply(made)
    kubeconfig = kubeconfig_with(stack, tmp_path, {"token": stack.cluster.token_of("looker")})
    assert run("verify", kubeconfig, "--json") == 1
    shown = json.loads(capsys.readouterr().out)
    assert shown["first_broken"]["what"] == "server answers"
    assert "refuses to forward a port" in shown["first_broken"]["found"]
    assert "Request `get` and `create` on pods/portforward in namespace ollama" in shown["first_broken"]["fix"]
    assert run("watch", kubeconfig, "--once", "--json") == 0
    assert "`nvidia-smi` may not run in nvidia-device-plugin" in json.loads(capsys.readouterr().out)["trouble"][0]


def test_a_program_may_give_the_token_as_on_eks(stack: Stack, tmp_path: Path) -> None:
    status = {"kind": "ExecCredential", "status": {"token": stack.config["users"][0]["user"]["token"]}}
    program = tmp_path / "login"
    program.write_text(f"#!/bin/sh\necho '{json.dumps(status)}'\n")
    program.chmod(0o755)
    exec_ = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": str(program)}
    assert run("verify", kubeconfig_with(stack, tmp_path, {"exec": exec_})) == 0


@pytest.mark.parametrize(
    ("user", "cluster_changes", "words"),
    [
        ({"token": "expired-token"}, {}, "rejected the token of context 'local' (401)"),
        (
            {"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "aws"}},
            {},
            "gets its token from `aws`, which is not on the PATH. Install the AWS CLI",
        ),
        ({}, {"server": "https://no-such-host.invalid"}, "no-such-host.invalid cannot be reached"),
        ({}, {"certificate-authority": "cert.pem"}, "does not match context 'local'"),
    ],
    ids=["an unknown token", "no AWS CLI", "no such host", "another cluster under the same address"],
)
def test_what_keeps_a_command_from_looking_is_reported(
    stack: Stack,
    user: dict[str, Any],
    cluster_changes: dict[str, str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    maker = stack.cluster.plane.programs / CERTIFICATE_MAKER
    subprocess.run([maker, "--ca", "--host", "127.0.0.1"], cwd=tmp_path, check=True, capture_output=True)
    monkeypatch.setenv("PATH", str(tmp_path))
    line = refused(stack, kubeconfig_with(stack, tmp_path, user, **cluster_changes), capsys)
    assert words in line
    assert "expired-token" not in line


def test_a_cluster_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tandem.deployed.kubernetes.CONNECT_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = {
            "clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{silent.getsockname()[1]}"}}],
            "users": [{"name": "u", "user": {"token": "x"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path = tmp_path / "config"
        path.write_text(json.dumps(config))
        with pytest.raises(NotConnectedError, match=r"cannot be reached \(no answer in time\)") as error:
            connection.connect(planned(), connection.by_kubeconfig(path, None)).__enter__()
        assert error.value.passing
