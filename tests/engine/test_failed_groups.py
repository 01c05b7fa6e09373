"""Node groups and add-ons that EKS could not bring up, and updates that it refuses: what the next `up` does.

pulumi 3.260 marks a resource with initialization errors after a failed creation and after a failed update alike.
"""

from __future__ import annotations

import pytest

from sandbox.world import Fault, Thing, World
from tests.engine.emulated import Raise, Stack

STACK = "timeslice"
NODE_GROUP, ADDON = "aws:eks/nodeGroup:NodeGroup", "aws:eks/addon:Addon"
GROUP, SYSTEM = "tandem-gpu-group", "tandem-system"
ADDONS = ("tandem-cluster-vpc-cni", "tandem-coredns")
"""One inside `eks.Cluster`, two components down, and one of the program."""


def statuses(stack: Stack, token: str = NODE_GROUP) -> dict[str, list[str]]:
    """Status of every group or add-on in the cloud, by logical name; empty where all is well."""
    found: dict[str, list[str]] = {}

    def look(world: World) -> None:
        for one in world.things():
            if one.type == token:
                found.setdefault(one.name, []).append(one.status)

    stack.behind(look)
    return found


def group(stack: Stack, name: str = GROUP) -> Thing:
    """The one node group of that logical name."""
    found: list[Thing] = []
    stack.behind(
        lambda world: found.extend(one for one in world.things() if (one.type, one.name) == (NODE_GROUP, name))
    )
    [only] = found
    return only


def failed(name: str, token: str = NODE_GROUP) -> Fault:
    return Fault(type=token, operation="create", kind="failed", name=name)


@pytest.mark.real_world(
    behaviour="EKS keeps a node group or an add-on that failed to create, and it never recovers.",
    source="terraform-provider-aws internal/service/eks/{node_group,addon}.go; aws/containers-roadmap#764",
)
@pytest.mark.parametrize("name", [GROUP, SYSTEM])
def test_a_node_group_that_failed_to_create_is_replaced_by_the_next_up(nothing: Raise, name: str) -> None:
    stack = nothing(STACK)
    run = stack.up(faults=(failed(name),))
    assert run.code != 0
    assert statuses(stack)[name] == ["CREATE_FAILED"]
    assert stack.findings().agree, "the state knows the failed group"
    run = stack.up()
    assert run.code == 0, run.errors
    assert name in run.operations["replace"]
    assert statuses(stack)[name] == [""]
    assert stack.up().changed == {}
    assert stack.destroy().code == 0
    assert stack.findings().things == 0


@pytest.mark.real_world(
    behaviour="EKS keeps a node group or an add-on that failed to create, and it never recovers.",
    source="terraform-provider-aws internal/service/eks/{node_group,addon}.go; aws/containers-roadmap#764",
)
@pytest.mark.parametrize("name", ADDONS)
def test_an_add_on_that_failed_to_create_is_deleted_and_created_by_the_next_up(nothing: Raise, name: str) -> None:
    stack = nothing(STACK)
    run = stack.up(faults=(failed(name, ADDON),))
    assert run.code != 0
    assert statuses(stack, ADDON)[name] == ["CREATE_FAILED"]
    run = stack.up()
    assert run.code == 0, run.errors
    assert run.operations["replace"] == {name}
    assert statuses(stack, ADDON)[name] == [""]
    assert stack.up().changed == {}


@pytest.mark.real_world(
    behaviour="EKS keeps a node group or an add-on that failed to create, and it never recovers.",
    source="terraform-provider-aws internal/service/eks/{node_group,addon}.go; aws/containers-roadmap#764",
)
def test_a_failed_group_that_a_refresh_has_seen_is_named_with_the_command_that_replaces_it(nothing: Raise) -> None:
    stack = nothing(STACK)
    assert stack.up(faults=(failed(GROUP),)).code != 0
    assert stack.refresh().code == 0
    run = stack.up()
    assert run.code != 0
    assert any("CREATE_FAILED" in error for error in run.errors), run.errors
    said = next(error for error in run.errors if "CREATE_FAILED" in error)
    urn = said.partition("--replace '")[2].partition("'")[0]
    assert urn.endswith(f"::{GROUP}")
    run = stack.up("--replace", urn)
    assert run.code == 0, run.errors
    assert run.operations["replace"] >= {GROUP}
    assert statuses(stack)[GROUP] == [""]
    assert stack.up().changed == {}


