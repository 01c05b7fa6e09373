"""How long credentials last, by where botocore found them (its providers' `METHOD`s), and the verdict of all checks."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tandem.doctor.checks import CHECKS, Answered
from tandem.doctor.command import _ambient_region
from tandem.doctor.credentials import _lifetime_of
from tandem.doctor.finding import Finding, exit_code
from tandem.doctor.screen import as_dict


@pytest.mark.parametrize(
    "method", ["iam-role", "container-role", "assume-role-with-web-identity", "custom-process", "login"]
)
def test_every_sdk_renews_these_credentials(method: str) -> None:
    session: Any = SimpleNamespace(get_credentials=lambda: SimpleNamespace(method=method, _expiry_time="soon"))
    found = _lifetime_of(session)
    assert (found.known, found.expires, found.why) == (True, None, f"renewed ({method})")


@pytest.mark.parametrize(
    ("verdicts", "code", "said"),
    [("ok warning", 0, "ok"), ("ok unknown warning", 2, "unknown"), ("unknown stops ok", 1, "stops")],
)
def test_an_error_outweighs_what_is_unknown(verdicts: str, code: int, said: str) -> None:
    """The exit codes are those of `tandem doctor --help`."""
    machine: Any = SimpleNamespace(stack=None, account_id=None, region="")
    kinds: Any = verdicts.split()
    answers = [Answered(CHECKS[0], Finding(verdict=kind, text=f"is {kind}", fix="Do it.")) for kind in kinds]
    assert exit_code(one.finding for one in answers) == code
    assert as_dict(machine, answers) == {
        "schema_version": 1,
        "stack": None,
        "account": None,
        "region": None,
        "verdict": said,
        "checks": [
            {"check": "python", "title": "Python", "verdict": kind, "found": f"is {kind}", "fix": "Do it."}
            for kind in kinds
        ],
    }


def test_without_a_region_it_is_that_of_the_profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As boto3's configuration guide says: `AWS_CONFIG_FILE`, and a section for each profile."""
    config = tmp_path / "config"
    config.write_text("[default]\nregion = eu-west-1\n[profile work]\nregion = eu-north-1\n")
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_DEFAULT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    assert [_ambient_region(profile) for profile in (None, "work", "none")] == ["eu-west-1", "eu-north-1", ""]
