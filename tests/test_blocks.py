"""Every block of code in README, tutorials, recipes and guides: a test runs it, or the page says why not."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from stacks.stack_file.judge import judge_file
from tests import pages
from tests.pages import ROOT, Block, blocks, lines
from tests.shipped import copy_project
from tests.test_guides import HOW_TO, mocks

RECIPES = tuple(sorted((ROOT / "docs" / "recipes").glob("*.md")))
READERS = (*pages.PAGES, *RECIPES, *sorted(HOW_TO.glob("*.md")))
MARK = "*Not run by tests: blocks that need an account, a cluster, a network or other programs.*"
"""The last line of a page with such blocks."""
LOCAL = ("plan", "choose", "modes", "models", "gpus", "init", "images")
"""Commands of ours that need no account, no cluster and no network."""
NEEDS = ("--running", "--live-prices", "--measured", "inspect", "--format")
"""Options with which they do, or need files of the reader."""
ELSEWHERE = {
    "own-program.md": "tests/test_tutorials.py",
    "README.md": "tests/test_tutorials.py",
    "check-any-program-with-policies.md": "tests/policy/test_guide.py",
    "check-your-own-program.md": "tests/test_guides.py",
    "run-a-batch-job-on-spot.md": "tests/test_checkpoint_loop.py",
    "share-a-gpu-by-size.md": "tests/test_guides.py",
    "test-a-stack.md": "tests/test_guides.py",
    "use-from-typescript-or-yaml.md": "tests/engine/test_languages.py",
    "use-your-cluster.md": "tests/test_guides.py",
}
"""Pages whose programs and files a test of their own runs."""


def kind(block: Block) -> str:
    """The language of a block; `sh` for commands."""
    return {"": "sh", "console": "sh"}.get(block.head.partition(" ")[0], block.head.partition(" ")[0])


def is_local(line: str) -> bool:
    words = shlex.split(line, comments=True)
    return words[:1] == ["tandem"] and words[1] in LOCAL and not set(NEEDS) & set(words)


def of_stack_file(block: Block) -> bool:
    return block.head == "yaml" and re.search(r"^ *(tandem|aws):", block.text, re.MULTILINE) is not None


def is_read_elsewhere(block: Block) -> bool:
    """Whether it names a model that needs a network, or a file of the reader."""
    return re.search(r"hf\.co/|gguf[:=]", block.text) is not None


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def with_blocks(*kinds: str) -> list[Path]:
    return [page for page in READERS if any(kind(block) in kinds for block in blocks(page))]


def test_a_page_has_the_mark_if_and_only_if_it_has_a_block_that_does_not_run() -> None:
    for page in READERS:
        text = page.read_text(encoding="utf-8")
        left_out = [block for block in blocks(page) if not (block.reason or runs(page, block))]
        assert text.endswith(f"\n{MARK}\n") is bool(left_out), f"{named(page)}: test {left_out}, or end it with {MARK}"
        assert text.count(MARK) <= 1, named(page)


def runs(page: Path, block: Block) -> bool:
    """Whether a test runs the block."""
    if kind(block) == "text" or (of_stack_file(block) and not is_read_elsewhere(block)):
        return True
    if page in pages.PAGES:
        return True  # tests/test_tutorials.py, tests/engine/test_tutorials.py, tests/tandem/test_pages.py
    if page in RECIPES:
        return True  # tests/tandem/init/test_recipe_pages.py, tests/ollama/test_recipe_requests.py
    if kind(block) == "sh":
        return page.name in ELSEWHERE or all(map(is_local, lines(block)))
    return page.name in ELSEWHERE or kind(block) == "python"


def test_the_tests_of_their_own_read_these_pages() -> None:
    for page, test in ELSEWHERE.items():
        assert page in (ROOT / test).read_text(encoding="utf-8"), page


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in with_blocks("sh") if page.parent == HOW_TO], ids=named)
def test_commands_that_need_nothing_run(page: Path, tmp_path: Path) -> None:
    copy_project(tmp_path)
    for block in blocks(page):
        if kind(block) == "sh" and block.reason is None:
            for line in filter(is_local, lines(block)):
                Block("", line, None).run(tmp_path, pages.environment())


@pytest.mark.parametrize("page", [page for page in with_blocks("yaml") if page.name not in ELSEWHERE], ids=named)
def test_keys_of_a_stack_file_are_right(page: Path, tmp_path: Path) -> None:
    """A part of a file replaces the same keys of the stack `timeslice`, without its limits and numbers of nodes."""
    base = yaml.safe_load((ROOT / "Pulumi.timeslice.yaml").read_text(encoding="utf-8"))["config"]
    base = {**base, "tandem:gpu-nodes": {"instance-types": ["g4dn.xlarge"]}, "tandem:budget": {}}
    shown = [block for block in blocks(page) if of_stack_file(block) and not is_read_elsewhere(block)]
    for number, block in enumerate(shown):
        given = yaml.safe_load(block.text)
        file = tmp_path / f"Pulumi.page{number}.yaml"
        file.write_text(yaml.safe_dump({"config": {**base, **given.get("config", given)}}), encoding="utf-8")
        judge_file(file).plan()


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in with_blocks("python") if page.name not in ELSEWHERE], ids=named)
def test_programs_run_under_the_mocks_of_the_tutorial(page: Path, tmp_path: Path) -> None:
    for block in blocks(page):
        if kind(block) == "python" and not is_read_elsewhere(block):
            (tmp_path / "program.py").write_text(mocks() + block.text, encoding="utf-8")
            Block("", "python program.py", None).run(tmp_path, pages.environment())
