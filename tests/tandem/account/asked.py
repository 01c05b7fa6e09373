"""What is asked of AWS, a line each."""

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

READS = re.compile(r" *\d+ \w+\.(Describe|Get|List)")
Requests = list[tuple[str, dict[str, Any], float]]
"""Operation, arguments, and the second of a clock that only sleeping moves."""


def lines(requests: Requests) -> Iterator[str]:
    """One for each. Questions between two changes are sorted: some are asked at the same time."""
    said = (f"{seconds:5.0f} {operation} {json.dumps(asked, sort_keys=True)}" for operation, asked, seconds in requests)
    for reads, some in itertools.groupby(said, key=lambda line: bool(READS.match(line))):
        together = [*some]
        yield from sorted(together) if reads else together
