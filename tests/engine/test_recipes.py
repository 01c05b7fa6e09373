"""Each recipe of `tandem init`, from its file to its `destroy`."""

from pathlib import Path

import pytest
import yaml

from tandem.init import recipes
from tests.command import call
from tests.engine.emulated import ROOT, Stack

FLAGS = ("--ui", "ops@example.com", "--allow-cidr", "203.0.113.7/32", "--yes")
MODEL = {
    "chat": "gemma4-e4b",
    "coding": "qwen2-5-coder-1-5b",
    "private": "gemma4-12b",
    "rag": "embeddinggemma-300m",
    "vision": "granite4-3b",
}
"""One of the models of each recipe, as Services are named."""


@pytest.mark.parametrize("name", recipes.names())
def test_a_recipe_comes_up_as_planned_stays_and_leaves_nothing(name: str, pulumi: None, tmp_path: Path) -> None:
    project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text(encoding="utf-8"))
    (tmp_path / "Pulumi.yaml").write_text(yaml.safe_dump({**project, "main": str(ROOT)}), encoding="utf-8")
    ended = call("init", "--recipe", name, *FLAGS, cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    stack = Stack(tmp_path, name)
    stack.comes_up()
    assert len(stack.entities("kubernetes:helm.sh/v3:Release", f"tandem-ollama-{MODEL[name]}")) == 1
    [volume] = [one for one in stack.entities("aws:ebs/volume:Volume") if one.name.startswith("tandem-ui")]
    assert volume.inputs["size"] == (10 if name in ("rag", "private") else 4)
    assert len(stack.entities("aws:scheduler/schedule:Schedule")) == 2, "one to park and one to wake"
    findings = stack.findings()
    assert (findings.agree, findings.resources) == (True, len(stack.graph))
    assert stack.comes_up().changed == {}
    stack.goes_down()
