"""The requests of `docs/recipes` work as readers copy them, with tiny models of these names on a real Ollama."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import pages
from tests.ollama.test_model_start import Server, on_a_gpu

FOLDER = pages.ROOT / "docs" / "recipes"
REQUESTS = [
    pytest.param(block.text, id=f"{page.stem}-{number}")
    for page in sorted(FOLDER.glob("*.md"))
    for number, block in enumerate(pages.blocks(page))
    if block.reason is None and block.text.startswith("curl")
]
TEMPLATES = {"chat": "{{ .Prompt }}", "code": "{{ .Prompt }}<gap>{{ .Suffix }}"}
"""A model for code has a place for what follows the gap; Ollama refuses `suffix` for others."""
SHORT = "PARAMETER num_predict 8"
"""Without it, the stand-in for the engine would go on for ten contexts: it never says that an answer ends."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with on_a_gpu(tmp_path_factory.mktemp("ollama"), "full", 14900) as running:
        for kind, template in TEMPLATES.items():
            (running.folder / kind).write_text(f'FROM {running.folder}/tiny.gguf\n{SHORT}\nTEMPLATE """{template}"""\n')
            running.ollama("create", kind, "-f", str(running.folder / kind))
        yield running


def test_every_page_has_a_request_that_is_tested() -> None:
    assert {str(request.id).split("-")[0] for request in REQUESTS} == {"chat", "coding", "private", "rag", "vision"}


@pytest.mark.parametrize("request_text", REQUESTS)
def test_a_request_of_a_page_is_answered(request_text: str, server: Server, tmp_path: Path) -> None:
    [tag] = re.findall(r'"model": "([^"]+)"', request_text)
    server.ollama("cp", "code" if "suffix" in request_text else "chat", tag)
    here = re.sub(r"127\.0\.0\.1:\d+", server.environment["OLLAMA_HOST"], request_text)
    done = subprocess.run(["bash", "-c", here], capture_output=True, text=True, cwd=tmp_path, check=False, timeout=120)
    answer = json.loads(done.stdout)
    said = answer["choices"][0]["message"]["content"] if "choices" in answer else answer["response"]
    assert said.startswith("w0 w1 ")
