"""`tandem metrics`: of servers, through the exporters of a stack, as JSON, and served."""

import argparse
import json
import re
import signal
import subprocess
import sys
import urllib.request
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from components.ollama_pair.model_metrics import render
from tandem.deployed import connection
from tandem.deployed.connection import Connected
from tandem.metrics import command
from tandem.metrics.models import read, servers
from tests.command import Ended, call, on_screen
from tests.sharing.builders import replace
from tests.tandem.deployed.pretended import connected, well
from tests.tandem.fake_ollama import GIB, FakeOllama, loaded

ROOT = Path(__file__).parents[3]


def values(text: str, name: str) -> dict[str, float]:
    """The values of a metric by the models' ids, as Prometheus' own library reads them."""
    families = text_string_to_metric_families(text)
    samples = [sample for family in families for sample in family.samples if sample.name == name]
    return {sample.labels["id"]: sample.value for sample in samples}


def test_the_metrics_of_servers_are_printed(llama: FakeOllama, mistral: FakeOllama) -> None:
    llama.answers["/api/ps"] = {"models": [loaded("llama2:7b", size_vram=3 * GIB)]}
    mistral.answers["/api/ps"] = {"models": []}
    urls = ("--url", f"a={llama.url}", "--url", f"b={mistral.url}", "--model", "b=mistral:7b")
    ended = call("metrics", *urls)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert values(ended.stdout, "tandem_ollama_up") == {"a": 1, "b": 1}
    assert values(ended.stdout, "tandem_model_loaded") == {"a": 1, "b": 0}
    assert values(ended.stdout, "tandem_model_size_bytes") == {"a": 5 * 2**30}
    assert values(ended.stdout, "tandem_model_size_vram_bytes") == {"a": 3 * 2**30}
    assert values(ended.stdout, "tandem_model_context_tokens") == {"a": 2048}
    assert ended.stdout.count("# TYPE tandem_ollama_up gauge\n") == 1

    shown = call("metrics", *urls, "--json").json
    assert (shown["schema_version"], shown["trouble"]) == (1, [])
    assert {"name": "tandem_model_loaded", "labels": {"id": "b", "model": "mistral:7b"}, "value": 0.0} in (
        shown["metrics"]
    )


def test_a_narrow_terminal_folds_no_metric(llama: FakeOllama) -> None:
    code, screen = on_screen("metrics", "--url", f"a={llama.url}", columns=30)
    assert code == 0
    assert "# TYPE tandem_model_context_tokens gauge\n" in screen.replace("\r", "")


def test_a_server_that_does_not_answer_is_zero_and_an_error(llama: FakeOllama) -> None:
    urls = ("--url", f"a={llama.url}", "--url", "b=http://127.0.0.1:1")
    ended = call("metrics", *urls)
    assert (ended.returncode, ended.stderr) == (1, "error: b does not answer\n")
    assert values(ended.stdout, "tandem_ollama_up") == {"a": 1, "b": 0}
    shown = call("metrics", *urls, "--json")
    assert (shown.returncode, shown.stderr, shown.json["trouble"]) == (1, "", ["b does not answer"])


def test_listening_and_json_contradict_each_other() -> None:
    ended = call("metrics", "--url", "a=http://127.0.0.1:1", "--listen", "0", "--json")
    assert (ended.returncode, ended.json["error"]) == (2, "--json prints the metrics once. Remove --json or --listen.")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9410", ("127.0.0.1", 9410)),
        ("h:65535", ("h", 65535)),
        (":0", ("127.0.0.1", 0)),
        ("65536", None),
        ("h:", None),
        ("-1", None),
    ],
)
def test_an_address_is_a_port_with_a_host_or_without(text: str, address: tuple[str, int] | None) -> None:
    with nullcontext() if address else pytest.raises(argparse.ArgumentTypeError):
        assert command._address(text) == address


def test_a_port_in_use_is_an_error(llama: FakeOllama) -> None:
    address = llama.url.removeprefix("http://")
    said = f"error: {address} cannot be used (Address already in use). Pass another port.\n"
    assert call("metrics", "--url", f"a={llama.url}", "--listen", address) == Ended(2, "", said)


