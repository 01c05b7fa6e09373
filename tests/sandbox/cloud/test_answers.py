"""The emulated cloud's replies to creations and invokes, compared word for word with `answers.toml`."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from sandbox.cloud.answers import RULES, Cloud
from sandbox.cloud.protocol import Created, Creation, Question

ANSWERS: dict[str, list[dict[str, Any]]] = tomllib.loads(
    (Path(__file__).parent / "answers.toml").read_text(encoding="utf-8")
)


def created(type: str, name: str = "x", inputs: Any = None, provider: Any = None) -> Created:
    return Cloud().created(Creation(type=type, name=name, inputs=inputs or {}, provider=provider or {}))


@pytest.mark.parametrize("case", ANSWERS["resource"], ids=lambda case: case["type"])
def test_a_new_resource_has_the_id_and_outputs_of_the_real_kind(case: dict[str, Any]) -> None:
    inputs = case.get("inputs", {})
    made = created(case["type"], inputs=inputs, provider=case.get("provider"))
    assert (made.id, made.outputs) == (case["id"], {**inputs, **case["computed"]})


def test_every_type_with_a_rule_has_a_case() -> None:
    assert {case["type"] for case in ANSWERS["resource"]} >= RULES.keys()


@pytest.mark.parametrize("case", ANSWERS["function"], ids=lambda case: case["token"])
def test_a_function_has_the_result_of_the_real_one(case: dict[str, Any]) -> None:
    question = Question(token=case["token"], args=case.get("args", {}), provider=case.get("provider", {}))
    assert Cloud().answer(question) == case["answer"]


def test_ids_differ_by_name_and_type_and_are_the_same_every_time() -> None:
    vpc, subnet = "aws:ec2/vpc:Vpc", "aws:ec2/subnet:Subnet"
    assert created(vpc, "a").id == created(vpc, "a", {"cidrBlock": "10.0.0.0/16"}).id
    assert created(vpc, "a").id != created(vpc, "b").id
    assert created(vpc, "a").id[-17:] != created(subnet, "a").id[-17:]
