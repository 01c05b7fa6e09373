"""Names that are made from others."""

import re

import pytest

from sharing.names import safe_name


def test_a_plain_name_that_fits_stays_as_it_is() -> None:
    assert safe_name("a" * 40, 40) == "a" * 40


@pytest.mark.parametrize("text", ["a" * 41, "a" * 32 + "-b" * 9, "a" * 40 + ".", "A" * 40, "tandem-dev_1"])
def test_any_other_is_made_to_fit_and_is_kept_apart(text: str) -> None:
    # A label of a name in DNS, RFC 1123 section 2.1.
    found = safe_name(text, 40)
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", found)
    assert len(found) <= 40
    assert "--" not in found
    assert found not in {safe_name(text + more, 40) for more in ("a", "-")}