@pytest.mark.slow
def test_metrics_are_served_until_ctrl_c(llama: FakeOllama) -> None:
    program = [sys.executable, "-m", "tandem", "metrics", "--url", f"a={llama.url}", "--listen", "0"]
    with subprocess.Popen(program, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        said = process.stderr.readline()
        url = re.fullmatch(r"Serving (http://127\.0\.0\.1:\d+/metrics)\. Press Ctrl-C to end\.\n", said)
        assert url, said
        for is_up in (1, 0):
            llama.status["/api/ps"] = 200 if is_up else 500
            with urllib.request.urlopen(url[1], timeout=60) as answer:
                assert values(answer.read().decode(), "tandem_ollama_up") == {"a": is_up}
        process.send_signal(signal.SIGINT)
        assert (process.wait(60), process.stderr.read()) == (0, "")


def stack(
    monkeypatch: pytest.MonkeyPatch, llama: FakeOllama, mistral: FakeOllama, *, metrics: bool = True
) -> tuple[str, list[str], list[Any]]:
    """The text and the troubles of a stack whose ports lead to these servers, and the forwarded ports."""
    asked: list[Any] = []
    plain = connected(well())
    reached = replace(plain, plan=replace(plain.plan, config=replace(plain.plan.config, metrics=metrics)))

    def forwards(of: Connected, port: int | None = None) -> Any:
        asked.append(port)
        ports = {"llama2-7b": llama, "mistral-7b": mistral}
        return nullcontext({id: SimpleNamespace(url=fake.url, trouble=fake.error) for id, fake in ports.items()})

    monkeypatch.setattr(connection, "forwards", forwards)
    monkeypatch.setattr(connection, "reached", lambda _: nullcontext(reached))
    with servers(argparse.Namespace(url=[], model=[], stack="dev")) as found:
        samples, troubles = read(found)
    return render(samples), troubles, asked


def exported(**labels: str) -> list[dict[str, object]]:
    """What an exporter answers, as tests/components/test_model_metrics.py has it."""
    own = {"id": "x", "model": "m"}
    return [
        {"name": "tandem_ollama_up", "labels": own, "value": 1.0},
        {"name": "tandem_tokens_predicted_total", "labels": {**own, **labels}, "value": 301.0},
    ]


def test_a_stack_without_metrics_is_asked_through_its_servers(
    monkeypatch: pytest.MonkeyPatch, llama: FakeOllama, mistral: FakeOllama
) -> None:
    mistral.status["/api/ps"], mistral.error, llama.error = 503, "mistral-7b has no ready pod", ""
    text, troubles, asked = stack(monkeypatch, llama, mistral, metrics=False)
    assert asked == [None]
    assert troubles == ["mistral-7b does not answer: mistral-7b has no ready pod"]
    assert values(text, "tandem_ollama_up") == {"llama2-7b": 1, "mistral-7b": 0}
    assert "tandem_tokens_predicted_total" not in text


def test_a_stack_with_metrics_is_asked_through_its_exporters(
    monkeypatch: pytest.MonkeyPatch, llama: FakeOllama, mistral: FakeOllama
) -> None:
    llama.answers["/metrics.json"] = mistral.answers["/metrics.json"] = exported()
    text, troubles, asked = stack(monkeypatch, llama, mistral)
    assert (asked, troubles) == ([9410], [])
    # The pods of two models with the same tag must not have the same series.
    assert values(text, "tandem_tokens_predicted_total") == {"llama2-7b": 301, "mistral-7b": 301}


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        (b"<html>", 200, "it does not answer as the exporter of this version does"),
        (b"[" * 100_000, 200, "it does not answer as the exporter of this version does"),
        ([{"name": "a", "labels": {"id": 1}, "value": 1}], 200, "it does not answer as the exporter of this version"),
        ({}, 404, "it answered with 404"),
    ],
)
def test_an_exporter_that_answers_nonsense_is_an_error_and_its_model_unknown(
    monkeypatch: pytest.MonkeyPatch, llama: FakeOllama, answer: object, status: int, said: str
) -> None:
    llama.answers["/metrics.json"], llama.status["/metrics.json"], llama.error = answer, status, ""
    text, troubles, _ = stack(monkeypatch, llama, llama)
    assert text == ""
    assert troubles[0].startswith(f"the exporter of llama2-7b does not answer: {said}")


def test_an_exporters_text_cannot_steer_a_terminal_or_add_series(
    monkeypatch: pytest.MonkeyPatch, llama: FakeOllama
) -> None:
    hostile = exported(id="\n", model='\x1b[2J"} 1\n', **{"evil\n": "x"})
    hostile.append({"name": "evil{} 1\n", "labels": {}, "value": 1})
    hostile.append({"name": "tandem_model_loaded", "labels": {}, "value": float("nan")})
    llama.answers["/metrics.json"] = json.dumps(hostile).encode()
    text, _, _ = stack(monkeypatch, llama, llama)
    assert text.replace("\n", "").isprintable()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert {(sample.name, sample.labels["model"]) for sample in samples} == {
        ("tandem_ollama_up", "m"),
        ("tandem_tokens_predicted_total", '?[2J"} 1?'),
    }
