"""Zones under the real engine: chosen once, by the types that AWS sells there, and kept whatever AWS sells later."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import pytest

from sandbox.world import tokens
from tests.engine.emulated import Raise, Stack

SUBNET = "aws:ec2/subnet:Subnet"
GPU, OTHER = "g4dn.xlarge", "g4dn.2xlarge"
THREE = {"cluster": {"zones": 3}}
ON_VOLUMES = {"models": [{"name": "llama2:7b", "context": 2048, "cache": "volume"}]}
Scarce = Callable[..., Stack]


def sell(stack: Stack, instance_type: str, letters: Collection[str]) -> None:
    stack.behind(lambda world: world.sell(instance_type, [f"us-east-1{letter}" for letter in letters]))


def letters(stack: Stack, token: str, name: str = "") -> str:
    zones = [entity.outputs["availabilityZone"] for entity in stack.entities(token) if name in entity.name]
    return "".join(sorted(zone[-1] for zone in zones))


def group_zones(stack: Stack, name: str = "tandem-gpu-group") -> str:
    zones = {entity.id: entity.outputs["availabilityZone"][-1] for entity in stack.entities(SUBNET)}
    [group] = stack.entities(tokens.NODE_GROUP, name)
    return "".join(sorted(zones[subnet] for subnet in group.inputs["subnetIds"]))


@pytest.fixture(scope="module")
def scarce(nothing: Raise, tmp_path_factory: pytest.TempPathFactory) -> Scarce:
    """A stack that was deployed when two of five zones sold its type, neither of them the first."""
    originals: dict[str, Stack] = {}

    def copied(sections: Mapping[str, Any]) -> Stack:
        key = repr(sections)
        if key not in originals:
            stack = originals[key] = nothing("timeslice", {"gpu-nodes": {"instance-types": [GPU]}, **sections})
            sell(stack, GPU, "bd")
            stack.comes_up()
        return originals[key].copied_to(tmp_path_factory.mktemp("scarce"))

    return copied


@pytest.mark.real_world(
    behaviour="EKS refuses a node group if the zone of one of its subnets does not sell one of its instance types",
    source="awslabs/ec2-spot-workshops#154, eksctl-io/eksctl#6461, eksctl-io/eksctl#3531",
)
@pytest.mark.real_world(
    behaviour="Only some zones of a region sell a GPU instance type, and AWS adds zones over time",
    source="EC2 API, DescribeInstanceTypeOfferings; skypilot-org/skypilot-catalog catalogs/v8/aws/vms.csv (g7e)",
)
def test_a_stack_takes_the_zones_that_sell_its_types_and_its_group_no_others(scarce: Scarce) -> None:
    stack = scarce(THREE)
    assert letters(stack, SUBNET, "private") == "abd"
    assert group_zones(stack) == "bd"
    assert set(letters(stack, tokens.INSTANCE, "tandem-gpu")) <= set("bd")


def test_a_group_moves_alone_and_only_when_none_of_its_zones_sells_its_type(scarce: Scarce) -> None:
    stack = scarce(THREE)
    for now in ("abdef", "ade"):
        sell(stack, GPU, now)
        assert stack.comes_up().changed == {}
    sell(stack, GPU, "a")
    assert stack.comes_up().changed == {"replace": {"tandem-gpu-group"}}
    assert group_zones(stack) == "a"
    sell(stack, GPU, "abdef")
    assert stack.up().changed == {}
    assert stack.findings().agree


def test_other_types_leave_the_group_in_its_zones_or_are_refused_before_anything_changes(scarce: Scarce) -> None:
    stack = scarce(THREE)
    stack.configure({"gpu-nodes": {"instance-types": [GPU, OTHER]}})
    assert stack.comes_up().changed == {"replace": {"tandem-gpu-group"}}
    assert group_zones(stack) == "bd"
    sell(stack, OTHER, "e")
    stack.configure({"gpu-nodes": {"instance-types": [OTHER]}})
    assert stack.refuses() == (
        "gpu-nodes.instance-types: no zone of the stack (us-east-1a, us-east-1b, us-east-1d) sells g4dn.2xlarge. "
        "Raise `cluster.zones`, or add one of these to `cluster.zone-names`: us-east-1e."
    )
    stack.configure({"cluster": {"zones": 4}})
    assert stack.comes_up().changed["replace"] == {"tandem-gpu-group"}
    assert group_zones(stack) == "e"


@pytest.mark.real_world(
    behaviour="An EBS volume lives in one zone, and a pod that mounts it runs there",
    source="EC2 API, CreateVolume; EBS CSI driver, topology.ebs.csi.aws.com/zone",
)
def test_volumes_are_made_where_their_types_are_sold_and_stay_there(scarce: Scarce) -> None:
    stack = scarce(ON_VOLUMES)
    assert (letters(stack, tokens.VOLUME, "llama2"), group_zones(stack)) == ("b", "b")
    sell(stack, GPU, "ad")
    assert stack.comes_up().changed == {}, "the volume cannot move, and its nodes stay with it"
    stack.configure({"gpu-nodes": {"instance-types": [OTHER]}})
    sell(stack, OTHER, "ad")
    assert "us-east-1b does not sell g4dn.2xlarge" in stack.refuses()


def test_pools_with_different_types_get_a_zone_each(nothing: Raise) -> None:
    pools = [{"name": name, "instance-types": [type]} for name, type in (("first", "g6.xlarge"), ("second", GPU))]
    models = [{"name": "llama3.2:1b", "pool": pool["name"]} for pool in pools]
    stack = nothing("timeslice", {"gpu-nodes": pools, "models": models, "budget": {"max-usd-per-hour": 9.0}})
    sell(stack, "g6.xlarge", "f")
    sell(stack, GPU, "be")
    stack.comes_up()
    assert letters(stack, SUBNET, "private") == "bf"
    assert (group_zones(stack, "tandem-first-group"), group_zones(stack, "tandem-second-group")) == ("f", "b")


def test_named_zones_are_taken_and_only_what_was_added_last_may_go(nothing: Raise) -> None:
    stack = nothing("timeslice", {"cluster": {"zone-names": ["us-east-1f", "us-east-1c"]}})
    run = stack.preview()
    assert run.code != 0, "`pulumi up` stops here, with nothing created"
    assert run.errors[0].strip() == (
        "cluster.zone-names: us-east-1c cannot be used: EKS does not run there, or this account has no access. "
        "Choose from us-east-1a, us-east-1b, us-east-1d, us-east-1e, us-east-1f."
    )
    stack.configure({"cluster": {"zone-names": ["us-east-1f", "us-east-1b"]}})
    stack.comes_up()
    assert letters(stack, SUBNET, "private") == "bf"
    stack.configure({"cluster": {"zone-names": ["us-east-1a", "us-east-1b"]}})
    assert "the deployed subnets are in us-east-1f, us-east-1b and cannot move" in stack.refuses()
