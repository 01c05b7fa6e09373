"""Wrong programs of one's own, with Pulumi's mocks: each is refused at construction, in the words of `tandem plan`."""

import re
from pathlib import Path
from typing import Any

import pulumi
import pytest

from stacks.stack_file.judge import judge
from stacks.stack_file.yaml import Source
from tests.components.conftest import Mocks
from tests.rows import read_yaml

PROGRAMS: dict[str, dict[str, Any]] = read_yaml(Path(__file__).with_name("wrong_programs.yaml"))
IMPORTS = "import pulumi\nfrom tandem import *\n"
KEYS = {
    "OllamaPairArgs.": "",
    "OllamaModel.": "models[0].",
    "SpotGpuNodeGroupArgs.": "gpu-nodes[0].",
    "runs_on[1]": "gpu-nodes[1]",
    "runs_on[0]": "gpu-nodes[0]",
    "runs_on": "gpu-nodes[0]",
    "].model:": "].name:",
    "].pool:": "].name:",
    "spill_pools": "spill",
    "instance_types": "instance-types",
    "volume_gib": "volume-gib",
    "prompt_cache_mib": "prompt-cache-mib",
    "memory_gib": "memory-gib",
    "kv_type": "kv-type",
}
"""Arguments, and what a stack file with a list of pools has in their place."""


def run_program(text: str) -> list[str]:
    """Runs a program under stock mocks, and returns the names of what it registered."""
    mocks = Mocks()
    pulumi.runtime.set_mocks(mocks, project="theirs", stack="test")

    def program() -> None:
        exec(f"{IMPORTS}{text}", {})

    tested: Any = pulumi.runtime.test(program)  # type: ignore[no-untyped-call]  # pulumi.runtime.test has none
    tested()
    return [name for _, name, _ in mocks.made]


def plan_says(row: dict[str, Any]) -> list[str]:
    """The errors of the stack file with the same values; warnings where the row says so."""
    judged = judge(Source(sections=row["stack"], provider={"aws:region": "us-east-1"}), "Pulumi.same.yaml")
    return [problem.message for problem in (judged.warnings if row.get("warning") else judged.problems)]


def with_keys(text: str) -> str:
    """A message with the keys of a stack file in place of arguments."""
    for argument, key in KEYS.items():
        text = text.replace(argument, key)
    text = re.sub(r"`([\w.\[\]-]+)=([^`]+)`", lambda one: f"`{one[1]}: {one[2]}`".replace('"', ""), text)
    return text.replace("Pass `", "Write `")


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_wrong_program_is_refused_with_the_sentence_of_the_plan(name: str) -> None:
    row = PROGRAMS[name]
    with pytest.raises(ValueError, match=r"\. ") as refused:
        run_program(row["program"])
    said = str(refused.value)
    assert said == row["says"].strip()
    assert with_keys(said) in plan_says(row)
