"""How long credentials last, by where botocore found them (the names are its providers' `METHOD`s)."""

from types import SimpleNamespace
from typing import Any

import pytest

from tandem.doctor.credentials import _lifetime_of


@pytest.mark.parametrize(
    "method", ["iam-role", "container-role", "assume-role-with-web-identity", "custom-process", "login"]
)
def test_every_sdk_renews_these_credentials(method: str) -> None:
    session: Any = SimpleNamespace(get_credentials=lambda: SimpleNamespace(method=method, _expiry_time="soon"))
    found = _lifetime_of(session)
    assert (found.known, found.expires, found.why) == (True, None, f"renewed ({method})")
