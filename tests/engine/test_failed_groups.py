"""The next `up` after node groups and add-ons that EKS could not create, and after updates that it refuses.

pulumi 3.260 marks a resource with initialization errors after a failed creation and after a failed update alike.
"""

import pytest

from sandbox.world import Entity
from tests.engine.emulated import Raise, Stack
from tests.sandbox.faults import Fault

STACK = "timeslice"
NODE_GROUP, ADDON = "aws:eks/nodeGroup:NodeGroup", "aws:eks/addon:Addon"
GROUP = "tandem-gpu-group"


def group(stack: Stack) -> Entity:
    """The one node group of the GPU pool."""
    [only] = stack.entities(NODE_GROUP, GROUP)
    return only


@pytest.mark.real_world(
    behaviour="EKS keeps a node group or an add-on that failed to create, and it never recovers.",
    source="terraform-provider-aws internal/service/eks/{node_group,addon}.go; aws/containers-roadmap#764",
)
@pytest.mark.parametrize(
    ("token", "name"),
    [
        (NODE_GROUP, GROUP),
        # Inside `eks.Cluster`, two components deep.
        (ADDON, "tandem-cluster-vpc-cni"),
    ],
)
def test_what_failed_to_create_is_replaced_by_the_next_up(nothing: Raise, token: str, name: str) -> None:
    stack = nothing(STACK)
    stack.stops(faults=(Fault(type=token, operation="create", kind="failed", name=name),))
    assert [entity.status for entity in stack.entities(token, name)] == ["CREATE_FAILED"]
    assert stack.findings().agree, "the state contains the failed resource"
    replaced = stack.comes_up().operations["replace"]
    assert name in replaced if token == NODE_GROUP else replaced == {name}
    assert [entity.status for entity in stack.entities(token, name)] == [""]
    assert stack.up().changed == {}


def test_a_failed_group_that_a_refresh_has_seen_is_named_with_the_command_that_replaces_it(nothing: Raise) -> None:
    stack = nothing(STACK)
    stack.stops(faults=(Fault(type=NODE_GROUP, operation="create", kind="failed", name=GROUP),))
    assert stack.refresh().code == 0
    urn = stack.stops(saying="CREATE_FAILED").partition("--replace '")[2].partition("'")[0]
    assert urn.endswith(f"::{GROUP}")
    assert stack.comes_up("--replace", urn).operations["replace"] >= {GROUP}
    assert group(stack).status == ""


def mode_of(stack: Stack) -> str:
    """The mode in the taint of the group's nodes, without the part that makes each value new."""
    [value] = [taint["value"] for taint in group(stack).inputs["taints"] if taint["key"] == "tandem/mode"]
    return str(value).partition("-")[0]


@pytest.mark.real_world(
    behaviour="A failed update of an AWS resource counts as made in the state, and only a refresh corrects that.",
    source="terraform-plugin-sdk#476; pulumi-terraform-bridge pkg/tfbridge/provider.go, Update",
)
def test_after_a_failed_update_an_up_without_refresh_replaces_the_group(raised: Raise) -> None:
    """With `--refresh` it keeps the group: tests/engine/test_switch.py."""
    stack = raised(STACK)
    before = group(stack).id
    stack.configure({"sharing": {"mode": "mps"}})
    stack.stops(faults=(Fault(type=NODE_GROUP, operation="update", name=GROUP),))
    assert GROUP in stack.comes_up().operations["replace"]
    assert group(stack).id != before
    assert mode_of(stack) == "mps"


@pytest.mark.real_world(
    behaviour="A node group that cannot scale out is DEGRADED until it does; whether EKS refuses updates is contested.",
    source="aws/containers-roadmap#2326 and #2204; repost.aws/knowledge-center/eks-managed-node-group-update",
)
@pytest.mark.parametrize("is_named", [False, True], ids=["after a refusal", "by its URN, before anything is refused"])
def test_a_degraded_group_refuses_the_switch_and_can_be_replaced(raised: Raise, is_named: bool) -> None:
    stack = raised(STACK)
    before = group(stack).id
    stack.behind(lambda world: world.reclaim(before))
    stack.configure({"sharing": {"mode": "mps"}})
    if is_named:
        [urn] = [resource.urn for resource in stack.findings().managed if resource.name == GROUP]
        stack.comes_up("--replace", urn)
    else:
        stack.stops(saying="currently not in Active State")
        stack.comes_up()
    assert (group(stack).id != before, mode_of(stack)) == (True, "mps")
    assert stack.findings().agree
