"""Every request of a search and a deletion with its arguments, word for word, because moto accepts even wrong ones.

`--regen` writes `tests/golden/requests.txt`: the search by its arguments, then the deletion, in order. Each line of it
begins with the seconds of a clock that only sleeping advances; a request that is repeated is one line.
"""

import itertools
import re
from collections.abc import Iterable, Iterator

import pytest

from tandem.leftovers import inventory
from tests.conftest import Golden
from tests.goldens import in_full
from tests.tandem.aws.asked import Requests, lines
from tests.tandem.aws.cleaning import Cleaning
from tests.tandem.aws.slow_deletions import Delays

pytestmark = pytest.mark.slow

PLACE = re.compile(r"\b127(\.\d+){3}\b|(?<=us-east-1)[a-f]\b")
"""An address and a zone, which moto chooses at random."""
RANDOM = re.compile(r"\b([a-z]+)-[0-9a-f]{8,}\b")


def by_arguments(requests: Iterable[str]) -> Iterator[str]:
    """The operations with each arguments."""
    asked: dict[str, list[str]] = {}
    for line in requests:
        second, operation, arguments = line.split(maxsplit=2)
        assert second == "0"
        asked.setdefault(arguments, []).append(operation)
    yield from (f"{arguments}: {' '.join(operations)}" for arguments, operations in asked.items())


def without_repeats(requests: Iterable[str]) -> Iterator[str]:
    for request, same in itertools.groupby(requests, key=lambda line: line.split(maxsplit=1)[1]):
        seconds = [line.split(maxsplit=1)[0] for line in same]
        times = f" × {len(seconds)}, until {seconds[-1]}" if len(seconds) > 1 else ""
        yield f"{seconds[0]:>5} {request}{times}"


def test_the_requests_of_a_deletion(delays: Delays, cleaning: Cleaning, requests: Requests, golden: Golden) -> None:
    found = cleaning.look()
    searched = by_arguments(sorted(set(lines(requests))))
    listed = inventory.as_dict(found, cleaning.account)
    listed["left"].sort(key=lambda one: (one["kind"], one["detail"]))  # within a kind AWS lists them in any order
    golden("leftovers.json", PLACE.sub("…", RANDOM.sub(r"\1-…", in_full(listed, width=200))) + "\n")
    requests.clear()
    cleaning.delete(found)
    said = RANDOM.sub(r"\1-…", "\n".join([*searched, "", *without_repeats(lines(requests)), "", *cleaning.said, ""]))
    golden("requests.txt", said)
