"""Every request of a search and a deletion with its arguments, word for word, because moto accepts even wrong ones.

`--regen` writes `tests/golden/requests.txt`. Each line begins with the seconds of a clock that only sleeping advances.
"""

import json
import re

import pytest

from tandem.leftovers import inventory
from tests.conftest import Golden
from tests.tandem.aws.asked import Requests, lines
from tests.tandem.aws.cleaning import Cleaning
from tests.tandem.aws.slow_deletions import Delays

pytestmark = pytest.mark.slow

PLACE = re.compile(r"\b127(\.\d+){3}\b|(?<=us-east-1)[a-f]\b")
"""An address and a zone, which moto chooses at random."""
RANDOM = re.compile(r"\b([a-z]+)-[0-9a-f]{8,}\b")


def test_the_requests_of_a_deletion(delays: Delays, cleaning: Cleaning, requests: Requests, golden: Golden) -> None:
    found = cleaning.look()
    searched = sorted(set(lines(requests)))
    listed = inventory.as_dict(found, cleaning.account)
    listed["left"].sort(key=lambda one: (one["kind"], one["detail"]))  # within a kind AWS lists them in any order
    golden("leftovers.json", PLACE.sub("…", RANDOM.sub(r"\1-…", json.dumps(listed, indent=1))) + "\n")
    requests.clear()
    cleaning.delete(found)
    kinds = [f"{one.title}: {'slow, ' * one.slow}{one.minutes} minutes. {one.note}".rstrip() for one in inventory.KINDS]
    said = RANDOM.sub(r"\1-…", "\n".join([*searched, "", *lines(requests), "", *cleaning.said, "", *kinds, ""]))
    golden("requests.txt", said)
