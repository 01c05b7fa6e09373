"""`tandem doctor` as a whole: what it prints, and its exit codes."""

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tandem.doctor import checks, screen
from tandem.doctor.checks import CHECKS, Answered, Check, checks_for
from tandem.doctor.finding import Finding, exit_code, ok, stops, unknown, warning
from tandem.main import main
from tests.command import Screen
from tests.tandem.aws.emulated import Emulated
from tests.tandem.doctor.conftest import ROOT, Cases

Capture = pytest.CaptureFixture[str]
MACHINE = ["python", "pulumi", "aws-cli"]


def run(capsys: Capture, *arguments: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = main(["doctor", *arguments, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ([], 0),
        ([ok("")], 0),
        ([ok(""), warning("", "")], 0),
        ([ok(""), unknown("")], 2),
        ([stops("", ""), ok("")], 1),
        ([unknown(""), stops("", "")], 1),
    ],
)
def test_a_finding_that_stops_up_outweighs_an_unfinished_check(found: list[Finding], code: int) -> None:
    assert exit_code(found) == code


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


def test_without_a_region_none_is_checked(emulated: Emulated, case: Cases) -> None:
    assert "region" not in [check.name for check in checks_for(case(region=""))]


def test_an_account_that_denies_everything_exits_with_2(
    emulated: Emulated, machine: Callable[..., None], monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    machine("pulumi", "v3.260.0")
    machine("aws", "aws-cli/2.15.30")
    emulated.denied = dict.fromkeys(("DescribeRegions", "GetServiceQuota", "DescribeInstanceTypeOfferings"), "Denied")
    monkeypatch.setattr(checks, "CHECKS", [check for check in CHECKS if check.source in ("machine", "account")])
    code, shown = run(capsys, str(ROOT / "Pulumi.dev.yaml"))
    assert (code, shown["verdict"], shown["stack"]) == (2, "unknown", "dev")


def test_text_from_servers_cannot_control_the_terminal(case: Cases) -> None:
    def run(_: object) -> Any:
        yield stops("a\x1b[2J\nb", "c\rd")

    check = Check("it", "It", "machine", run)
    (found,) = checks._findings(check, case())
    assert (found.text, found.fix) == ("a[2J b", "c d")


def test_a_missing_package_is_named_with_the_extra_that_contains_it(case: Cases) -> None:
    def run(_: object) -> Any:
        raise ModuleNotFoundError("No module named 'boto3'", name="boto3")
        yield

    (found,) = checks._findings(Check("it", "It", "machine", run), case())
    fix = "Run `.venv/bin/python -m pip install --no-build-isolation -e '.[aws,cluster]'` in the checkout."
    assert found == unknown("`tandem doctor` needs boto3", fix)


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(), ("dev",), ("--region", "eu-west-1")])
def test_without_boto3_the_machine_is_still_checked(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    call = ["doctor", *arguments, "--json"]
    blocked = "import sys; sys.modules.update(dict.fromkeys(('boto3', 'botocore', 'kr8s')))"
    program = f"{blocked}; from tandem.main import main; sys.exit(main({call!r}))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env={"PATH": str(tmp_path)}, capture_output=True)
    found = {each["check"]: each for each in json.loads(done.stdout)["checks"]}
    assert found["python"]["verdict"] in ("ok", "warning")
    assert found["pulumi"]["found"] == "`pulumi` is not on the PATH"
    assert found["credentials"]["verdict"] == "unknown"
    assert found["credentials"]["found"] == "`tandem doctor` needs boto3"
    assert "'.[aws,cluster]'" in found["credentials"]["fix"]


def test_a_bug_is_not_hidden(case: Cases, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: object) -> Any:
        yield ok(str(1 // 0))

    broken = Check("it", "It", "machine", run)
    monkeypatch.setattr(checks, "CHECKS", (broken,))
    with pytest.raises(ZeroDivisionError):
        checks.examine(case())


def test_each_check_has_its_own_name_and_description() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    assert all(check.about.endswith(".") and len(check.about.split()) <= 25 for check in CHECKS)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_url_stays_whole_on_a_terminal(case: Cases, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """A URL within a finding, and one within its fix."""
    url = "https://docs.aws.amazon.com/cli/latest/userguide/getting-started-install.html"
    some = [Answered(CHECKS[0], warning(f"no answer from {url} in time", f"See {url}."))]
    screen_ = Screen()
    monkeypatch.setenv("COLUMNS", str(width))
    with contextlib.redirect_stdout(screen_):
        screen.show(case(), some)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen_.getvalue())
    assert shown.count(url) == 2
    assert shown.startswith("! warning      Python  no answer from")


def test_marks_are_on_terminals_alone(case: Cases, capsys: Capture) -> None:
    screen.show(case(), [Answered(CHECKS[0], ok("3.11"))])
    assert capsys.readouterr().out.startswith("ok           Python  3.11\n")
