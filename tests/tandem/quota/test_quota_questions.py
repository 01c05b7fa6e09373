"""The requests of `tandem quota` to EC2, word for word, because moto answers even wrong ones."""

from collections.abc import Iterator
from typing import Any, cast

from tandem.aws.quota import _offered, _sizes
from tandem.aws.session import Account


class Asked:
    """An account with fixed answers that records the requests."""

    def __init__(self, *pages: dict[str, Any]) -> None:
        self.questions: list[tuple[str, str, dict[str, Any]]] = []
        self.answers = pages

    def pages(self, service: str, operation: str, **question: Any) -> Iterator[dict[str, Any]]:
        self.questions.append((service, operation, question))
        yield from self.answers


def asked(*pages: dict[str, Any]) -> tuple[Asked, Account]:
    account = Asked(*pages)
    return account, cast(Account, account)


def test_sizes_are_requested_for_a_hundred_types_at_a_time() -> None:
    """EC2 API reference, DescribeInstanceTypes: `InstanceType.N` takes at most 100 items."""
    names = [f"x9.{number}xlarge" for number in range(101)]
    account, found = asked({"InstanceTypes": [{"InstanceType": "x9.7xlarge", "VCpuInfo": {"DefaultVCpus": 28}}]})
    sizes = _sizes(found, ["t3.medium", "g4dn.xlarge", *names])
    assert [question for *_, question in account.questions] == [
        {"InstanceTypes": names[:100]},
        {"InstanceTypes": names[100:]},
    ]
    assert (sizes["x9.7xlarge"], sizes["t3.medium"], sizes["g4dn.xlarge"]) == (28, 2, 4)


def test_offers_are_requested_by_zone_and_type() -> None:
    """EC2 API reference, DescribeInstanceTypeOfferings: without a location type it answers by region."""
    sold = [("g4dn.xlarge", "us-east-1a"), ("g4dn.xlarge", "us-east-1b"), ("g4dn.xlarge", "us-east-1-bos-1a")]
    rows = [{"InstanceType": name, "Location": zone} for name, zone in sold]
    account, found = asked({"InstanceTypeOfferings": rows})
    assert _offered(found, ["us-east-1a", "us-east-1b"], ["g4dn.xlarge"]) == {
        "g4dn.xlarge": {"us-east-1a", "us-east-1b"}
    }
    types = {"Name": "instance-type", "Values": ["g4dn.xlarge"]}
    question = {"LocationType": "availability-zone", "Filters": [types]}
    assert account.questions == [("ec2", "describe_instance_type_offerings", question)]
