"""Commands that repair a stack: destroy and create one part, replace one, and continue a stopped destroy."""

import pytest

from tests.engine.emulated import Raise, Stack
from tests.sandbox.faults import Fault

NAMESPACE = "kubernetes:core/v1:Namespace"


@pytest.fixture
def stack(raised: Raise) -> Stack:
    return raised("timeslice")


def urn(stack: Stack, name: str) -> str:
    [urn] = [resource["urn"] for resource in stack.state()["resources"] if resource["urn"].endswith(f"::{name}")]
    return str(urn)


@pytest.mark.real_world(
    behaviour="To delete a target with its dependents, the engine asks for the difference to unknown properties",
    source="pulumi pkg/resource/deploy/step_generator.go calculateDependentReplacements",
)
def test_a_target_is_destroyed_with_its_dependents_and_the_next_up_brings_them_back(stack: Stack) -> None:
    run = stack.destroy("--target", urn(stack, "tandem-gpu-proof-namespace"), "--target-dependents")
    assert run.code == 0, run.errors
    assert run.operations["delete"] >= {"tandem-gpu-proof-namespace", "tandem-gpu-proof-node-job"}
    assert "tandem-gpu-group" not in run.operations["delete"]
    assert "tandem-gpu-proof-namespace" in stack.comes_up().operations["create"]
    assert stack.findings().agree


@pytest.mark.real_world(
    behaviour="--replace of a Kubernetes object with a fixed name fails with AlreadyExists and loses nothing",
    source="pulumi step_generator.go diff, isTargetedReplace; pulumi-kubernetes 4.29.0 await.go Creation",
)
def test_a_named_object_cannot_be_replaced_create_first(stack: Stack) -> None:
    stack.stops("--replace", urn(stack, "tandem-ollama-namespace"), saying="already exists")
    assert stack.comes_up().changed == {}
    assert stack.findings().agree


@pytest.mark.real_world(
    behaviour="A stopped destroy leaves behind what has deletedWith, since Pulumi never asks the provider to delete it",
    source="pulumi step_generator.go (deletedWith: no call to the provider); helm pkg/action/install.go availableName",
)
def test_after_a_destroy_that_stopped_half_way_an_up_brings_everything_back(stack: Stack) -> None:
    run = stack.destroy(faults=(Fault(type=NAMESPACE, operation="delete", name="tandem-sharing-namespace"),))
    assert run.code != 0
    assert "tandem-sharing-gpu-plugin" in stack.comes_up().operations["create"]
    assert stack.findings().agree
