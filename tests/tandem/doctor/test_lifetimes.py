"""How long credentials last, by where botocore found them (the names are its providers' `METHOD`s)."""

from types import SimpleNamespace
from typing import Any

import pytest

from tandem.doctor.credentials import _lifetime_of, _minutes


@pytest.mark.parametrize(
    ("minutes", "said"),
    [(1, "1 minute"), (179, "179 minutes"), (180, "3 hours"), (2879, "48 hours"), (2880, "more than 2 days")],
)
def test_a_time_is_said_in_a_unit_that_suits_it(minutes: int, said: str) -> None:
    assert _minutes(minutes) == said


@pytest.mark.parametrize(
    "method", ["iam-role", "container-role", "assume-role-with-web-identity", "custom-process", "login"]
)
def test_every_sdk_renews_these_credentials(method: str) -> None:
    credentials = SimpleNamespace(method=method, _expiry_time="soon")
    session: Any = SimpleNamespace(get_credentials=lambda: credentials)
    found = _lifetime_of(session)
    assert (found.known, found.expires, found.why) == (True, None, f"renewed ({method})")
