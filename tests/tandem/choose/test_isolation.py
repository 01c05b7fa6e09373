"""`tandem choose --isolation`, and the limits of models in the files that it reads and writes."""

import re
from pathlib import Path

import pytest
import yaml

from stacks.stack_file.judge import judge_file
from tests.command import ROOT
from tests.tandem.choose.test_choose_command import answered, report

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A project, as far as the command asks."""
    (tmp_path / "Pulumi.yaml").write_bytes((ROOT / "Pulumi.yaml").read_bytes())
    monkeypatch.chdir(tmp_path)


SIZES = ("qwen2.5:14b", "qwen2.5:3b")
"""8.4 and 1.8 GiB of weights (Ollama's library): together on a T4, but not in equal shares of 7.5 GiB."""


def test_isolated_models_of_two_sizes_share_the_cheapest_gpu_and_are_written_with_limits_per_model(
    tmp_path: Path,
) -> None:
    code, text, _ = answered(*SIZES, "--isolation", "memory", "--write", "sizes")
    assert code == 0
    assert re.search(r"^ \d\.\d+  1 × g4dn.xlarge +mps-per-model", text, flags=re.MULTILINE)
    assert "timeslice" not in text
    path = tmp_path / "Pulumi.sizes.yaml"
    assert "1 × g4dn.xlarge, mps-per-model, spot" in path.read_text(encoding="utf-8").splitlines()[0]
    sharing = yaml.safe_load(path.read_text(encoding="utf-8"))["config"]["tandem:sharing"]
    assert sharing == {"mode": "mps", "limits": "per-model", "replicas": 2}
    assert judge_file(path).problems == ()
    found = report(*SIZES, "--isolation", "hardware")
    assert found["isolation"] == "hardware"
    assert {setup["isolation"] for setup in found["setups"]} == {"hardware", "own GPU"}
    limited = report(*SIZES, "--isolation", "memory")["setups"]
    assert {setup["isolation"] for setup in limited} == {"memory", "hardware", "own GPU"}


def test_limits_of_a_file_are_written_only_with_the_mode_that_has_them(tmp_path: Path) -> None:
    models = [{"name": SIZES[0], "share": {"memory-gib": 10}}, {"name": SIZES[1]}]
    keys = {"sharing": {"mode": "mps", "limits": "per-model"}, "models": models}
    keys["gpu-nodes"] = {"replacement": "delete-first"}
    config = {"aws:region": "us-east-1", **{f"tandem:{key}": value for key, value in keys.items()}}
    (tmp_path / "Pulumi.own.yaml").write_text(yaml.safe_dump({"config": config}))
    for isolation, written in (("memory", models), ("hardware", [{"name": name} for name in SIZES])):
        assert answered("--stack", "own", "--isolation", isolation, "--write", "new", "--force")[0] == 0
        path = tmp_path / "Pulumi.new.yaml"
        config = yaml.safe_load(path.read_text(encoding="utf-8"))["config"]
        assert config["tandem:models"] == written
        assert config["tandem:gpu-nodes"]["replacement"] == "delete-first"
        assert judge_file(path).problems == ()
