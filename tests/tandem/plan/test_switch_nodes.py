"""What a change of instance types or capacity does to a running pool, and what it needs of the vCPU quotas."""

from typing import Any

import pytest

from sharing.modes import Mps
from sharing.setup import Setup
from stacks.outputs import StackOutputs
from tandem.plan.switch import Switch, switches
from tests.sharing.builders import pair, pool, setup, tenants
from tests.tandem.outputs import outputs, running

ON_DEMAND: dict[str, Any] = {"capacity": "on-demand"}
KARPENTER: dict[str, Any] = {"provisioner": "karpenter", "max": 2}


def stack(types: str | tuple[str, ...] = "g4dn.xlarge", **overrides: Any) -> Setup:
    return setup(pools=(pool(types, **overrides),), tenants=tenants(*pair()))


def changed(before: Setup, after: Setup) -> Switch:
    [switch] = switches(after, running(before)).pools
    return switch


def needed(switch: Switch) -> dict[str, int]:
    return {each.quota.name: each.most for each in switch.vcpus}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (stack(), stack("g4dn.2xlarge"), ("timeslice-2 on g4dn.xlarge", "timeslice-2 on g4dn.2xlarge")),
        (stack(), stack(**ON_DEMAND), ("timeslice-2 (spot)", "timeslice-2 (on-demand)")),
    ],
    ids=["instance types", "capacity"],
)
def test_another_type_of_the_same_gpu_or_another_capacity_replaces_the_group_and_proves_nothing(
    before: Setup, after: Setup, said: tuple[str, str]
) -> None:
    switch = changed(before, after)
    assert (switch.before, switch.after) == said
    assert switch.replaced == ("aws:eks/nodeGroup:NodeGroup",)
    assert [(step.kind, step.away) for step in switch.steps] == [
        ("nodes", False),
        ("plugin", False),
        ("stop", True),
        ("start", True),
        ("start", True),
    ]


def test_a_node_with_another_number_of_gpus_is_proved() -> None:
    switch = changed(stack(), stack("g4dn.12xlarge"))
    assert [step.kind for step in switch.steps].count("proof") == 2


# vCPUs by AWS, Amazon EC2 G4 instances: g4dn.xlarge 4, g4dn.2xlarge 8; by G5: g5.2xlarge 8; by P3: p3.2xlarge 8.
@pytest.mark.parametrize(
    ("before", "after", "vcpus"),
    [
        (stack(), stack("g4dn.2xlarge"), {"g-spot": 4 + 8}),
        (stack(), stack("g4dn.2xlarge", replacement="delete-first"), {"g-spot": 8}),
        (stack("g4dn.2xlarge"), stack("g4dn.xlarge", replacement="delete-first"), {"g-spot": 8}),
        (stack(), stack(("g4dn.xlarge", "g4dn.2xlarge"), desired=2, max=2), {"g-spot": 4 + 2 * 8}),
        (stack(), stack(**ON_DEMAND), {"g-spot": 4, "g-on-demand": 4}),
        (stack(), stack(replacement="delete-first", **ON_DEMAND), {"g-spot": 4, "g-on-demand": 4}),
        (stack(), stack("p3.2xlarge"), {"g-spot": 4, "p-spot": 8}),
        (stack(), stack(sharing=Mps(replicas=2)), {"g-spot": 4}),
        (stack(**KARPENTER), stack("g5.2xlarge", **KARPENTER), {"g-spot": 8}),
        (stack(**KARPENTER), stack("g4dn.2xlarge", **KARPENTER), {"g-spot": 4 + 8}),
        (stack(**KARPENTER), stack(**KARPENTER, **ON_DEMAND), {"g-spot": 4, "g-on-demand": 4}),
        (stack(), stack(**KARPENTER), {"g-spot": 4 + 4}),
    ],
    ids=[
        "create-first",
        "delete-first",
        "delete-first to less",
        "the largest of several types",
        "capacity",
        "capacity delete-first",
        "another family",
        "another mode",
        "a new Karpenter pool",
        "a drifted node",
        "a drifted node of another capacity",
        "another provisioner",
    ],
)
def test_a_change_needs_quota_for_what_runs_at_once(before: Setup, after: Setup, vcpus: dict[str, int]) -> None:
    assert needed(changed(before, after)) == vcpus


def test_karpenter_replaces_a_node_that_no_longer_fits_and_keeps_one_that_does() -> None:
    before, other = stack(**KARPENTER), stack("g4dn.2xlarge", **KARPENTER)
    switch = changed(before, other)
    assert switch.replaced == ()
    assert [step.kind for step in switch.steps] == ["nodes", "plugin", "stop", "start", "start"]
    assert [step.away for step in switch.steps][:2] == [False, False]
    for kept in (
        stack(("g4dn.xlarge", "g4dn.2xlarge"), **KARPENTER),
        stack(("g4dn.xlarge",), on_demand_fallback=True, **KARPENTER),
    ):
        assert switches(kept, running(before)).pools == ()
    fallback = stack(on_demand_fallback=True, **KARPENTER)
    assert switches(fallback, running(stack(**KARPENTER, **ON_DEMAND))).pools == ()


def test_what_older_outputs_do_not_tell_is_taken_to_stay() -> None:
    found = switches(stack("g4dn.2xlarge", **ON_DEMAND), running(stack(), older=True))
    assert found.pools == ()
    assert found.untold[-2:] == ("instance_types", "capacity")
    told = outputs(stack())
    del told["pools"]["gpu"]["instance_types"]
    [switch] = switches(stack("g5.2xlarge"), StackOutputs.model_validate(told)).pools
    assert switch.vcpus == (), "the types of the old nodes are not known"
