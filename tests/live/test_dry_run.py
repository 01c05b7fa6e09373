"""The live checklist against the emulated cloud: every session deploys, takes its steps, and leaves nothing."""

import pytest

from tandem.sandbox.pulumi import NoPulumiError, executable
from tests.live.__main__ import dry_run
from tests.live.sessions import SESSIONS


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_goes_through_its_steps_and_leaves_nothing(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    try:
        executable()
    except NoPulumiError as reason:
        pytest.skip(str(reason).split(". ")[0])
    code = dry_run([SESSIONS[name]])
    said = capfd.readouterr()
    assert code == 0, said.out[-4000:] + said.err[-4000:]
    assert "nothing is left" in said.out
