"""Reaching a stack by Pulumi's outputs, with a stub `pulumi` whose output a test defines."""

import json
import subprocess
from pathlib import Path

import pytest

from tandem.deployed import outputs
from tandem.deployed.connection import by_pulumi
from tandem.deployed.endpoints import NotConnectedError
from tests.tandem.deployed.errors import ERRORS
from tests.tandem.fake_pulumi import bare_project, pulumi

SECRET = "very-secret-token"
KUBECONFIG = {
    "clusters": [{"name": "c", "cluster": {"server": "https://api.example"}}],
    "users": [{"name": "u", "user": {"token": SECRET}}],
    "contexts": [{"name": "aws", "context": {"cluster": "c", "user": "u"}}],
    "current-context": "aws",
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project, and a PATH with only what shells need."""
    bare_project(tmp_path, monkeypatch)
    return tmp_path


@pytest.mark.parametrize("kubeconfig", [json.dumps(KUBECONFIG), KUBECONFIG], ids=["text", "object"])
def test_the_outputs_name_the_cluster(project: Path, kubeconfig: object) -> None:
    pulumi(project, prints=json.dumps({"mode": "timeslice", "kubeconfig": kubeconfig}))
    way = by_pulumi("dev", project / "Pulumi.dev.yaml")
    assert way.chosen.host == "api.example"
    assert way.outputs == {"mode": "timeslice"}, "without the secret"
    called = (project / "called").read_text().split()
    assert called[0] == str(project)
    assert called[1:3] == ["stack", "output"]
    assert {"--json", "--show-secrets", "--non-interactive", "dev"} <= set(called)


@pytest.mark.parametrize(("prints", "says", "code", "line"), ERRORS["outputs"])
def test_every_error_is_one_line_without_secrets(project: Path, prints: str, says: str, code: int, line: str) -> None:
    pulumi(project, prints=prints, says=says, code=code)
    with pytest.raises(NotConnectedError) as error:
        by_pulumi("dev", project / "Pulumi.dev.yaml")
    assert line in str(error.value)
    assert "\n" not in str(error.value)
    assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PermissionError(13, "Permission denied"), "`pulumi` cannot run (Permission denied). Reinstall it, or pass"),
        (subprocess.TimeoutExpired("pulumi", 120), "`pulumi stack output` did not answer within 120 s. Try again."),
    ],
)
def test_a_pulumi_that_cannot_run_or_hangs_is_one_line(
    project: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, said: str
) -> None:
    def fail(*_: object) -> None:
        raise error

    pulumi(project, prints="")
    monkeypatch.setattr(outputs, "run_pulumi", fail)
    with pytest.raises(NotConnectedError) as wrong:
        by_pulumi("dev", project / "Pulumi.dev.yaml")
    assert str(wrong.value).startswith(said)


def test_pulumi_looks_for_no_update_and_may_print_any_bytes(project: Path) -> None:
    """www.pulumi.com/docs/iac/cli/environment-variables: PULUMI_SKIP_UPDATE_CHECK."""
    pulumi(project)
    (project / "bin" / "pulumi").write_text(
        '#!/bin/sh\nprintf "error: $PULUMI_SKIP_UPDATE_CHECK \\377\\n" >&2\nexit 1\n'
    )
    with pytest.raises(NotConnectedError, match=r"^cannot read the outputs of stack dev: true \ufffd\. Run"):
        by_pulumi("dev", project / "Pulumi.dev.yaml")


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "9" * 5000], ids=["half", "too deep", "too long a number"])
def test_outputs_that_python_cannot_read_are_one_line(
    project: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    pulumi(project, prints="")
    done = subprocess.CompletedProcess([], 0, stdout=text, stderr="")
    monkeypatch.setattr(outputs, "run_pulumi", lambda *_: done)
    with pytest.raises(NotConnectedError, match=r"of stack dev printed no JSON object\. Run it to see why"):
        outputs.stack_outputs("dev", project)
    file = project / "outputs.json"
    file.write_text(text)
    with pytest.raises(
        NotConnectedError, match=r"outputs\.json is not valid JSON\. Write it with `pulumi stack output"
    ):
        outputs.of_file(file, "dev")


def test_the_project_of_a_stack_file_is_the_nearest_one(tmp_path: Path) -> None:
    inner = tmp_path / "outer" / "inner" / "stacks"
    inner.mkdir(parents=True)
    file = inner / "Pulumi.dev.yaml"
    assert outputs.project_of(file) == inner
    for folder in (inner.parent.parent, inner.parent, inner):
        (folder / "Pulumi.yaml").touch()
        assert outputs.project_of(file) == folder
