"""`tandem doctor` as a whole: what it prints, and its exit codes."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tandem.doctor import checks
from tandem.doctor.checks import Check
from tandem.doctor.finding import ok, stops
from tandem.main import main
from tests.tandem.aws.emulated import Emulated
from tests.tandem.doctor.conftest import ROOT, Cases

Capture = pytest.CaptureFixture[str]
MACHINE = ["python", "pulumi", "aws-cli"]


def run(capsys: Capture, *arguments: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = main(["doctor", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_without_a_stack_the_machine_and_the_account_are_checked(
    emulated: Emulated, machine: Callable[..., None], capsys: Capture
) -> None:
    machine("pulumi", "v3.260.0")
    machine("aws", "aws-cli/2.15.30")
    code, shown = run(capsys, "--region", "eu-west-1")
    assert code == 0
    assert [each["check"] for each in shown["checks"]][:5] == [*MACHINE, "credentials", "region"]
    assert (shown["stack"], shown["account"], shown["region"]) == (None, "123456789012", "eu-west-1")
    assert shown["verdict"] == "ok"


def test_text_from_servers_cannot_control_the_terminal(case: Cases) -> None:
    def run(_: object) -> Any:
        yield stops("a\x1b[2J\nb", "c\rd")

    check = Check("it", "It", "machine", run)
    (found,) = checks.findings(check, case())
    assert (found.text, found.fix) == ("a[2J b", "c d")


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(), ("dev",)])
def test_without_boto3_the_machine_is_still_checked(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    call = ["doctor", *arguments, "--json"]
    blocked = "import sys; sys.modules.update(dict.fromkeys(('boto3', 'botocore', 'kr8s')))"
    program = f"{blocked}; from tandem.main import main; sys.exit(main({call!r}))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True)
    found = {each["check"]: each for each in json.loads(done.stdout)["checks"]}
    assert found["python"]["verdict"] in ("ok", "warning")
    assert found["pulumi"]["found"] == "`pulumi` is not on the PATH"
    assert found["credentials"]["verdict"] == "unknown"
    assert found["credentials"]["found"] == "`tandem doctor` needs botocore"
    assert "'.[all]'" in found["credentials"]["fix"]


def test_a_bug_is_not_hidden(case: Cases, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: object) -> Any:
        yield ok(str(1 // 0))

    broken = Check("it", "It", "machine", run)
    monkeypatch.setattr(checks, "CHECKS", (broken,))
    with pytest.raises(ZeroDivisionError):
        checks.examine(case())
