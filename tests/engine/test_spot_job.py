"""SpotJob under the real engine: created, left alone, replaced and destroyed, in a program of its own."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from sandbox.graph import Graph
from sandbox.preview.program import run
from sandbox.world import tokens
from sharing.names import PROJECT
from tests.engine.emulated import Raise, Stack

PROGRAM = """
from components import BucketCheckpoints, SpotJob, SpotJobArgs, VolumeCheckpoints
from stacks.deploy import create_base, create_gpu_nodes, share_gpus
from stacks.program import load_plan


def deploy(plan):
    base = create_base(plan)
    inside = base.inside(share_gpus(base, create_gpu_nodes(base)))
    name = base.cluster.cluster_name
    given = {"image": "example.com/train:1", "command": ["python", "train.py"], "tags": base.tags}
    bucket = BucketCheckpoints(cluster_name=name, bucket="mine", prefix="train")
    SpotJob("train", SpotJobArgs(**given, checkpoints=bucket), inside)
    volume = VolumeCheckpoints(zone=base.cluster.zone_names.apply(lambda zones: zones[0]))
    SpotJob("tune", SpotJobArgs(**given, checkpoints=volume, queue="rest"), inside)


if __name__ == "__main__":
    deploy(load_plan())
"""


class OwnProgram(Stack):
    """A stack with a program of its own."""

    def write(self, change: Callable[[str], str] = lambda text: text) -> None:
        folder = self.folder / "program"
        folder.mkdir(exist_ok=True)
        (folder / "__main__.py").write_text(change(PROGRAM), encoding="utf-8")
        file = self.folder / "Pulumi.yaml"
        project = yaml.safe_load(file.read_text(encoding="utf-8"))
        file.write_text(yaml.safe_dump({**project, "main": str(folder)}), encoding="utf-8")

    @property
    def graph(self) -> Graph:
        from stacks.stack_file.judge import judge_file

        scope: dict[str, object] = {"__name__": "program"}
        exec(PROGRAM, scope)
        deploy, plan = scope["deploy"], judge_file(self.place.stack_file).plan()
        assert callable(deploy)
        return run(lambda: deploy(plan), project=PROJECT, stack=self.name)


@pytest.fixture(scope="module")
def stack(nothing: Raise, tmp_path_factory: pytest.TempPathFactory) -> OwnProgram:
    folder: Path = tmp_path_factory.mktemp("own")
    nothing("dev", folder=folder)
    own = OwnProgram(folder, "dev")
    own.write()
    own.comes_up()
    return own


def test_jobs_are_replaced_if_they_change_and_destroy_leaves_nothing(stack: OwnProgram) -> None:
    conditions = {
        entity.id: [kind["type"] for kind in entity.outputs["status"]["conditions"]]
        for entity in stack.entities(tokens.JOB)
    }
    assert conditions == {"train/train": ["Complete"], "tune/tune": ["Suspended"]}
    assert stack.findings().agree

    assert stack.comes_up().changed == {}
    assert stack.comes_up("--refresh").changed == {}

    # As Kueue admits a Job.
    stack.behind(
        lambda world: world.tamper(tokens.JOB, "tune/tune", lambda job: job.inputs["spec"].update(suspend=False))
    )
    assert stack.comes_up("--refresh").changed == {}

    stack.write(lambda text: text.replace('"train.py"', '"train.py", "--epochs=2"'))
    assert set(stack.comes_up().changed["replace"]) == {"train-job", "tune-job"}
    commands = [
        entity.inputs["spec"]["template"]["spec"]["containers"][0]["command"] for entity in stack.entities(tokens.JOB)
    ]
    assert commands == [["python", "train.py", "--epochs=2"]] * 2

    stack.goes_down()
