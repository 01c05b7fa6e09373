"""A parked stack is planned as what it is: no start, no time to the first token, nothing saved by sharing."""

import io
from pathlib import Path

import pytest

from stacks.stack_file.judge import judge_file
from tandem.plan import screen as show
from tandem.terminal import open_console
from tests.command import call

STACK = """\
config:
  aws:region: us-east-1
  tandem:sharing: {mode: timeslice, replicas: 2}
  tandem:gpu-nodes: {instance-types: [g4dn.xlarge], desired: 0}
  tandem:models: [{name: "llama2:7b"}, {name: "mistral:7b"}]
  tandem:cluster: {public-access-cidrs: [0.0.0.0/0]}
"""


@pytest.fixture
def parked(tmp_path: Path) -> str:
    path = tmp_path / "Pulumi.parked.yaml"
    path.write_text(STACK, encoding="utf-8")
    return str(path)


def test_people_read_that_it_is_parked_and_no_estimate(parked: str) -> None:
    said = " ".join(call("plan", parked).stdout.split())
    assert "2 models on 0 × g4dn.xlarge, timeslice, parked" in said
    assert "Time to first token" not in said
    assert "First start" not in said
    # Nothing is shared while no model runs.
    assert "a GPU for each model" not in said
    assert "an equal part of the whole" not in said
    assert "vCPU quotas needed when it wakes: All G and VT Spot" in said


def test_a_line_feed_in_a_files_name_ends_no_line(tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.par\nked.yaml"
    path.write_text(STACK, encoding="utf-8")
    judged, out = judge_file(path), io.StringIO()
    show.headline(open_console(file=out), judged.name, judged.plan())
    assert out.getvalue().startswith("ok Pulumi.par ked.yaml: 2 models")


def test_programs_get_no_estimate_and_no_first_start(parked: str) -> None:
    facts = call("plan", parked, "--json").json
    assert facts["time_to_first_token"] is None
    assert facts["cost"]["first_start_usd"] == 0
    assert facts["cost"]["dedicated_usd_per_hour"] == facts["cost"]["usd_per_hour"]
