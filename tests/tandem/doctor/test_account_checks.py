"""The doctor's requests to AWS for each check, word for word: moto accepts even wrong ones."""

import pytest

from tests.conftest import Golden
from tests.tandem.aws.asked import Requests, lines
from tests.tandem.doctor.conftest import Cases
from tests.tandem.doctor.findings import findings

ASKING = ("credentials", "region", "quotas", "offerings", "spot-role", "add-on-builds", "cluster")


@pytest.mark.slow
def test_every_request_matches_the_golden(case: Cases, requests: Requests, golden: Golden) -> None:
    said = []
    for stack in ("timeslice", "karpenter"):
        for check in ASKING:
            requests.clear()
            findings(check, case(stack))
            # All ask for the identity, as the first one does.
            said += [
                f"{stack} {check}",
                *(line for line in lines(requests) if check == ASKING[0] or "sts." not in line),
            ]
    golden("doctor-requests.txt", "\n".join([*said, ""]))
