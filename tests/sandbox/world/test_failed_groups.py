"""Node groups and add-ons that EKS could not create, and the calls that it then refuses."""

from typing import Any

import pytest

from sandbox.world import Fault, Faults, IncompleteError, tokens
from tests.sandbox.outside import Outside
from tests.sandbox.world_pieces import Account, refused


@pytest.fixture
def account() -> Account:
    return Account()


def failing(token: str, kind: Any = "failed") -> Account:
    return Account(Outside(faults=Faults([Fault(type=token, operation="create", kind=kind)]), patience=0.0))


@pytest.mark.real_world(
    behaviour="EKS keeps a node group or an add-on that failed to create, and it never recovers.",
    source="terraform-provider-aws internal/service/eks/{node_group,addon}.go; aws/containers-roadmap#764",
)
def test_a_node_group_that_failed_to_create_exists_without_nodes_and_refuses_updates() -> None:
    account = failing(tokens.NODE_GROUP)
    account.cluster()
    with pytest.raises(IncompleteError, match="AsgInstanceLaunchFailures") as caught:
        account.nodes()
    assert caught.value.id == "c:system"
    inputs = caught.value.outputs
    assert not {"arn", "status", "resources"} & inputs.keys(), "nothing is read back after the failure"
    assert account.outputs(tokens.NODE_GROUP, "c:system")["status"] == "CREATE_FAILED"
    assert not [one for one in account.world.entities() if one.type in (tokens.NODE, tokens.INSTANCE)]
    with refused("ResourceInUseException", "not in Active State"):
        account.change(tokens.NODE_GROUP, "c:system", labels={"a": "b"})
    account.change(tokens.NODE_GROUP, "c:system", tags={"a": "b"})
    with refused("ResourceInUseException", "already exists"):
        account.make(tokens.NODE_GROUP, **inputs)
    account.drop(tokens.NODE_GROUP, "c:system")
    assert account.make(tokens.NODE_GROUP, **inputs) == "c:system"


@pytest.mark.real_world(
    behaviour="EKS keeps a node group or an add-on that failed to create, and it never recovers.",
    source="terraform-provider-aws internal/service/eks/{node_group,addon}.go; aws/containers-roadmap#764",
)
def test_an_add_on_that_failed_to_create_keeps_its_name_until_it_is_deleted() -> None:
    account = failing(tokens.ADDON)
    with pytest.raises(IncompleteError):
        account.cluster()
    with refused("ResourceInUseException", "already exists"):
        account.make(tokens.ADDON, clusterName="c", addonName="vpc-cni")
    account.drop(tokens.ADDON, "c:vpc-cni")
    account.make(tokens.ADDON, clusterName="c", addonName="vpc-cni")


def test_a_refused_creation_leaves_nothing() -> None:
    account = failing(tokens.NODE_GROUP, "error")
    account.cluster()
    with refused("ServerException"):
        account.nodes()
    assert account.world.read(tokens.NODE_GROUP, "c:system") is None


@pytest.mark.real_world(
    behaviour="A node group that cannot scale out is DEGRADED until it does; whether EKS refuses updates is contested.",
    source="aws/containers-roadmap#2326 and #2204; repost.aws/knowledge-center/eks-managed-node-group-update",
)
def test_a_group_whose_spot_nodes_are_reclaimed_refuses_every_update_here(account: Account) -> None:
    """The emulated cloud is pessimistic: the live question `degraded-spot-group` asks what EKS does."""
    account.cluster()
    group = account.gpu_nodes(capacityType="SPOT")
    account.world.reclaim(group)
    assert account.outputs(tokens.NODE_GROUP, group)["status"] == "DEGRADED"
    assert not [one for one in account.world.entities() if one.type == tokens.NODE]
    changes = {"labels": {"a": "b"}, "taints": [], "scalingConfig": {"minSize": 0, "desiredSize": 0, "maxSize": 1}}
    for key, value in changes.items():
        with refused("ResourceInUseException", "not in Active State"):
            account.change(tokens.NODE_GROUP, group, **{key: value})
    account.drop(tokens.NODE_GROUP, group)
