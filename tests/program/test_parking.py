"""The output by which the next `up` knows whether anything has changed since the stack was deployed."""

import pytest

from sharing import versions
from stacks.outputs import ParkingOutputs
from stacks.parking import Parking, _read_last, record
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


@pytest.mark.parametrize("is_scheduled", [True, False])
def test_outputs_that_cannot_be_read_matter_only_with_a_schedule(
    is_scheduled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(token: str, args: object) -> None:
        raise RuntimeError("no outputs")

    said: list[str] = []
    monkeypatch.setattr("pulumi.runtime.invoke", refuse)
    monkeypatch.setattr("pulumi.log.warn", said.append)
    found = _read_last(is_scheduled=is_scheduled)
    assert found == (ParkingOutputs(plan="", parked=()) if is_scheduled else None)
    assert said == ["the outputs of the last `up` are unknown: no outputs"] * is_scheduled
