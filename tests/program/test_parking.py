"""The output by which the next `up` knows whether anything has changed since the stack was deployed."""

import pytest

from sharing import versions
from stacks.parking import Parking, record
from tests.program.conftest import judge_with, plan_of


def test_the_digest_changes_with_the_stack_file_and_with_a_version_and_with_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = plan_of("scheduled")

    def digest(**sections: object) -> str:
        return str(record(judge_with("scheduled", sections).plan(), Parking())["plan"])

    first = digest()
    assert record(plan, Parking(parked=frozenset({"gpu"}), unchanged=True))["plan"] == first
    assert digest(models=[{"name": "llama2:7b", "context": 2048}, {"name": "mistral:7b"}]) != first
    assert digest() == first
    monkeypatch.setattr(versions, "PROBER_IMAGE", "python:next")
    assert digest() != first
