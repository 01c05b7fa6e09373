"""Every key of a stack file has a fix to offer, and the table of hints names only existing keys."""

import re

import pytest
from pydantic import BaseModel

from stacks.stack_file.hints import HINTS, fields, hint
from tests.program.conftest import judge_with, source_of

REFUSED_KEYS = {
    "gpu-nodes.name",
    "gpu-nodes.sharing",
    *(f"aws:assumeRoles[].{key}" for key in ("externalId", "policy", "policyArns", "sourceIdentity")),
    *(f"aws:assumeRoles[].{key}" for key in ("tags", "transitiveTagKeys")),
}
"""Keys that no stack file may have, each with its own hint."""


def test_every_hint_belongs_to_a_key() -> None:
    of_any_mode = {re.sub(r"(?<=sharing\.)[a-z]+\.", "", path) for path in fields()}
    lists = {path.removesuffix("[]") for path in HINTS}
    assert lists - {*fields(), *of_any_mode} == REFUSED_KEYS


def test_every_key_has_a_hint_or_a_default_to_return_to() -> None:
    sections = [path for path, field in fields().items() if isinstance(field.default, BaseModel | dict)]
    required = [path for path, field in fields().items() if field.is_required()]
    assert {"cluster", "models"} <= {*sections, *required}
    assert [path for path in (*sections, *required) if not hint(path)] == []


@pytest.mark.parametrize(("mode", "unit"), [("timeslice", "GPU"), ("mps", "GPU"), ("mig", "slice")])
def test_a_pool_in_a_list_gets_the_hint_of_its_own_mode(mode: str, unit: str) -> None:
    pools = [{"name": "a", "instance-types": ["g7e.2xlarge"], "sharing": {"mode": mode, "replicas": 1}}]
    models = [{**one, "pool": "a"} for one in source_of("timeslice").sections["models"]]
    [problem] = judge_with("timeslice", {"gpu-nodes": pools, "models": models, "budget": {}}).problems
    assert problem.path == "gpu-nodes[0].sharing.replicas"
    assert problem.fix.startswith(f"For one pod per {unit}, ")
