"""The registry of the tests speaks to a real Ollama as well, and tandem sees there what `ollama pull` gets."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import Printed
from tests.ollama.test_inspect import inspected
from tests.ollama.test_model_start import Server, on_a_gpu
from tests.stacks.model_files.gguf_files import write
from tests.stacks.model_files.local_registry import Registry, running


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with running(tmp_path / "cache") as started:
        yield started


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with on_a_gpu(tmp_path, "full", 14900) as started:
        yield started


def path_of(asked: str) -> str:
    """The path, without the host: that of a server without TLS is one for Ollama alone."""
    return asked.partition("/")[2]


def test_tandem_reads_the_model_that_ollama_pulls(server: Server, registry: Registry, capsys: Printed) -> None:
    local, name = f"127.0.0.1:{registry.port}/me/mine:1b", "registry.example/me/mine:1b"
    content = write(server.folder / "m.gguf", attention__key_length=32, attention__value_length=32).read_bytes()
    [digest], _ = registry.push(local, ("model", content)), registry.push(name, ("model", content))
    server.ollama("pull", "--insecure", f"http://{local}")
    pulled = {path_of(asked) for asked in registry.asked}
    assert (server.folder / "models" / "blobs" / digest.replace(":", "-")).read_bytes() == content
    registry.asked.clear()
    by_registry = inspected(capsys, name)
    read = {path_of(asked) for asked in registry.asked}
    assert read == {"v2/me/mine/manifests/1b", f"v2/me/mine/blobs/{digest}"}
    assert read < pulled, "Ollama also asks for the configuration"
    assert by_registry == inspected(capsys, local, "--ollama", f"http://{server.environment['OLLAMA_HOST']}")
    assert by_registry["head_dim"] == 32
