"""The commands that read a cluster, as far as they get without one."""

import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from tandem.deployed import connection, patience
from tandem.terminal import progress
from tandem.verify import verify
from tests.command import Printed, call
from tests.tandem.deployed.fake_kubernetes import FakeKubernetes
from tests.tandem.seen import ROOT
from tests.tandem.shown import VERDICTS


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


@pytest.mark.parametrize(
    ("options", "seconds", "overfill", "verdict", "code"),
    [
        ((), 0, False, VERDICTS[1], 0),
        # Half an hour by the reference of the command line.
        (("--wait",), 1800, False, VERDICTS[2], 1),
        (("--wait", "9", "--overfill"), 9, True, VERDICTS[1], 0),
    ],
)
def test_the_options_decide_what_is_checked_and_for_how_long(
    options: tuple[str, ...], seconds: float, overfill: bool, verdict: Any, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}

    def wait(seconds: float, *, tell: Any) -> None:
        given.update(seconds=seconds)
        tell("Checking")

    def look(connected: Any, *, patience: Any, overfill: bool) -> Any:
        given.update(overfill=overfill)
        return verdict

    monkeypatch.setattr(patience, "Patience", wait)
    monkeypatch.setattr(connection, "reached", lambda *_: nullcontext())
    monkeypatch.setattr(verify, "verify", look)
    ended = call("verify", "timeslice", *options)
    assert (given, ended.returncode) == ({"seconds": seconds, "overfill": overfill}, code)
    assert ended.stderr.startswith("Checking\n")
