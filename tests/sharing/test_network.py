"""Networks and labels of a stack file: the bounds of AWS and Kubernetes."""

import pytest
from pydantic import TypeAdapter, ValidationError

from sharing.sections.network import Cidr, LabelKey, VpcCidr

CIDR, VPC, KEY = (TypeAdapter(kind) for kind in (Cidr, VpcCidr, LabelKey))


def is_accepted(form: TypeAdapter[str], text: str) -> bool:
    try:
        return form.validate_python(text) == text
    except ValidationError:
        return False


@pytest.mark.parametrize(
    ("first", "last", "before", "after"),
    # RFC 1918, RFC 1122 (loopback) and RFC 3927 (link-local).
    [
        ("10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"),
        ("172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"),
        ("192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0"),
        ("127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"),
        ("169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0"),
    ],
)
def test_private_addresses_reach_no_public_endpoint(first: str, last: str, before: str, after: str) -> None:
    assert [is_accepted(CIDR, f"{each}/32") for each in (before, first, last, after)] == [True, False, False, True]


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("10.0.0.0/15", False),
        ("10.0.0.0/16", True),
        ("10.0.0.0/22", True),
        ("10.0.0.0/23", False),
        ("fd00::/16", False),
    ],
)
def test_a_vpc_has_64_thousand_to_a_thousand_addresses_of_ipv4(text: str, accepted: bool) -> None:
    assert is_accepted(VPC, text) is accepted


def test_the_domain_of_a_label_has_253_characters_at_most() -> None:
    """Kubernetes, "Labels and Selectors", syntax."""
    assert is_accepted(KEY, f"{'a' * 253}/team")
    assert not is_accepted(KEY, f"{'a' * 254}/team")
