"""The requests to AWS, one line each."""

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

READS = re.compile(r" *\d+ \w+\.(Describe|Get|List)")
Requests = list[tuple[str, dict[str, Any], float]]
"""Operation, arguments, and the second of a clock that only sleeping advances."""


def lines(requests: Requests) -> Iterator[str]:
    """One line per request. Those between two changes are sorted, because some run in parallel."""
    # botocore adds a random ClientToken to requests that have one.
    without_token = (
        (operation, {key: value for key, value in asked.items() if key != "ClientToken"}, seconds)
        for operation, asked, seconds in requests
    )
    said = (f"{seconds:5.0f} {name} {json.dumps(asked, sort_keys=True)}" for name, asked, seconds in without_token)
    for reads, some in itertools.groupby(said, key=lambda line: bool(READS.match(line))):
        together = [*some]
        yield from sorted(together) if reads else together
