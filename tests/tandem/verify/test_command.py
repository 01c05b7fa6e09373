"""The commands that read a cluster, as far as they get without one."""

import subprocess
import sys
from pathlib import Path

import pytest

from tandem.terminal import progress
from tests.command import Printed
from tests.tandem.deployed.fake_kubernetes import FakeKubernetes
from tests.tandem.seen import ROOT


@pytest.mark.slow
@pytest.mark.parametrize(("command", "package"), [("verify", "httpx"), ("run", "kr8s")])
def test_a_missing_package_is_named(command: str, package: str, tmp_path: Path) -> None:
    call = [command, str(ROOT / "Pulumi.dev.yaml"), "--kubeconfig", str(FakeKubernetes().kubeconfig(tmp_path))]
    call += ["llama2:7b", "Why?"] * (command == "run")
    program = f"import sys; sys.modules[{package!r}] = None; from tandem.main import main; sys.exit(main({call!r}))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    install = "`pip install -e '.[all]'` in the checkout"
    assert done.stderr == f"error: `tandem {command}` needs {package}. Run {install}.\n"


def test_progress_without_a_terminal_prints_each_message_once(capsys: Printed) -> None:
    with progress(quiet=False) as tell:
        for text in ("one", "one", "two"):
            tell(text)
    with progress(quiet=True) as tell:
        tell("three")
    assert capsys.readouterr().err == "one\ntwo\n"