UPDATE_FAULTS = {
    "throttled": Fault(type=NODE_GROUP, operation="update", kind="throttle", name=GROUP),
    "its answer lost": Fault(type=NODE_GROUP, operation="update", kind="lost", name=GROUP),
}


def switched_in_vain(raised: Raise, fault: Fault) -> tuple[Stack, str]:
    """A stack whose switch to MPS failed at the node group, and the group's id."""
    stack = raised(STACK)
    before = group(stack).id
    stack.configure({"sharing": {"mode": "mps"}})
    assert stack.up(faults=(fault,)).code != 0
    return stack, before


def mode_of(stack: Stack) -> str:
    """The mode that the taint of the group's nodes names, without what makes its value new."""
    [value] = [taint["value"] for taint in group(stack).inputs["taints"] if taint["key"] == "tandem/mode"]
    return str(value).partition("-")[0]


@pytest.mark.real_world(
    behaviour="A failed update of an AWS resource counts as made in the state, and only a refresh corrects that.",
    source="terraform-plugin-sdk#476; pulumi-terraform-bridge pkg/tfbridge/provider.go, Update",
)
@pytest.mark.parametrize("how", UPDATE_FAULTS)
def test_after_a_failed_update_an_up_with_refresh_keeps_the_group_and_finishes_it(raised: Raise, how: str) -> None:
    stack, before = switched_in_vain(raised, UPDATE_FAULTS[how])
    run = stack.up("--refresh")
    assert run.code == 0, run.errors
    assert GROUP not in run.operations["replace"]
    assert (group(stack).id, mode_of(stack)) == (before, "mps")
    assert stack.up().changed == {}


@pytest.mark.real_world(
    behaviour="A failed update of an AWS resource counts as made in the state, and only a refresh corrects that.",
    source="terraform-plugin-sdk#476; pulumi-terraform-bridge pkg/tfbridge/provider.go, Update",
)
def test_after_a_failed_update_a_plain_up_replaces_the_group_and_makes_the_new_one_first(raised: Raise) -> None:
    stack, before = switched_in_vain(raised, UPDATE_FAULTS["throttled"])
    run = stack.up()
    assert run.code == 0, run.errors
    assert GROUP in run.operations["replace"]
    assert group(stack).id != before
    assert mode_of(stack) == "mps"
    assert stack.up().changed == {}


def degrade(world: World) -> None:
    [one] = [one for one in world.things() if (one.type, one.name) == (NODE_GROUP, GROUP)]
    world.reclaim(one.id)


@pytest.mark.real_world(
    behaviour="A node group that cannot scale out is DEGRADED until it does; whether EKS refuses updates is contested.",
    source="aws/containers-roadmap#2326 and #2204; repost.aws/knowledge-center/eks-managed-node-group-update",
)
def test_a_degraded_group_refuses_the_switch_and_the_next_up_replaces_it(raised: Raise) -> None:
    stack = raised(STACK)
    before = group(stack).id
    stack.behind(degrade)
    stack.configure({"sharing": {"mode": "mps"}})
    refused = stack.up()
    assert refused.code != 0
    assert any("currently not in Active State" in error for error in refused.errors)
    run = stack.up()
    assert run.code == 0, run.errors
    assert group(stack).id != before
    assert mode_of(stack) == "mps"
    assert stack.up().changed == {}


@pytest.mark.real_world(
    behaviour="A node group that cannot scale out is DEGRADED until it does; whether EKS refuses updates is contested.",
    source="aws/containers-roadmap#2326 and #2204; repost.aws/knowledge-center/eks-managed-node-group-update",
)
def test_a_degraded_group_can_be_replaced_by_its_urn_before_anything_is_refused(raised: Raise) -> None:
    stack = raised(STACK)
    before = group(stack).id
    stack.behind(degrade)
    [urn] = [one.urn for one in stack.findings().managed if one.name == GROUP]
    stack.configure({"sharing": {"mode": "mps"}})
    run = stack.up("--replace", urn)
    assert run.code == 0, run.errors
    assert (group(stack).id != before, mode_of(stack)) == (True, "mps")
    assert stack.up().changed == {}
