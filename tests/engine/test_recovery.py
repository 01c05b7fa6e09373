"""The damage of a kill, one kind at a time: the next command repairs it, or `status` names the command that does.

Real kills at many moments: `make test-kills`.
"""

import os
import shlex
import signal
from typing import Any

import pytest

from sandbox.world import World
from tandem.sandbox.processes import running
from tests.engine.command_line import PATIENT_PACE, says, start, until_it_creates_the_cluster
from tests.engine.emulated import Raise, Stack
from tests.kills.killing import advised, engines_of

STACK = "timeslice"
CRD = "kubernetes:apiextensions.k8s.io/v1:CustomResourceDefinition"
RELEASE = "kubernetes:helm.sh/v3:Release"
JOB = "kubernetes:batch/v1:Job"


def follow(stack: Stack, said: str) -> None:
    """Runs the commands that `status` names."""
    assert advised(said), said
    for command in advised(said):
        says(stack, 0, *shlex.split(command))


def test_a_stack_is_destroyed_without_any_stack_file(raised: Raise) -> None:
    stack = raised(STACK)
    stack.place.stack_file.unlink()
    (stack.place.folder / f"Pulumi.{STACK}.yaml").unlink()
    assert "nothing is left" in says(stack, 0, "destroy")


@pytest.mark.real_world(
    behaviour="A kill of pulumi leaves an empty file of attributes beside its state, which then cannot be read.",
    source="gocloud.dev v0.46 blob/fileblob/attrs.go (setAttrs writes in place, getAttrs reads under metadata=skip)",
)
def test_an_empty_file_of_attributes_does_not_keep_pulumi_from_its_state(raised: Raise) -> None:
    stack = raised(STACK)
    [file] = (stack.place.folder / "state").glob(f".pulumi/stacks/*/{STACK}.json")
    assert not list((stack.place.folder / "state").rglob("*.attrs"))
    file.with_name(f"{file.name}.attrs").touch()
    assert "state and cloud agree" in says(stack, 0, "status")


@pytest.mark.real_world(
    behaviour="A replacement that deletes first leaves an entry without a resource, which refresh leaves alone.",
    source="pulumi 3.260 pkg/resource/deploy/step.go, DeleteStep.Apply and RefreshStep.Apply",
)
@pytest.mark.parametrize("made", [False, True], ids=["nothing made", "made without an answer"])
def test_what_waits_for_its_successor_is_not_missing_and_up_makes_it(raised: Raise, made: bool) -> None:
    stack = raised(STACK)
    job = next(resource for resource in stack.state()["resources"] if resource["type"] == JOB)
    if not made:
        stack.behind(lambda world: world.delete(JOB, job["id"]))

    def mark(latest: dict[str, Any]) -> None:
        [entry] = [resource for resource in latest["resources"] if resource["urn"] == job["urn"]]
        entry["pendingReplacement"] = True

    stack.edit_state(mark)
    said = says(stack, 1, "status")
    assert ("unfinished: replacing" in said, "not in the cloud" in said) == (True, False), said
    follow(stack, said)
    assert stack.findings().agree


@pytest.mark.real_world(
    behaviour="Helm does not delete the CRDs in a chart's crds/ folder on uninstall",
    source="helm.sh/docs/chart_best_practices/custom_resource_definitions/",
)
def test_what_helm_leaves_in_the_cluster_of_a_half_destroyed_stack_is_no_orphan(raised: Raise) -> None:
    stack = raised(STACK)
    urns = [resource["urn"] for resource in stack.state()["resources"] if resource["type"] == RELEASE]
    options = [option for urn in urns for option in ("--target", urn)]
    run = stack.destroy("--target-dependents", *options)
    assert run.code == 0, run.errors
    types = {entity.type for entity in stack.behind(World.entities)}
    assert (CRD in types, RELEASE in types) == (True, False)
    assert stack.findings().agree


@pytest.mark.real_world(
    behaviour="An import takes no dependencies into the state, so a destroy does not know what must go first.",
    source="pulumi 3.260 pkg/resource/deploy/import.go",
)
def test_what_was_imported_is_destroyed_before_what_it_needs(raised: Raise) -> None:
    stack = raised(STACK)
    group = next(
        resource for resource in stack.state()["resources"] if resource["type"] == "aws:eks/nodeGroup:NodeGroup"
    )

    def forget(latest: dict[str, Any]) -> None:
        [entry] = [resource for resource in latest["resources"] if resource["urn"] == group["urn"]]
        latest["resources"].remove(entry)
        for resource in latest["resources"]:
            resource["dependencies"] = [urn for urn in resource.get("dependencies", ()) if urn != group["urn"]]
            for urns in resource.get("propertyDependencies", {}).values():
                if group["urn"] in (urns or ()):
                    urns.remove(group["urn"])

    stack.edit_state(forget)
    follow(stack, says(stack, 1, "status"))
    assert stack.findings().agree
    assert "nothing is left" in says(stack, 0, "destroy")


def test_after_a_kill_of_pulumi_alone_nothing_of_it_goes_on_and_up_recovers(nothing: Raise) -> None:
    stack = nothing(STACK)
    process = start(stack, "up", "--pace", PATIENT_PACE)
    until_it_creates_the_cluster(process, stack)
    home = stack.place.folder / "home"
    [pulumi] = engines_of(home)
    assert len(running(home)) > 1
    os.kill(pulumi, signal.SIGKILL)
    said, _ = process.communicate()
    assert process.returncode == 1, said
    assert running(home) == []
    said = says(stack, 1, "status")
    assert "unfinished: creating aws:eks/cluster:Cluster" in said
    follow(stack, said)
    stack.comes_up()
    assert stack.findings().agree
