"""What Karpenter knows about shares, and how many nodes it launches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharing.cost.bill import cost
from sharing.cost.quotas import needs
from sharing.fit.karpenter import limits, reported_gpus, shared_resources
from sharing.hardware.gpus import instance_types
from sharing.modes.modes import Exclusive, Mig, Sharing
from sharing.verdict.full import judge_fully
from tests.sharing.builders import SMALL, mode, pool, replace, setup, tenants

TYPES = [name for name, known in instance_types().items() if known.gpu.vendor == "nvidia"]


@given(kind=st.sampled_from(TYPES), name=st.sampled_from(["timeslice", "mps"]), replicas=st.integers(2, 48))
def test_a_node_is_counted_as_the_plugin_shares_it(kind: str, name: str, replicas: int) -> None:
    sharing = mode(name, replicas)
    [rows] = [each["resources"] for each in sharing.plugin_config()["sharing"].values()]
    gpus = instance_types()[kind].gpus
    shown = {row["name"]: str(row["replicas"] * gpus) for row in rows}
    assert shared_resources(sharing, instance_types()[kind]) == shown


@pytest.mark.parametrize(
    ("sharing", "kinds", "shares"),
    [
        (Exclusive(), ("g4dn.xlarge", "g4dn.2xlarge"), {"nvidia.com/gpu": "3"}),
        (mode("timeslice", 4), ("g4dn.xlarge", "g4dn.12xlarge"), {"nvidia.com/gpu": "48"}),
        (mode("mps", 2), ("g6f.large",), {"nvidia.com/gpu": "6"}),
    ],
)
def test_a_limit_of_three_nodes_is_the_shares_of_the_three_largest(
    sharing: Sharing, kinds: tuple[str, ...], shares: dict[str, str]
) -> None:
    types = [instance_types()[kind] for kind in kinds]
    assert limits(sharing, types, 3) == {"nodes": "3", **shares}


def test_a_limit_for_large_nodes_allows_more_small_ones() -> None:
    # At $4.352 and $3.912 per hour: one GPU and 64 vCPU against four GPUs and 48 vCPU.
    both = pool(("g4dn.16xlarge", "g4dn.12xlarge"), provisioner="karpenter", capacity="on-demand")
    small = replace(both, instance_types=("g4dn.16xlarge",))
    assert [both.most_nodes(known) for known in both.known_types] == [4, 1]
    assert replace(both, provisioner="node-group").most_nodes(both.known_types[0]) == 1
    [quota] = [need for need in needs(setup(pools=(both,))) if need.quota.name == "g-on-demand"]
    assert (quota.now, quota.most, quota.replacing) == (64, 4 * 64, 5 * 64)
    whole, one = (cost(setup(pools=(each,), models=tenants(SMALL))) for each in (both, small))
    assert whole.usd_per_hour == one.usd_per_hour
    disks_and_addresses = 3 * (both.volume_gib * 0.08 / 730 + 0.005)
    assert whole.replacing_usd_per_hour - one.replacing_usd_per_hour == pytest.approx(
        3 * 4.352 + disks_and_addresses, abs=1e-4
    )


@pytest.mark.parametrize(
    ("kind", "count"), [("g4dn.xlarge", 1), ("g4dn.12xlarge", 4), ("g6f.large", 0), ("gr6f.4xlarge", 0)]
)
def test_ec2_reports_no_gpu_for_a_slice_of_one(kind: str, count: int) -> None:
    assert reported_gpus(instance_types()[kind]) == count


@pytest.mark.parametrize(
    ("models", "sharing", "most", "desired", "nodes"),
    [
        (4, mode("timeslice", 4), 9, 1, 1),
        (17, mode("timeslice", 4), 9, 1, 5),
        (17, mode("timeslice", 4), 3, 1, 3),
        (2, Exclusive(), 2, 1, 2),
        (2, mode("mps", 2), 2, 0, 0),
    ],
)
def test_karpenter_is_planned_with_the_number_of_nodes_that_the_models_need(
    models: int, sharing: Sharing, most: int, desired: int, nodes: int
) -> None:
    here = pool(sharing=sharing, max=most, desired=desired, provisioner="karpenter")
    whole = setup(pools=(here,), models=tenants(*[SMALL] * models))
    assert whole.nodes_of(here) == nodes
    [line] = [one for one in cost(whole).lines if one.item.startswith("GPU nodes")]
    assert line.item == f"GPU nodes {nodes} × g4dn.xlarge"
    assert here.total_shares == most * here.shares_per_node


def test_shares_are_proved_if_a_node_starts_and_its_number_of_gpus_is_known() -> None:
    one = setup(pools=(pool(),))
    assert one.unproved(one.pools[0]) == ""
    parked = setup(pools=(pool(desired=0),))
    assert "no node now" in parked.unproved(parked.pools[0])
    unequal = pool(("g4dn.xlarge", "g4dn.12xlarge"))
    assert "1 or 4 GPUs" in setup(pools=(unequal,)).unproved(unequal)
    by_karpenter = pool(("g4dn.xlarge", "g4dn.12xlarge"), max=2, provisioner="karpenter")
    assert setup(pools=(by_karpenter,), models=tenants(SMALL)).unproved(by_karpenter) == ""


def test_a_pool_whose_gpus_do_not_support_the_mode_is_refused_without_ending_the_plan() -> None:
    whole = setup(pools=(pool("g4dn.xlarge", Mig(), provisioner="karpenter", max=3),), models=tenants(SMALL))
    assert whole.nodes_of(whole.pools[0]) == 3
    assert judge_fully(whole).problems[0].rule == "is not supported by T4"
