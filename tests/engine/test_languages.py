"""The components in programs of other languages, as the guide and the templates have them."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from distribution.layout import move
from tests.engine.emulated import ROOT
from tests.engine.programs import Program, copy_package, install_npm_packages, need_host
from tests.pages import blocks

GUIDE = ROOT / "docs" / "how-to" / "use-from-typescript-or-yaml.md"
PUBLISHED = "github.com/OWNER/tandem/plugin@v0.1.0"
KEPT_BY_HELM = {f"nodefeature{kind}.nfd.k8s-sigs.io" for kind in ("groups", "rules", "s")}
"""Definitions in a chart's folder `crds`, which Helm never deletes:
https://helm.sh/docs/chart_best_practices/custom_resource_definitions/
"""
COMPONENTS = {"gpu", "shares", "sharing", "proof", "models"}


@pytest.fixture(scope="module")
def package(pulumi: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_package(tmp_path_factory.mktemp("checkout"))


def of_guide(title: str) -> str:
    [text] = [block.text for block in blocks(GUIDE) if block.head.endswith(f'title="{title}"')]
    return text


def with_their_cluster(program: Program) -> Any:
    theirs = program.claim_cluster()
    program.configure("aws:region", "us-east-1")
    program.configure("clusterName", "theirs")
    return theirs


def goes_through_its_life(program: Program, theirs: Any, change: str) -> None:
    """Up, no change, a change of one file's `2048`, and destroy: the other team's cluster stays as it was."""
    created = program.comes_up().changed
    assert created.keys() == {"create"}
    assert len(created["create"] & COMPONENTS) == 4
    assert program.comes_up().changed == {}
    assert "llama2-7b.ollama" in program.ask("stack", "output", "urls")
    file = program.folder / change
    file.write_text(file.read_text(encoding="utf-8").replace("2048", "1024", 1), encoding="utf-8")
    assert program.comes_up().changed == {"update": frozenset({"models-llama2-7b"})}
    during = program.entities()
    assert {key: during.get(key) for key in theirs} == theirs
    gone = program.run("destroy")
    assert (gone.code, gone.errors) == (0, ())
    left = program.entities()
    assert {key: left.get(key) for key in theirs} == theirs
    assert {key.split()[1] for key in left.keys() - theirs.keys()} == KEPT_BY_HELM


def test_a_program_in_yaml_uses_the_cluster_of_another_team(package: Path, tmp_path: Path) -> None:
    need_host("yaml")
    program = Program(tmp_path)
    program.write({"Pulumi.yaml": of_guide("Pulumi.yaml, for a cluster that exists").replace(PUBLISHED, str(package))})
    shutil.rmtree(package / ".venv")
    program.ask("install")
    goes_through_its_life(program, with_their_cluster(program), "Pulumi.yaml")


@pytest.fixture(scope="module")
def typescript(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """The project of the guide, to which `pulumi package add` has added the package."""
    need_host("nodejs")
    installed = install_npm_packages(of_guide("package.json"))
    program = Program(tmp_path_factory.mktemp("typescript"))
    shutil.copytree(installed, program.folder, symlinks=True, dirs_exist_ok=True)
    program.write({name: of_guide(name) for name in ("Pulumi.yaml", "cluster.ts", "index.ts")})
    program.ask("package", "add", str(package))
    return program


def test_a_program_in_typescript_with_a_cluster_of_its_own_is_previewed(typescript: Program) -> None:
    typescript.configure("aws:region", "us-east-1")
    run = typescript.run("preview")
    assert (run.code, run.errors) == (0, ())


def test_a_program_in_typescript_uses_the_cluster_of_another_team(typescript: Program) -> None:
    typescript.write({"cluster.ts": of_guide("cluster.ts, for a cluster that exists")})
    goes_through_its_life(typescript, with_their_cluster(typescript), "index.ts")


def test_a_program_in_go_is_previewed(package: Path, tmp_path: Path) -> None:
    """The first build takes minutes; Go keeps it."""
    need_host("go")
    if shutil.which("go") is None:
        pytest.skip("go is not on the PATH")
    program = Program(tmp_path)
    module = "module mine\n\ngo 1.25\n\nrequire github.com/pulumi/pulumi/sdk/v3 v3.259.0\n"
    program.write({"Pulumi.yaml": "name: mine\nruntime: go\n", "go.mod": module, "main.go": of_guide("main.go")})
    program.ask("package", "add", str(package))
    program.configure("aws:region", "us-east-1")
    run = program.run("preview")
    assert (run.code, run.errors) == (0, ())


WRONG = [
    ("sharing: { mode: timeslice, replicas: 2 }", "sharing: { mode: timeslice, replicas: 1 }", "TimeSlicing.replicas"),
    ("gpu: t4, instanceTypes", "gpu: t44, instanceTypes", "unknown GPU 't44'. Did you mean t4"),
]


def test_a_wrong_value_stops_the_program_with_one_sentence(package: Path, tmp_path: Path) -> None:
    need_host("yaml")
    program = Program(tmp_path)
    text = of_guide("Pulumi.yaml, for a cluster that exists").replace(PUBLISHED, str(package))
    program.write({"Pulumi.yaml": text})
    with_their_cluster(program)
    for right, wrong, message in WRONG:
        assert right in text
        program.write({"Pulumi.yaml": text.replace(right, wrong)})
        run = program.run("preview")
        assert run.code != 0
        [said] = [error for error in run.errors if message in error]
        assert "Traceback" not in said
        assert ".py" not in said


def test_the_template_in_yaml_goes_up_and_down(package: Path, tmp_path: Path) -> None:
    need_host("yaml")
    program = Program(tmp_path)
    create(ROOT / "templates" / "yaml", program)
    file = program.folder / "Pulumi.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace(PUBLISHED, str(package)), encoding="utf-8")
    program.configure("aws:region", "us-east-1")
    program.comes_up()
    assert program.comes_up().changed == {}
    assert program.run("destroy").code == 0
    assert program.entities() == {}


def create(template: Path, program: Program) -> None:
    """As `pulumi new` does, without a stack and without packages from an index."""
    program.ask("new", str(template), "--yes", "--force", "--name", "mine", "--generate-only")
    assert yaml.safe_load((program.folder / "Pulumi.yaml").read_text(encoding="utf-8"))["name"] == "mine"


def test_the_template_in_python_is_planned_and_deployed(pulumi: None, tmp_path: Path) -> None:
    """With the packages as the wheel has them."""
    wheel = tmp_path / "wheel"
    move(ROOT, wheel)
    program = Program(tmp_path / "made")
    create(ROOT / "templates" / "python", program)
    program.configure("aws:region", "us-east-1")
    names = ("Pulumi.yaml", "Pulumi.dev.yaml", "__main__.py", "requirements.txt", ".gitignore", "README.md")
    project = tmp_path / "project"
    project.mkdir()
    for name in names:
        shutil.copy(program.folder / name, project)
    for command in (["plan", "dev"], ["sandbox", "up", "dev"], ["sandbox", "destroy", "dev"]):
        done = tandem(command, project, wheel)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing is left" in done.stdout


def tandem(command: list[str], project: Path, wheel: Path) -> "subprocess.CompletedProcess[str]":
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(wheel), prepend=":")
        return subprocess.run([sys.executable, "-m", "tandem", *command], cwd=project, capture_output=True, text=True)


def test_the_pinned_version_of_the_guide_and_the_template_is_the_packages() -> None:
    [version] = re.findall(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    for path in (GUIDE, *(ROOT / "templates").glob("*/*")):
        for tag in re.findall(r"tandem(?:/plugin)?@v([\d.]+\d)", path.read_text(encoding="utf-8")):
            assert tag == version, path
