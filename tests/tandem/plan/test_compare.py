"""`tandem plan --compare`, and several stacks: each row agrees with `tandem plan` for that stack alone."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.command import ROOT, call

STACK = {
    "aws:region": "us-east-1",
    "tandem:sharing": {"mode": "timeslice", "replicas": 3},
    "tandem:gpu-nodes": {"instance-types": ["g4dn.xlarge"], "max": 3},
    "tandem:models": [{"name": "llama2:7b", "context": 2048}, {"name": "mistral:7b", "context": 2048}],
    "tandem:cluster": {"nat": "none", "public-access-cidrs": ["0.0.0.0/0"]},
}
pytestmark = pytest.mark.slow


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return written(tmp_path / "mine.yaml")


def written(path: Path, **changes: object) -> Path:
    config = {**STACK, **{f"tandem:{key}": value for key, value in changes.items()}}
    path.write_text(yaml.safe_dump({"config": config}), encoding="utf-8")
    return path


def options(*arguments: str) -> dict[str, dict[str, Any]]:
    found = json.loads(call("plan", *arguments, "--json").stdout)
    assert found["schema_version"] == 1
    return {option["name"]: option for option in found["options"]}


def planned(path: Path) -> dict[str, Any]:
    return dict(call("plan", str(path), "--json").json)


def test_the_files_own_mode_is_planned_unchanged(file: Path) -> None:
    own = options(str(file), "--compare", "timeslice,mps")["timeslice"]["plan"]
    alone = planned(file)
    assert own == {**alone, "resources": []}
    assert own["pools"][0]["shares"][0]["per_gpu"] == 3


SIZES = [{"name": "qwen2.5:14b", "share": {"memory-gib": 10}}, {"name": "qwen2.5:3b"}]
"""8.4 GiB of weights, and a T4 has 14.6 GiB: equal shares are too small."""


def test_limits_per_model_are_compared_with_equal_ones_and_with_modes_that_have_none(tmp_path: Path) -> None:
    own = written(tmp_path / "own.yaml", sharing={"mode": "mps", "limits": "per-model"}, models=SIZES)
    found = options(str(own), "--compare", "mps,mps-per-model,timeslice,exclusive")
    verdicts = {name: option["plan"]["verdict"] for name, option in found.items()}
    assert verdicts == {"mps": "refused", "mps-per-model": "ok", "timeslice": "ok", "exclusive": "ok"}
    assert found["mps-per-model"]["plan"] == {**planned(own), "resources": []}
    # The other modes without `share`, which they would refuse.
    assert [model["threads_percent"] for model in found["timeslice"]["plan"]["models"]] == [None, None]
    [problem] = found["mps"]["plan"]["problems"]
    assert "per-model" not in problem["fix"], "which the comparison shows"
    equal = written(tmp_path / "equal.yaml", sharing={"mode": "mps"}, models=[{"name": "qwen2.5:14b"}, SIZES[1]])
    alone = options(str(equal), "--compare", "mps")
    assert list(alone) == ["mps"]
    assert "`sharing.limits: per-model`" in alone["mps"]["plan"]["problems"][0]["fix"]
    tried = options(str(equal), "--compare", "mps-per-model")["mps-per-model"]["plan"]
    assert [model["share_mib"] > model["needs_mib"] for model in tried["models"]] == [True, True]


def test_another_mode_is_planned_with_the_nodes_that_it_needs(file: Path) -> None:
    found = options(str(file), "--compare", "exclusive,timeslice")
    folder = file.parent / "by-hand"
    folder.mkdir()
    by_hand = written(
        folder / file.name,
        **{
            "sharing": {"mode": "exclusive"},
            "gpu-nodes": {"instance-types": ["g4dn.xlarge"], "desired": 2, "max": 2},
        },
    )
    alone = planned(by_hand)
    assert {key: found["exclusive"]["plan"][key] for key in ("cost", "time_to_ready", "models", "quotas")} == {
        key: alone[key] for key in ("cost", "time_to_ready", "models", "quotas")
    }
    assert [found[name]["isolation"] for name in ("exclusive", "timeslice")] == ["own GPU", "none"]
    assert [found[name]["cheapest"] for name in ("exclusive", "timeslice")] == [False, True]


def test_a_mode_that_needs_fewer_nodes_keeps_no_more(tmp_path: Path) -> None:
    nodes = {"instance-types": ["g4dn.xlarge"], "min": 2, "desired": 2, "max": 2}
    file = written(tmp_path / "mine.yaml", **{"sharing": {"mode": "exclusive"}, "gpu-nodes": nodes})
    [pool] = options(str(file), "--compare", "timeslice")["timeslice"]["plan"]["pools"]
    assert pool["nodes"] == 1


def test_a_mode_that_the_gpu_lacks_is_refused_and_the_others_are_shown(file: Path) -> None:
    ended = call("plan", str(file), "--compare", "mps,mig", columns=80)
    assert ended.returncode == 0
    [mig] = [line for line in ended.stdout.splitlines() if line.startswith("mig ")]
    assert mig.split() == ["mig", "refused"]
    assert "sharing.mode: mig is not supported by T4" in " ".join(ended.stdout.split())
    assert call("plan", str(file), "--compare", "mig").returncode == 1


def test_a_budget_refuses_a_mode_that_exceeds_it(tmp_path: Path) -> None:
    file = written(tmp_path / "mine.yaml", budget={"max-usd-per-hour": 1})
    found = options(str(file), "--compare", "timeslice,exclusive")
    assert [found[name]["plan"]["verdict"] for name in found] == ["ok", "refused"]
    assert found["exclusive"]["plan"]["problems"][0]["path"] == "budget.max-usd-per-hour"


def test_a_refused_mode_is_not_led_to_the_other_rows(tmp_path: Path) -> None:
    file = written(tmp_path / "mine.yaml", budget={"max-usd-per-hour": 1})
    alone, among = (
        options(str(file), "--compare", names)["exclusive"]["plan"]["problems"][0]["fix"]
        for names in ("exclusive", "exclusive,mps-per-model,timeslice")
    )
    assert "`sharing.mode: timeslice`" in alone
    assert "sharing.mode" not in among
    assert "`gpu-nodes.replacement: delete-first`" in among


def test_a_parked_stack_stays_parked_in_every_mode(tmp_path: Path) -> None:
    nodes = {"instance-types": ["g4dn.xlarge"], "desired": 0, "max": 1}
    file = written(tmp_path / "mine.yaml", **{"gpu-nodes": nodes})
    found = options(str(file), "--compare", "timeslice,exclusive")
    assert [option["plan"]["time_to_ready"] for option in found.values()] == [None, None]
    assert [option["plan"]["pools"][0]["nodes"] for option in found.values()] == [0, 0]


def test_a_parked_stack_is_no_cheaper_way_to_serve_models(file: Path) -> None:
    parked = written(file.with_name("parked.yaml"), **{"gpu-nodes": {"desired": 0}})
    assert {name: each["cheapest"] for name, each in options(str(file), str(parked)).items()} == {
        "mine": True,
        "parked": False,
    }
    assert all(each["cheapest"] for each in options(str(parked), str(parked)).values())


def test_models_that_scale_to_zero_are_ready_on_request(file: Path) -> None:
    karpenter = {"provisioner": "karpenter", "max": 1}
    idle = written(file.with_name("idle.yaml"), **{"gpu-nodes": karpenter, "scale-to-zero": {"enabled": True}})
    parked = written(file.with_name("parked.yaml"), **{"gpu-nodes": {"desired": 0}})
    screen = call("plan", str(idle), str(parked), columns=120).stdout
    found = {row.split()[0]: row for row in screen.splitlines() if row.strip()}
    assert "on request" in found["idle"]
    assert "parked" not in found["idle"]
    assert "on request" not in found["parked"]


def test_mig_is_tried_with_equal_and_with_mixed_slices() -> None:
    file = ROOT / "Pulumi.mig.yaml"
    found = options(str(file), "--compare", "mig,mig-single,mig-mixed")
    assert found["mig"]["plan"] == found["mig-single"]["plan"] == {**planned(file), "resources": []}
    resources = {shares["resource"] for shares in found["mig-mixed"]["plan"]["pools"][0]["shares"]}
    assert all(name.startswith("nvidia.com/mig-") for name in resources)


def test_several_stacks_fail_if_one_is_refused(file: Path) -> None:
    other = written(file.with_name("other.yaml"), budget={"max-usd-per-hour": 0.1})
    assert call("plan", str(file), "dev").returncode == 0
    ended = call("plan", str(file), str(other), "dev")
    assert ended.returncode == 1
    assert re.search(r"^other: other\.yaml:\d+:\d+  budget\.max-usd-per-hour", ended.stdout, flags=re.MULTILINE)
    assert options(str(file), "dev")["mine"]["plan"] == {**planned(file), "resources": []}


def test_a_list_of_pools_and_a_misspelt_type_are_errors(tmp_path: Path) -> None:
    pools = written(tmp_path / "pools.yaml", **{"gpu-nodes": [{"name": "a"}]})
    ended = call("plan", str(pools), "--compare", "mps")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "list of pools" in ended.stderr
    wrong = written(tmp_path / "wrong.yaml", **{"gpu-nodes": {"instance-types": ["g4dn.xlage"]}})
    assert call("plan", str(wrong), "--compare", "mps").returncode == 1
