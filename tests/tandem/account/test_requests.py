"""Every request of a search and a deletion with its arguments, word for word: moto takes also wrong ones.

`--regen` writes `tests/golden/requests.txt`. Each line begins with the seconds of a clock that only sleeping moves.
"""

import re

import pytest

from tandem.deployed.aws import leftovers
from tests.conftest import Golden
from tests.tandem.account.asked import Requests, lines
from tests.tandem.account.cleaning import Cleaning
from tests.tandem.account.laws import Laws

pytestmark = pytest.mark.slow

RANDOM = re.compile(r"\b([a-z]+)-[0-9a-f]{8,}\b")


def test_the_requests_of_a_deletion(laws: Laws, cleaning: Cleaning, requests: Requests, golden: Golden) -> None:
    found = cleaning.look()
    searched = sorted(set(lines(requests)))
    requests.clear()
    cleaning.delete(found)
    said = RANDOM.sub(r"\1-…", "\n".join([*searched, "", *lines(requests), "", *cleaning.said, ""]))
    golden("requests.txt", said)


IAM = "IAM is shared by all regions: it stays while the stack has a cluster in any of them."


def test_what_is_slow_is_waited_for_and_what_is_lost_is_said() -> None:
    kinds = {kind.title: (kind.slow, kind.minutes, kind.note) for kind in leftovers.KINDS}
    at_once: tuple[str, ...] = (
        "launch templates",
        "network interfaces",
        "elastic IPs",
        "security groups",
        "route tables",
        "subnets",
    )
    at_once += ("internet gateways", "VPCs", "log groups", "EventBridge rules", "SQS queues")
    assert kinds == {
        **dict.fromkeys(at_once, (False, 5, "")),
        **dict.fromkeys(("instance profiles", "IAM roles", "IAM policies"), (False, 5, IAM)),
        **dict.fromkeys(("add-ons", "VPC endpoints", "NAT gateways"), (True, 10, "")),
        "instances": (True, 15, ""),
        "EKS clusters": (True, 20, ""),
        "node groups": (True, 25, "Their instances go with them."),
        "volumes": (False, 5, "What lies on them is lost."),
        "snapshots": (False, 5, "A snapshot is a copy that cannot be made again."),
    }
