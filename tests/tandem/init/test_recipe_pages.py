"""The pages of `docs/recipes`: the tests run their commands, and the rest names models and Services of the stack.

`tests/ollama/test_recipe_requests.py` sends their requests.
"""

import re
import shlex
from pathlib import Path
from xml.etree import ElementTree

import pytest

from stacks.stack_file.judge import judge_file
from tests import pages
from tests.command import ROOT, call
from tests.tandem.init.test_init_command import project, written
from tests.test_guides import assert_exists
from tests.test_pictures import SVG, contrast

__all__ = ["project"]
FOLDER = ROOT / "docs" / "recipes"
PAGES = sorted(FOLDER.glob("*.md"))
NAMES = [page.stem for page in PAGES if page.stem != "index"]
ASKS = ("tandem run ", "tandem env ", 'eval "$(tandem env ')
"""How blocks begin that need the models."""


def lines(block: pages.Block) -> list[list[str]]:
    return [shlex.split(line, comments=True) for line in block.text.replace("\\\n", "").splitlines()]


def plain(page: Path, *, tested: bool) -> list[pages.Block]:
    found = [block for block in pages.blocks(page) if not block.head and (block.reason is None) == tested]
    return [block for block in found if not block.text.startswith(ASKS)]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_write_stacks_whose_plan_has_no_warning(page: Path, project: Path) -> None:
    commands = [words for block in plain(page, tested=True) for words in lines(block)]
    assert commands
    for program, *arguments in commands:
        assert program == "tandem"
        ended = call(*arguments, cwd=project)
        assert ended.returncode == 0, ended.stdout + ended.stderr
    for file in written(project):
        assert judge_file(project / file).verdict.warnings == ()
    assert f"Pulumi.{'rag' if page.stem == 'index' else page.stem}.yaml" in written(project)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_that_are_not_tested_exist(page: Path) -> None:
    for block in plain(page, tested=False):
        for words in lines(block):
            assert_exists(*words)


@pytest.mark.parametrize("name", NAMES)
def test_requests_ask_the_model_that_their_block_selects(name: str) -> None:
    """Also those that no test sends."""
    page = FOLDER / f"{name}.md"
    text = page.read_text(encoding="utf-8")
    [stack] = re.findall(r"<!-- stack: generated -->\n```yaml\n(.*?)```", text, re.DOTALL)
    tags = re.findall(r"name: \"?([^\",]+)\"?", stack)
    assert len(tags) == 2
    requests = [block.text for block in pages.blocks(page) if "curl " in block.text]
    assert requests
    for request in requests:
        [tag] = re.findall(r"\"model\": \"([^\"]+)\"", request)
        assert tag in tags
        assert request.startswith(f'eval "$(tandem env {name} {tag})"\n')
    assert f"`tandem env {name} --stop`" in text
    assert f"`pulumi destroy --stack {name}`" in text


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_the_picture_shows_the_models_in_colours_that_can_be_read(name: str, scheme: str) -> None:
    """WCAG 2.2, success criterion 1.4.3: at least 4.5 to 1."""
    text = (ROOT / "docs" / "assets" / f"recipe-{name}-{scheme}.svg").read_text(encoding="utf-8")
    page = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    assert f"../assets/recipe-{name}-{scheme}.svg#only-{scheme}" in page
    for tag in re.findall(r"- (?:\{)?name: \"?([^\",]+)", page):
        assert tag in text
    assert ("chat page" in text) == ("tandem open" in page)
    fills = dict(re.findall(r"\.(\w+)\{fill:(#\w{6})", text))
    for ink, grounds in {"title": ("step", "node", "gpu", "model"), "line": ("step", "node", "gpu")}.items():
        assert all(contrast(fills[ink], fills[ground]) >= 4.5 for ground in grounds)


@pytest.mark.parametrize("name", NAMES)
def test_the_memory_in_the_picture_is_to_scale(name: str) -> None:
    root = ElementTree.parse(ROOT / "docs" / "assets" / f"recipe-{name}-light.svg").getroot()
    parts = [float(rect.get("width", "0")) for rect in root.iter(f"{SVG}rect") if rect.get("class") == "model"]
    [whole] = [float(rect.get("width", "0")) for rect in root.iter(f"{SVG}rect") if rect.get("class") == "aws"]
    page = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    said = " ".join("".join(text.itertext()) for text in root.iter(f"{SVG}text"))
    used, total = map(float, re.findall(r"GPU memory .* (\d+\.\d) of (\d+\.\d) GiB", page)[0])
    assert f"{used} of {total} GiB" in said
    assert sum(parts) / whole == pytest.approx(used / total, abs=0.01)
