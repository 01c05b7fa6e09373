"""The one install line of the documents, in a fresh clone and a fresh environment: no option, and nothing beside it."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import INSTALLS, PAGES, ROOT, blocks
from tests.wheel.conftest import Environment

LINE = "pip install -e '.[all]'"
BLOCK = f"{INSTALLS} .venv && source .venv/bin/activate\n{LINE}\n"
LOADS = """
import importlib, pkgutil, sys
import catalogue, components, plugin, sandbox, sharing, stacks, tandem
count = 0
for room in (components, sandbox, sharing, stacks, tandem):
    for one in pkgutil.walk_packages(room.__path__, f"{room.__name__}.", onerror=sys.exit):
        if not one.name.endswith("__main__"):
            importlib.import_module(one.name)
            count += 1
print(count)
"""


@pytest.fixture(scope="module")
def fresh(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The environment of a reader after the line, with packages from the package index alone."""
    prefix = tmp_path_factory.mktemp("fresh") / ".venv"
    subprocess.run([sys.executable, "-m", "venv", prefix], check=True)
    environment = Environment(prefix, sources)
    program, *arguments = shlex.split(LINE)
    done = environment.run(program, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return environment


def test_the_line_is_that_of_the_readme_and_of_the_tutorials() -> None:
    shown = {page: [block.text for block in blocks(page) if block.text.startswith(INSTALLS)] for page in PAGES}
    assert shown[ROOT / "README.md"] == [BLOCK]
    assert {text for texts in shown.values() for text in texts} == {BLOCK}


def test_every_command_has_its_packages(fresh: Environment) -> None:
    """`.[all]` leaves out no package that any module of any command imports."""
    done = fresh.run("python", "-c", LOADS)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 300


def test_the_first_command_of_the_readme_plans(fresh: Environment) -> None:
    done = fresh.run("tandem", "plan", "timeslice")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("✓ timeslice: llama2:7b and mistral:7b on 1 × g4dn.xlarge")
