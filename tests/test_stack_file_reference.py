"""The reference of stack files: every key has its heading, its facts, and an example that a stack file may have."""

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from stacks.stack_file.form_errors import fields
from stacks.stack_file.judge import judge_file

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "reference" / "stack-file.md").read_text(encoding="utf-8")
DEV = yaml.safe_load((ROOT / "Pulumi.dev.yaml").read_text(encoding="utf-8"))
KEYS = dict(re.findall(r"^### `?([^`\n]+)`?\n\n((?:(?!^##).*\n)*)", PAGE, flags=re.MULTILINE))
"""The text of each key."""
MODE_OF = {"limits": "mps", "strategy": "mig", "layout": "mig"}
"""The sharing mode that a key of `sharing` needs."""
BESIDE = {
    "gpu-nodes.on-demand-fallback": {"provisioner": "karpenter"},
    "models[].spill": {"pool": "fast"},
}
"""What an example needs beside it."""
OF_A_FILE = ("models[].gguf",)
"""Keys that name a file, which the reader has and this test has not."""
OF_POOLS = ("models[].pool", "models[].spill")
POOLS = [{"name": "fast"}, {"name": "rest"}]
SHARING = r"^(gpu-nodes\[\]\.)?sharing\.(exclusive|timeslice|mps|mig)\."
EXAMPLES = [
    (path, example) for path, text in KEYS.items() for example in re.findall(r"^\*\*Example\*\* `(.+)`$", text, re.M)
]


def test_every_key_has_a_heading() -> None:
    ours = {re.sub(SHARING, "sharing.", path).replace("gpu-nodes[].", "gpu-nodes.") for path in fields()}
    sections = {path for path in ours if any(other.startswith((f"{path}.", f"{path}[].")) for other in ours)}
    headings = set(re.findall(r"^## `([^`]+)`$", PAGE, flags=re.MULTILINE))
    shown = {path.replace("gpu-nodes[].", "gpu-nodes.") for path in KEYS} - {"gpu-nodes.sharing"}
    assert shown | headings >= ours - {"gpu-nodes.sharing"}
    assert shown <= ours
    assert headings <= sections


def test_every_heading_has_an_anchor_of_its_own() -> None:
    titles = re.findall(r"^##+ (.+)$", PAGE, flags=re.MULTILINE)
    anchors = [re.sub(r"[^\w -]", "", title).lower() for title in titles]
    assert len(anchors) == len(set(anchors)) > 80


def test_a_key_has_meaning_type_default_and_example() -> None:
    for path, text in KEYS.items():
        assert re.match(r"[A-Z`].{2,}", text), f"{path} has no meaning"
        assert "**Type** " in text, path
        assert "**Required**" in text or "**Default** " in text or "default" in text.lower(), path
        assert "**Example** `" in text, path


@pytest.mark.usefixtures("without_advice")
@pytest.mark.parametrize(("path", "example"), EXAMPLES)
def test_the_example_of_a_key_is_accepted_by_the_form_of_a_stack_file(path: str, example: str, tmp_path: Path) -> None:
    values = copy.deepcopy(DEV)
    config = values["config"]
    top, *inner = path.split(".")
    [(key, value)] = yaml.safe_load(example).items()
    assert key == (inner[-1] if inner else top if ":" in top else f"tandem:{top}")
    place: Any = config
    if inner:
        place = _section(config, top, inner[-1])
        for name in inner[:-1]:
            place = place.setdefault(name.removesuffix("[]"), [{}] if name.endswith("[]") else {})
            place = place[0] if name.endswith("[]") else place
    place.update(BESIDE.get(path, {}), **{key: value})
    if path in OF_POOLS:
        config |= {"tandem:gpu-nodes": POOLS, "tandem:models": [place]}
    file = tmp_path / "Pulumi.example.yaml"
    file.write_text(yaml.safe_dump(values), encoding="utf-8")
    judged = judge_file(file)
    problems = () if judged.decided else judged.problems
    wrong = [each.rule for each in problems if re.sub(r"\[\d+\]", "[]", each.path).startswith(path)]
    assert all(path in OF_A_FILE and "cannot be read" in rule for rule in wrong), judged.problems


def _section(config: dict[str, Any], top: str, key: str) -> Any:
    """The section of the stack `dev` in which a key stands, or a new one."""
    name = top.removesuffix("[]")
    full = name if name.startswith("aws:") else f"tandem:{name}"
    if top == "gpu-nodes[]":
        config[full] = [config[full]]
    section = config.setdefault(full, [{}] if top.endswith("[]") else {})
    if top == "sharing":
        section["mode"] = MODE_OF.get(key, section["mode"])
    return section[0] if top.endswith("[]") else section
