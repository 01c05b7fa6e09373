"""Whether the programs that `up` needs are there, and new enough."""

import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tandem.doctor.conftest import ROOT, Cases
from tests.tandem.doctor.findings import finding, summary

Machine = Callable[..., None]


def test_this_python_is_fine(case: Cases) -> None:
    assert finding("python", case()).verdict == "ok"


def test_a_python_before_what_the_project_requires_stops_up(case: Cases, monkeypatch: pytest.MonkeyPatch) -> None:
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert required == ">=3.11"
    monkeypatch.setattr(sys, "version_info", (3, 10, 14, "final", 0))
    found = finding("python", case())
    assert (found.verdict, found.found) == ("stops", "3.10.14 is older than 3.11")
    assert found.fix.startswith("Install Python 3.11")


@pytest.mark.parametrize("line", ["version = 3.9.18", "version_info = 3.9.18.final.0"])
def test_a_virtual_environment_with_an_old_python_stops_up(case: Cases, tmp_path: Path, line: str) -> None:
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "pyvenv.cfg").write_text(f"home = /usr/bin\n{line}\n")
    found = finding("python", case())
    assert (found.verdict, found.found) == ("stops", ".venv has 3.9, which is older than 3.11")


@pytest.mark.real_world(
    behaviour="A Pulumi engine older than 3.208, and a Python SDK older than 3.214, ignore `replacement_trigger`.",
    source="pulumi/pulumi CHANGELOG.md, 3.208.0; sdk/python/lib/pulumi/runtime/resource.py, 3.214.0",
)
@pytest.mark.parametrize(
    ("printed", "verdict", "told"),
    [
        ("v3.260.0", "ok", "3.260.0"),
        ("v3.214.0", "ok", "3.214.0"),
        ("v3.213.9", "stops", "3.213.9 is older than 3.214.0"),
        ("v3.214.0-alpha.1", "stops", "3.214.0 is older than 3.214.0"),
        ("warning: a new version is out\nv3.99.0", "stops", "3.99.0 is older than 3.214.0"),
        ("v4.0.0", "ok", "4.0.0"),
        ("no version", "unknown", "`pulumi version` prints no version: 'no version'"),
    ],
)
def test_a_pulumi_that_is_too_old_stops_up(
    case: Cases, machine: Machine, printed: str, verdict: str, told: str
) -> None:
    machine("pulumi", printed)
    assert summary("pulumi", case()) == [(verdict, told)]


@pytest.mark.parametrize(("check", "program"), [("pulumi", "pulumi"), ("aws-cli", "aws")])
def test_the_fix_for_a_build_without_a_version_is_a_released_one(
    case: Cases, machine: Machine, check: str, program: str
) -> None:
    machine(program, "")
    found = finding(check, case())
    assert (found.verdict, found.fix.startswith("Install a released build: https://")) == ("unknown", True)


@pytest.mark.parametrize(
    ("wanted", "verdict"),
    [
        (">=3.214.0", "ok"),
        (">= 3.214.0 <4.0.0", "ok"),
        (">=3.300.0", "stops"),
        (">=3.214.0 <3.250.0", "stops"),
        ("<3.0.0 || >=3.250.0", "ok"),
        ("!3.260.0", "stops"),
        ("3.260.0", "ok"),
        ("soon", "unknown"),
        ("3.x", "unknown"),
    ],
)
def test_what_pulumi_yaml_demands_of_the_cli_is_checked(
    case: Cases, machine: Machine, tmp_path: Path, wanted: str, verdict: str
) -> None:
    machine("pulumi", "v3.260.0")
    (tmp_path / "Pulumi.yaml").write_text(f'name: tandem\nrequiredPulumiVersion: "{wanted}"\n')
    assert finding("pulumi", case()).verdict == verdict


def test_a_pulumi_yaml_that_is_no_yaml_is_not_fine(case: Cases, machine: Machine, tmp_path: Path) -> None:
    machine("pulumi", "v3.260.0")
    (tmp_path / "Pulumi.yaml").write_text("a: [")
    assert finding("pulumi", case()).verdict == "unknown"


@pytest.mark.real_world(
    behaviour="The eks provider refuses an AWS CLI older than 1.24.0, or 2.7.0, and one that is missing.",
    source="pulumi-eks nodejs/eks/dependencies.ts; run against the provider, 2026-11",
)
@pytest.mark.parametrize(
    ("printed", "verdict", "told"),
    [
        ("aws-cli/2.15.30 Python/3.11.8 Linux/6.1 exe/x86_64", "ok", "2.15.30"),
        ("aws-cli/1.24.0 Python/3.9.1 Linux/6.1 botocore/1.26.0", "ok", "1.24.0"),
        ("aws-cli/2.6.4 Python/3.9.11 Linux/6.1", "stops", "2.6.4 is older than 2.7.0"),
        ("aws-cli/1.18.69 Python/3.8.10 Linux/5.4", "stops", "1.18.69 is older than 1.24.0"),
        ("Hello", "unknown", "`aws --version` prints no version: 'Hello'"),
    ],
)
def test_an_aws_cli_that_is_too_old_stops_up(
    case: Cases, machine: Machine, printed: str, verdict: str, told: str
) -> None:
    machine("aws", printed)
    assert summary("aws-cli", case()) == [(verdict, told)]


@pytest.mark.parametrize(("check", "program"), [("pulumi", "pulumi"), ("aws-cli", "aws")])
def test_a_program_that_is_missing_stops_up_and_one_that_fails_is_not_fine(
    case: Cases, machine: Machine, check: str, program: str
) -> None:
    found = finding(check, case())
    assert (found.verdict, found.found) == ("stops", f"there is no `{program}` on the PATH")
    assert found.fix.startswith("Install it: https://")
    machine(program, "\x1b[31mSegmentation fault", code=139)
    found = finding(check, case())
    assert found.verdict == "unknown"
    assert "failed with exit code 139" in found.found
    assert "\x1b" not in found.found
