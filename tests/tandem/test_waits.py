"""Each wait outlasts what it waits for, and then not for long."""

import pytest

from components.open_webui import PROBE_SECONDS, START_PROBES
from components.scheduled_parking.cron_jobs import LIMIT_SECONDS
from tandem.deployed import forwarding, kubernetes, outputs, parking
from tandem.env import background
from tandem.ui import page


@pytest.mark.parametrize(
    ("inner", "outer"),
    [
        (PROBE_SECONDS * START_PROBES, page.START_SECONDS),
        (LIMIT_SECONDS, parking.JOB_SECONDS),
        (outputs.PULUMI_SECONDS, background.WAIT_SECONDS),
        (forwarding.FIND_SECONDS, background.ANSWER_SECONDS),
        (kubernetes.CREDENTIALS_SECONDS, kubernetes.CONNECT_SECONDS),
    ],
)
def test_a_wait_outlasts_what_it_waits_for(inner: float, outer: float) -> None:
    assert inner < outer <= 1.5 * inner
