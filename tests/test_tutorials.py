"""Readers copy the commands of the README and the tutorials: tests run them, or check that they exist."""

import re
import runpy
import shlex
from pathlib import Path

import pytest

from tests.pages import PAGES, ROOT, TUTORIALS, Block, blocks, commands, environment
from tests.shipped import copy_project
from tests.test_guides import assert_exists

ELSEWHERE = {"sandbox.md", "first-deployment.md"}
"""Pages whose commands need `pulumi`: `tests/engine/test_tutorials.py` runs them."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with the files of a clone that the commands read; the environment of the test is active already."""
    copy_project(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in ELSEWHERE], ids=lambda page: page.name)
def test_commands_of_a_page_end_as_it_says(page: Path, project: Path) -> None:
    for block in blocks(page):
        if title := re.search(r'title="(.+)"', block.head):
            (project / title[1]).write_text(block.text, encoding="utf-8")
        if block in commands(page):
            block.run(project, environment())


def test_targets_of_make_in_the_readme_are_steps_of_a_submission() -> None:
    """So `.ci/run` runs them in a fresh clone."""
    steps = set(runpy.run_path(str(ROOT / ".ci" / "steps.py"))["STEPS"])
    named = set(re.findall(r"`make ([\w-]+)`", (ROOT / "README.md").read_text(encoding="utf-8")))
    assert named == {"plan", "test"}
    assert named <= steps
    assert [page.name for page in PAGES for block in blocks(page) if "make " in block.text] == []


def test_no_block_of_our_own_commands_alone_is_left_out() -> None:
    left_out = [block for page in PAGES for block in blocks(page) if block.reason]
    assert [
        block.text for block in left_out if all(line.startswith("tandem ") for line in block.text.splitlines())
    ] == []


def test_the_readme_deploys_another_stack_by_the_lines_of_the_tutorial() -> None:
    """Which run one by one, in the engine tier and in `tests/tandem/test_pages.py`."""
    short, whole = (
        {tuple(shlex.split(line, comments=True)) for block in found for line in block.text.splitlines()}
        for found in (
            [block for block in blocks(ROOT / "README.md") if block.reason],
            blocks(TUTORIALS / "first-deployment.md"),
        )
    )
    assert len(short) == 5
    assert {tuple("dev" if word == "timeslice" else word for word in words) for words in short} <= whole


def test_every_command_of_the_table_of_wishes_exists() -> None:
    text = (
        (ROOT / "README.md").read_text(encoding="utf-8").partition("## From wish to command")[2].partition("\n## ")[0]
    )
    codes = re.findall(r"`((?:tandem|pulumi|eval) [^`]+)`", text)
    shown = [shlex.split(code) for code in codes]
    assert {words[1] for words in shown if words[0] == "tandem"} >= {"sandbox", "chat", "watch", "bench", "report"}
    assert ["pulumi", "up", "--stack", "timeslice"] in shown
    assert ["pulumi", "up", "--stack", "mps"] in shown
    for words in shown:
        assert_exists(*words)


def test_commands_that_are_not_tested_exist() -> None:
    lines = [line for page in PAGES for block in blocks(page) if block.reason for line in block.text.splitlines()]
    assert len(lines) > 8
    for line in lines:
        if (words := shlex.split(line, comments=True))[0] != "source":
            assert_exists(*words)


@pytest.mark.slow
def test_the_program_in_the_readme_runs_under_the_mocks_of_the_tutorial(project: Path) -> None:
    [program] = [block.text for block in blocks(ROOT / "README.md") if block.head == "python"]
    [test] = [block.text for block in blocks(TUTORIALS / "own-program.md") if "test_infra.py" in block.head]
    (project / "program.py").write_text(test.partition("import infra")[0] + program, encoding="utf-8")
    Block("", "python program.py", None).run(project, environment())


def test_the_readme_is_short() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    wanted = ["Why", "Try it without AWS", "From wish to command", "Sharing modes", "Deploy to AWS"]
    assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE)[: len(wanted)] == wanted
    assert max(map(len, text.splitlines())) <= 180
