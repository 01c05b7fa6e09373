"""`tandem models inspect` against a real Ollama, and against the file that this Ollama has."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem.main import main
from tests.command import Printed
from tests.ollama.test_model_start import OWN, TINY, Server, on_a_gpu
from tests.stacks.model_files.gguf_files import write


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with on_a_gpu(tmp_path, "full", 14900) as running:
        yield running


def inspected(capsys: Printed, *call: str) -> dict[str, object]:
    assert main(["models", "inspect", *call, "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)["model"]
    return {key: value for key, value in found.items() if key not in ("name", "source")}


def test_ollama_and_the_file_describe_the_same_model(server: Server, capsys: Printed) -> None:
    url = f"http://{server.environment['OLLAMA_HOST']}"
    by_tag = inspected(capsys, OWN, "--ollama", url)
    assert by_tag == inspected(capsys, str(server.folder / "tiny.gguf"))
    assert (by_tag["layers"], by_tag["kv_heads"], by_tag["head_dim"]) == (2, 2, 64)
    assert (by_tag["feed_forward"], by_tag["max_context"], by_tag["vocabulary"]) == (256, 32768, 260)
    assert by_tag["embedding_bytes"] == TINY.model.width * 260 * 2, "untied, f16"


def test_lists_with_a_value_for_each_layer_come_through(server: Server, capsys: Printed) -> None:
    """Ollama leaves lists of more than five items out unless it is asked to be verbose."""
    windows = [True, True, False, True, True, False, True]
    heads = [2 if windowed else 1 for windowed in windows]
    file = write(
        server.folder / "windows.gguf",
        "gemma4",
        layers=7,
        tensors=("v.blk.0.weight",),
        attention__sliding_window=512,
        attention__sliding_window_pattern=windows,
        attention__head_count_kv=heads,
        attention__shared_kv_layers=1,
    )
    (server.folder / "from").write_text(f"FROM {file}\n")
    server.ollama("create", "windows", "-f", str(server.folder / "from"))
    url = f"http://{server.environment['OLLAMA_HOST']}"
    by_tag = inspected(capsys, "windows", "--ollama", url)
    assert by_tag == inspected(capsys, str(file))
    assert (by_tag["swa_layers"], by_tag["swa_kv_heads"], by_tag["kv_heads"]) == (4, 2, 1)
    assert (by_tag["shared_kv_layers"], by_tag["projector_bytes"]) == (1, 128)
