"""Logins that break Helm's pulls."""

import pytest

from tandem.doctor.checks import checks_for
from tests.tandem.doctor.conftest import Cases
from tests.tandem.doctor.findings import summary
from tests.tandem.doctor.scenes import PUBLIC, Play, Scene, scenes, with_charts


@pytest.mark.real_world(
    behaviour="Public ECR refuses a public chart (403) if the login has expired; Helm also sends Docker's logins.",
    source="aws/karpenter-provider-aws#3441 and #3880; helm pkg/registry/client.go",
)
@scenes("expired logins")
def test_a_login_that_has_expired_stops_up(play: Play, scene: Scene) -> None:
    play(scene)


@scenes("logins")
def test_another_login_is_reported_and_no_token_is_ever_shown(play: Play, scene: Scene) -> None:
    play(scene)


def test_only_charts_that_come_from_a_registry_are_checked(case: Cases) -> None:
    asked = [check.name for check in checks_for(with_charts(case("timeslice"), "ollama"))]
    assert "registry-logins" not in asked
    assert ("ok", f"no login for {PUBLIC}, and none is needed") in summary("registry-logins", case("karpenter"))
