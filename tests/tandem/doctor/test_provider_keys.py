"""`aws:` keys of the stack file: the doctor uses the same identity as Pulumi."""

from typing import Any

import pytest

from sharing.sections.provider import AssumedRole
from tandem.doctor.releases import access
from tandem.main import main
from tests.tandem.aws.emulated import Emulated
from tests.tandem.doctor.conftest import ROOT, Cases
from tests.tandem.doctor.findings import finding
from tests.tandem.doctor.scenes import configured

ROLE = "arn:aws:iam::444455556666:role/deployer"


def test_the_duration_of_the_stack_file_is_requested(emulated: Emulated, case: Cases) -> None:
    asked = []
    emulated._AssumeRole = lambda body, path: asked.append(body)  # type: ignore[attr-defined]
    finding("credentials", configured(case("timeslice"), assume_roles=[AssumedRole(role_arn=ROLE, duration="1h30m")]))
    assert asked[0]["DurationSeconds"] == 5400


def test_the_kubernetes_api_gets_the_same_identity(case: Cases) -> None:
    roles = [AssumedRole(role_arn=arn) for arn in ("arn:aws:iam::111122223333:role/first", ROLE)]
    there = configured(case("timeslice", profile="ci"), assume_roles=roles)
    raw = {"name": "tandem-timeslice", "endpoint": "https://api.example", "certificateAuthority": {"data": ""}}
    # The last role is that of the account; the first one only leads to it.
    assert access(raw, there).user["exec"]["args"][-4:] == ["--profile", "ci", "--role-arn", ROLE]


@pytest.mark.slow
def test_the_profile_of_the_stack_file_is_used_unless_an_option_overrides_it(
    emulated: Emulated, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "Pulumi.dev.yaml"
    text = (ROOT / "Pulumi.dev.yaml").read_text()
    file.write_text(text.replace("  aws:region:", "  aws:profile: nobody\n  aws:region:", 1))
    assert main(["doctor", str(file), "--json"]) == 1
    assert "nobody" in capsys.readouterr().out
    main(["doctor", str(file), "--profile", "somebody", "--json"])
    out = capsys.readouterr().out
    assert "somebody" in out
    assert "nobody" not in out
