"""`tandem open`: which stacks have a page, waiting for it, the addresses, and the local port."""

import json
import socket
import webbrowser
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tandem.deployed.endpoints import NotConnectedError
from tandem.deployed.patience import Patience
from tandem.main import main
from tandem.ui import page
from tests.tandem.deployed.fake_kubernetes import CORE, FakeKubernetes, serving
from tests.tandem.deployed.pretended import Clock, Cluster, connected, well
from tests.tandem.fake_ollama import FakeOllama

ROOT = Path(__file__).parents[3]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A stack with a page."""
    dev = (ROOT / "Pulumi.dev.yaml").read_text(encoding="utf-8")
    path = tmp_path / "Pulumi.page.yaml"
    path.write_text(f"{dev}  tandem:ui: {{enabled: true, admin-email: ops@example.com}}\n", encoding="utf-8")
    return path


def interrupt(seconds: float) -> None:
    raise KeyboardInterrupt


@pytest.fixture
def cluster(llama: FakeOllama, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Its forwarded ports lead to a server in place of the page. The user presses Ctrl-C at once."""
    llama.answers["/health"] = {"status": True}
    cluster = well()
    cluster.url = llama.url
    monkeypatch.setattr(page, "reached", lambda parsed: nullcontext(connected(cluster)))
    monkeypatch.setattr(page, "sleep", interrupt)
    return cluster


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the browser opens."""
    urls: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: urls.append(url) or True)  # type: ignore[func-returns-value]
    return urls


def test_the_page_is_opened_and_its_addresses_are_printed_without_the_password(
    file: Path, cluster: Cluster, opened: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["open", str(file)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown == [
        f"Page      {cluster.url}",
        "Password  pulumi stack output ui_admin_password --show-secrets --stack page",
        f"OpenAI    {cluster.url}/api (base URL for programs; keys: Settings > Account)",
        "Press Ctrl-C to close the port.",
    ]
    assert opened == [cluster.url]
    labels = {"app.kubernetes.io/name": "open-webui"}
    assert cluster.forwarded == [("the web page", "open-webui", labels, 8080, {"local": 8080})]


def test_programs_get_one_object_and_no_browser(
    file: Path, cluster: Cluster, opened: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["open", str(file), "--json", "--port", "0"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out) == {
        "schema_version": 1,
        "stack": "page",
        "url": cluster.url,
        "openai_url": f"{cluster.url}/api",
    }
    assert (opened, shown.err, shown.out.count("\n")) == ([], "", 1)
    assert cluster.forwarded[0][-1] == {"local": 0}
    assert main(["open", str(file), "--no-browser"]) == 0
    assert opened == []


def test_a_machine_without_a_browser_is_no_failure(
    file: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda url: False)
    assert main(["open", str(file)]) == 0
    assert "Open the address yourself." in capsys.readouterr().err


def test_the_command_says_what_it_waits_for_and_gives_a_page_the_time_of_its_probe(
    file: Path, cluster: Cluster, llama: FakeOllama, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its startup probe has five minutes."""
    llama.status["/health"] = 503
    clock = Clock()
    monkeypatch.setattr(page, "Patience", partial(Patience, clock=clock, sleep=clock.sleep))
    assert main(["open", str(file)]) == 2
    assert capsys.readouterr().err.startswith("Waiting for the page: it answers /health with 503\nerror: the web page")
    assert 300 < sum(clock.slept) < 400


def test_a_page_that_starts_is_waited_for(llama: FakeOllama) -> None:
    said: list[str] = []

    def tell(why: str) -> None:
        said.append(why)
        if len(said) == 2:
            llama.answers["/health"] = {"status": True}

    clock = Clock()
    forward: Any = SimpleNamespace(url=llama.url, trouble="")
    page.wait_for_page(forward, Patience(60, tell=tell, clock=clock, sleep=clock.sleep))
    assert said == ["Waiting for the page: it answers /health with 404"] * 2
    assert clock.slept == [5, 5]


def test_a_page_that_never_answers_ends_the_command_with_the_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    clock = Clock()
    forward: Any = SimpleNamespace(url=url, trouble="the web page has no ready pod (Pending, ImagePullBackOff)")
    with pytest.raises(NotConnectedError) as raised:
        page.wait_for_page(forward, Patience(12, clock=clock, sleep=clock.sleep))
    assert "has no ready pod (Pending, ImagePullBackOff)" in str(raised.value)
    assert "kubectl --namespace open-webui describe pods" in str(raised.value)
    assert clock.slept == [5, 5, 2]


def test_a_lost_and_a_restored_page_are_reported_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    forward: Any = SimpleNamespace(url="", trouble="")
    troubles = iter(["", "the pod was lost", "the pod was lost", "", ""])

    def advance(seconds: float) -> None:
        try:
            forward.trouble = next(troubles)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(page, "sleep", advance)
    with pytest.raises(KeyboardInterrupt):
        page.report_troubles(forward)
    assert capsys.readouterr().err.splitlines() == ["the pod was lost", "The page answers again."]


def test_a_local_port_in_use_is_named_with_the_fix(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = FakeKubernetes()
    fake.answers[f"{CORE}/namespaces/open-webui/pods"] = {"items": []}
    with serving(fake), socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        assert main(["open", str(file), "--kubeconfig", str(fake.kubeconfig(tmp_path)), "--port", str(port)]) == 2
    said = capsys.readouterr().err
    assert (
        f"error: Local port {port} cannot be used (Address already in use). Choose another one with `--port`." in said
    )
