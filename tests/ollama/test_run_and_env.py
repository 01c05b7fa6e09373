"""`tandem run` and `tandem env` with a real Ollama server behind the port of a pod, and its own client."""

import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.command import ROOT, call
from tests.ollama.test_model_start import OWN, on_a_gpu
from tests.tandem.deployed.reachable import Reachable, reachable, types

TAG = "llama2:7b"


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reachable]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "server").mkdir()
    with on_a_gpu(tmp_path / "server", "full", 14900) as server:
        host = server.environment["OLLAMA_HOST"]
        assert "copied" in ollama(host, "cp", OWN, TAG)
        real: Any = SimpleNamespace(url=f"http://{host}")
        with reachable(tmp_path, {"llama2-7b": real}) as found:
            yield found


def ollama(host: str, *words: str) -> str:
    """What the program prints on both streams."""
    environment = {**os.environ, "OLLAMA_HOST": host}
    done = subprocess.run(["ollama", *words], env=environment, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def test_one_answer_and_a_conversation(stack: Reachable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("Read this."))
    ended = call("run", str(stack.file), TAG, "Go.", "--max-tokens", "5", "--json", *stack.way)
    assert (ended.json["text"], ended.json["tokens"], ended.json["done_reason"]) == ("w0 w1 w2 w3 w4", 5, "length")
    assert ended.json["tokens_per_s"] > 0
    types(monkeypatch, "Hello?", "Still there?", "/bye")
    ended = call("run", str(stack.file), TAG, "--max-tokens", "5", *stack.way)
    assert ended.stdout.count("w0 w1 w2 w3 w4") == 2
    assert "\n2 answers, 10 tokens, " in ended.stderr


def test_ollama_itself_finds_the_model_by_the_variables_as_in_the_guide(stack: Reachable, tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "how-to" / "connect-to-the-models.md").read_text(encoding="utf-8")
    [block] = re.findall(r"^```console\n((?:\$ .*\n)*\$ ollama .*\n)```$", guide, flags=re.MULTILINE)
    stack.file.rename(tmp_path / "Pulumi.dev.yaml")
    lines = block.replace("$ ", "") + f"ollama run {TAG} Hello?\n" + "tandem env dev --stop >&2\n"
    done = subprocess.run(
        ["sh", "-e", "-c", lines],
        cwd=tmp_path,
        env=stack.environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert TAG in done.stdout
    # The other model is on another server.
    assert "mistral" not in done.stdout
    assert "w0 w1 w2" in done.stdout
    assert "The ports of stack dev are closed." in done.stderr
