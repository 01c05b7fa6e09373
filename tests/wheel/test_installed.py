"""The wheel, installed where there is no checkout."""

import json
import shutil
from pathlib import Path

import pytest

import tandem
from tests.command import call
from tests.wheel.conftest import Environment

FOREIGN = Path(__file__).parent / "foreign"
LOADS = """
import importlib, pkgutil, sys, tandem
found = pkgutil.walk_packages(tandem.__path__, "tandem.", onerror=lambda name: sys.exit(name))
names = [one.name for one in found if not one.name.endswith("__main__")]
for name in names:
    importlib.import_module(name)
top = {name.partition(".")[0] for name in sys.modules}
print(len(names), sorted(top & {"sharing", "components", "stacks", "sandbox"}))
"""


def test_a_stack_is_planned_as_in_the_checkout(base: Environment) -> None:
    done = base.run("tandem", "plan", "dev", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == json.loads(call("plan", "dev", "--json").stdout)


def test_init_makes_a_project_of_an_empty_folder(base: Environment, tmp_path: Path) -> None:
    """Its program finds its modules in the wheel; only Pulumi itself is missing here."""
    done = base.run("tandem", "init", "--yes", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"Pulumi.yaml", "Pulumi.mine.yaml", "__main__.py", "stack.schema.json"}
    program = (tmp_path / "__main__.py").read_text(encoding="utf-8").replace("\nrun()\n", "")
    assert base.run("python", "-c", program, cwd=tmp_path).returncode == 0
    assert base.run("tandem", "plan", "mine", cwd=tmp_path).returncode == 0


def test_a_missing_extra_is_installed_by_the_command_that_the_message_names(base: Environment) -> None:
    done = base.run("tandem", "quota", "dev")
    assert done.returncode == 2
    said = " ".join(done.stderr.split())
    assert "`tandem quota` needs boto3. Run `pip install '.[all]'` in a checkout of tandem." in said
    # Cached prices are read without it.
    assert base.run("tandem", "prices", "--kept", "--region", "us-east-1").stderr.startswith(
        "error: there are no prices of us-east-1"
    )
    tried = base.run("pip", "install", "--quiet", "--dry-run", "--report", "-", "tandem-gpu[all]")
    assert tried.returncode == 0, tried.stderr
    would = {item["metadata"]["name"] for item in json.loads(tried.stdout)["install"]}
    assert "boto3" in would
    assert "tandem-gpu" not in would  # the installed wheel stays


def test_every_module_loads_and_none_by_a_name_of_the_checkout(complete: Environment) -> None:
    done = complete.run("python", "-W", "ignore", "-c", LOADS)
    assert done.returncode == 0, done.stderr
    number, _, names = done.stdout.strip().partition(" ")
    assert int(number) > 150
    assert names == "[]"


def test_public_names_are_those_of_the_checkout(complete: Environment) -> None:
    program = "import tandem; print(*[f'{getattr(tandem, name).__module__}.{name}' for name in tandem.__all__])"
    done = complete.run("python", "-W", "ignore", "-c", program)
    assert done.returncode == 0, done.stderr
    assert [name.rpartition(".")[2] for name in done.stdout.split()] == tandem.__all__
    rooms = ("tandem.components.", "tandem.sharing.", "tandem.stacks.")
    assert all(name.startswith(rooms) for name in done.stdout.split())


def test_a_program_with_components_of_its_own_works_under_the_stock_mocks(base: Environment, tmp_path: Path) -> None:
    program = shutil.copytree(FOREIGN, tmp_path / "foreign")
    done = base.run("python", "under_mocks.py", cwd=program)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"theirs": "theirs:index:Bucket", "resources": ["nvidia.com/gpu"]}


@pytest.mark.skipif(shutil.which("pulumi") is None, reason="`pulumi` is not on the PATH")
def test_a_program_with_components_of_its_own_goes_up_and_down_on_the_engine(base: Environment, tmp_path: Path) -> None:
    program = shutil.copytree(FOREIGN, tmp_path / "foreign")
    done = base.run("python", "on_the_engine.py", cwd=program)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {"things": True, "left": []}
