"""The doctor's requests to AWS for each check, and its findings, word for word: moto accepts even wrong ones."""

import pytest

from tests.conftest import Golden
from tests.tandem.aws.asked import Requests, lines
from tests.tandem.doctor.conftest import Cases
from tests.tandem.doctor.findings import findings

ASKING = ("credentials", "region", "quotas", "offerings", "spot-role", "add-on-builds", "ami-releases", "cluster")


@pytest.mark.slow
def test_every_request_matches_the_golden(case: Cases, requests: Requests, golden: Golden) -> None:
    said = []
    for stack in ("timeslice", "karpenter"):
        for check in ASKING:
            requests.clear()
            found = findings(check, case(stack))
            said += [f"{stack} {check}", *(f"  {one}" for one in found), *lines(requests)]
    golden("doctor-requests.txt", "\n".join([*said, ""]))
