"""The requests of `docs/recipes` work as readers copy them, with tiny models of these names on a real Ollama."""

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tests import pages
from tests.ollama.test_model_start import Server, on_a_gpu
from tests.tandem.deployed.reachable import reachable
from tests.tandem.init.test_recipe_pages import ASKS, FOLDER, NAMES

MODELFILE = """FROM {folder}/tiny.gguf
PARAMETER num_predict 8
TEMPLATE \"""{{{{ .Prompt }}}}<gap>{{{{ .Suffix }}}}\"""
"""
"""Without `num_predict`, the stand-in for the engine would go on for ten contexts: it never says that an answer ends.
Without a place for what follows the gap, Ollama refuses `suffix`."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with on_a_gpu(tmp_path_factory.mktemp("ollama"), "full", 14900) as running:
        (running.folder / "modelfile").write_text(MODELFILE.format(folder=running.folder))
        running.ollama("create", "tiny", "-f", str(running.folder / "modelfile"))
        yield running


@pytest.mark.parametrize("name", NAMES)
def test_the_requests_of_a_page_are_answered(
    name: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    shown = pages.blocks(FOLDER / f"{name}.md")
    [stack] = [block.text for block in shown if block.head == "yaml"]
    (tmp_path / f"Pulumi.{name}.yaml").write_text(stack, encoding="utf-8")
    tags = [model["name"] for model in yaml.safe_load(stack)["config"]["tandem:models"]]
    for tag in tags:
        server.ollama("cp", "tiny", tag)
    real: Any = SimpleNamespace(url=f"http://{server.environment['OLLAMA_HOST']}")
    pods = {re.sub("[.:]", "-", tag): real for tag in tags}
    asks = [block for block in shown if block.reason is None and block.text.startswith(ASKS)]
    with reachable(tmp_path, pods) as cluster:
        cluster.runs(*pods)
        environment = cluster.environment()
        try:
            said = [block.run(tmp_path, environment).stdout for block in asks]
        finally:
            pages.Block("", f"tandem env {name} --stop", None).run(tmp_path, environment)
    answers = [text for text in said if "w0 w1 w2" in text]
    addresses = [text for text in said if all(f"# {tag}: http://127.0.0.1:" in text for tag in tags)]
    assert len(answers) >= 2
    assert len(answers) + len(addresses) == len(said), said
