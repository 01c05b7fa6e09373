"""What a switch does to a running stack, and how long models are away."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from components.ollama_pair.values import STOP_SECONDS
from sharing import tables
from sharing.artifacts import images_mib
from sharing.modes import Exclusive, Mig, Mps, Sharing, TimeSlicing
from sharing.setup import Cache, Pool, Setup
from stacks.outputs import StackOutputs
from tandem.plan.switch import Switch, switches
from tandem.planned.first_token import DISK_MIB_PER_SECOND, DOWNLOAD_MIB_PER_SECOND, weights_mib
from tests.sharing.builders import listed, pair, pool, setup, tenants
from tests.tandem.outputs import outputs, running

MODES: dict[str, Sharing] = {
    "timeslice-2": TimeSlicing(replicas=2),
    "mps-2": Mps(replicas=2),
    "exclusive": Exclusive(),
}
MINUTES = {row["type"]: float(row["minutes"]) for row in tables.read("durations").rows}
CARD = "g7e.2xlarge"
"""One card that can be cut."""
MODELS = ("llama2-7b", "mistral-7b")


def stack(*pools: Pool, cache: Cache = "node") -> Setup:
    return setup(pools=pools or (pool(),), tenants=tenants(*pair(), cache=cache))


def only(before: Setup | StackOutputs, after: Setup, *, proof: bool = True) -> Switch:
    found = switches(after, before if isinstance(before, StackOutputs) else running(before), proof=proof)
    [switch] = found.pools
    assert (found.new, found.gone) == ((), ())
    return switch


def kinds(switch: Switch, *, away: bool | None = None) -> list[str]:
    return [step.kind for step in switch.steps if away is None or step.away == away]


def loads(after: Setup) -> dict[str, float]:
    return {tenant.served.id: weights_mib(tenant) / DISK_MIB_PER_SECOND / 60 for tenant in after.tenants}


def starts(switch: Switch) -> dict[str, float]:
    return {step.model: step.minutes for step in switch.steps if step.kind == "start"}


def downloaded(mib: float) -> float:
    return mib / DOWNLOAD_MIB_PER_SECOND / 60


def all_weights(after: Setup) -> float:
    return sum(weights_mib(tenant) for tenant in after.tenants)


@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(MODES, 2)))
def test_between_modes_of_a_whole_card_pods_go_then_the_mode_then_the_proof_and_nothing_is_replaced(
    before: str, after: str
) -> None:
    planned = stack(pool(sharing=MODES[after]))
    switch = only(stack(pool(sharing=MODES[before])), planned)
    assert (switch.pool, switch.before, switch.after) == ("gpu", before, after)
    assert kinds(switch) == ["nodes", "stop", "plugin", "proof", "proof", "start", "start"]
    assert all(step.away for step in switch.steps)
    assert after in switch.steps[0].what
    assert switch.replaced == ()
    assert switch.stops == MODELS
    update = MINUTES["kubernetes:helm.sh/v3:Release update"]
    assert starts(switch) == pytest.approx({id: update + load for id, load in loads(planned).items()}), "no download"


def test_a_models_downtime_is_the_time_of_all_steps_that_it_waits_for_and_of_no_other_models_start() -> None:
    planned = stack(pool(sharing=MODES["mps-2"]))
    switch = only(stack(), planned)
    told = [
        "aws:eks/nodeGroup:NodeGroup update",
        "kubernetes:core/v1:Pod evict",
        "kubernetes:apps/v1:DaemonSet",
        "kubernetes:batch/v1:Job",
        "kubernetes:batch/v1:Job",
        "kubernetes:helm.sh/v3:Release update",
    ]
    spread = {row["type"]: float(row["plus_minus"]) for row in tables.read("durations").rows}
    for downtime in switch.downtimes:
        assert downtime.minutes == pytest.approx(sum(MINUTES[one] for one in told) + loads(planned)[downtime.model])
        assert downtime.plus_minus == pytest.approx(math.sqrt(sum(spread[one] ** 2 for one in told)))
    assert [downtime.model for downtime in switch.downtimes] == [*MODELS]


def test_the_plugin_alone_is_quicker_than_with_an_mps_daemon() -> None:
    def plugin(mode: str) -> float:
        switch = only(stack(pool(sharing=TimeSlicing(replicas=3))), stack(pool(sharing=MODES[mode])))
        return sum(step.minutes for step in switch.steps if step.kind == "plugin")

    assert plugin("mps-2") > plugin("timeslice-2") == plugin("exclusive")


def test_the_table_has_the_time_that_pods_are_given_to_stop_and_that_of_a_job() -> None:
    assert MINUTES["kubernetes:core/v1:Pod evict"] == STOP_SECONDS / 60
    assert MINUTES["kubernetes:batch/v1:Job"] == 0.5


def test_what_stays_as_it_is_stops_nothing() -> None:
    found = switches(stack(), running(stack()))
    assert (found.pools, found.new, found.gone, found.gone_models) == ((), (), (), ())
    assert found.untold == ()


def test_other_replicas_are_a_switch() -> None:
    planned = stack(pool(sharing=TimeSlicing(replicas=3)))
    for older in (False, True):
        switch = only(running(stack(), older=older), planned)
        assert (switch.before, switch.after) == ("timeslice (2 a card)" if older else "timeslice-2", "timeslice-3")
        assert kinds(switch) == ["nodes", "stop", "plugin", "proof", "proof", "start", "start"]


def test_another_policy_is_a_switch_that_older_outputs_do_not_tell() -> None:
    planned = stack(pool(sharing=TimeSlicing(replicas=2, allocation_policy="distributed")))
    assert only(stack(), planned).after == "timeslice-2-distributed"
    found = switches(planned, running(stack(), older=True))
    assert found.pools == ()
    assert found.untold == ("config", "gpu", "provisioner", "instance_types", "capacity")


def test_memory_that_the_catalogue_counts_otherwise_is_no_switch() -> None:
    told = outputs(stack(pool(sharing=MODES["mps-2"])))
    told["pools"]["gpu"]["shares"][0]["memory_mib"] -= 100
    assert switches(stack(pool(sharing=MODES["mps-2"])), StackOutputs.model_validate(told)).pools == ()


def test_a_model_that_may_land_on_a_node_that_joins_is_counted_with_its_download() -> None:
    planned = stack(pool(sharing=Exclusive(), desired=2, max=2))
    switch = only(stack(), planned)
    assert switch.steps[0].minutes == MINUTES["aws:eks/nodeGroup:NodeGroup"]
    assert switch.steps[0].what.endswith("; 1 more node to join")
    away = downloaded(images_mib() + all_weights(planned))
    assert all(minutes > away for minutes in starts(switch).values())
    assert all("where its node has them not" in step.what for step in switch.steps if step.kind == "start")


def test_a_model_that_may_land_on_another_of_two_nodes_downloads_no_image() -> None:
    two = pool(desired=2, max=2)
    planned = stack(replace(two, sharing=Exclusive()))
    switch = only(stack(two), planned)
    assert switch.steps[0].minutes == MINUTES["aws:eks/nodeGroup:NodeGroup update"]
    update = MINUTES["kubernetes:helm.sh/v3:Release update"]
    assert starts(switch) == pytest.approx(
        {id: update + load + downloaded(all_weights(planned)) for id, load in loads(planned).items()}
    )


@pytest.mark.parametrize("provisioner", ["node-group", "karpenter"])
def test_a_model_on_a_volume_is_downloaded_to_no_node(provisioner: str) -> None:
    before = pool(desired=1, max=2, provisioner=provisioner)
    after = replace(before, sharing=Exclusive(), desired=2)
    planned = stack(after, cache="volume")
    switch = only(stack(before, cache="volume"), planned)
    update = MINUTES["kubernetes:helm.sh/v3:Release update"]
    assert starts(switch) == pytest.approx(
        {id: update + load + downloaded(images_mib()) for id, load in loads(planned).items()}
    )
    assert all("from its volume" in step.what for step in switch.steps if step.kind == "start")


@pytest.mark.parametrize(
    ("before", "after", "plugin"),
    [
        (TimeSlicing(replicas=2), Mig(layout="all-1g.24gb"), "operator"),
        (Mig(layout="all-1g.24gb"), Mps(replicas=2), "chart"),
    ],
)
def test_to_and_from_mig_models_answer_until_new_nodes_have_proved_their_shares(
    before: Sharing, after: Sharing, plugin: str
) -> None:
    planned, was = stack(pool(CARD, sharing=after)), stack(pool(CARD, sharing=before))
    for older in (False, True):
        found = switches(planned, running(was, older=older))
        [switch] = found.pools
        assert switch.replaced == ("aws:eks/nodeGroup:NodeGroup",)
        assert kinds(switch, away=False) == ["nodes", "plugin", "proof", "proof"]
        assert kinds(switch, away=True) == ["stop", "start", "start"]
        assert kinds(switch) == kinds(switch, away=False) + kinds(switch, away=True)
        common = MINUTES["kubernetes:core/v1:Pod evict"]
        assert {each.model: each.minutes for each in switch.downtimes} == pytest.approx(
            {id: common + start for id, start in starts(switch).items()}
        )
        assert ("the GPU Operator takes" in switch.steps[1].what) == (plugin == "operator")
        assert all(minutes > downloaded(images_mib() + all_weights(planned)) for minutes in starts(switch).values())


def test_a_group_that_is_deleted_first_leaves_the_models_away_until_the_new_one_has_proved_its_shares() -> None:
    sharing = Mig(layout="all-1g.24gb")
    was = stack(pool(CARD, sharing=TimeSlicing(replicas=2)))
    [first] = switches(stack(pool(CARD, sharing=sharing)), running(was)).pools
    [last] = switches(stack(pool(CARD, sharing=sharing, replacement="delete-first")), running(was)).pools
    assert [step.away for step in last.steps] == [True] * len(last.steps)
    assert kinds(last)[:3] == ["stop", "nodes", "nodes"]
    assert sum(each.minutes for each in last.downtimes) > sum(each.minutes for each in first.downtimes)


@pytest.mark.parametrize("told", ["cut", "shares"])
def test_another_layout_replaces_the_nodes_and_leaves_the_operator(told: str) -> None:
    before, after = (pool(CARD, sharing=Mig(layout=layout)) for layout in ("all-1g.24gb", "all-2g.48gb"))
    said = outputs(stack(before))
    if told == "cut":
        said["pools"]["gpu"]["shares"] = []
    else:
        del said["pools"]["gpu"]["cut"]
    found = switches(stack(after), StackOutputs.model_validate(said))
    [switch] = found.pools
    assert not any("Operator" in step.what for step in switch.steps)
    assert switch.replaced == ("aws:eks/nodeGroup:NodeGroup",)
    assert kinds(switch) == ["nodes", "plugin", "proof", "proof", "stop", "start", "start"]
    assert switch.after == "mig-single cut 2x2g.48gb"
    assert switch.before == ("mig-single cut 4x1g.24gb" if told == "cut" else "mig-single")
    assert switches(stack(before), StackOutputs.model_validate(said)).pools == ()


def test_pods_that_take_turns_on_the_same_slices_need_no_new_nodes_where_the_cut_is_told() -> None:
    before, after = (Mig(layout="all-1g.24gb", replicas=replicas) for replicas in (None, 2))
    said = outputs(stack(pool(CARD, sharing=before)))
    switch = only(StackOutputs.model_validate(said), stack(pool(CARD, sharing=after)))
    assert (switch.replaced, switch.before, switch.after) == ((), "mig-single", "mig-single-x2")


@pytest.mark.parametrize(("before", "after"), list(itertools.permutations(MODES, 2)))
def test_on_karpenter_the_old_node_goes_before_the_new_one_comes(before: str, after: str) -> None:
    was, planned = (stack(pool(sharing=MODES[mode], provisioner="karpenter", max=2)) for mode in (before, after))
    switch = only(was, planned)
    assert kinds(switch) == ["stop", "nodes", "nodes", "plugin", "proof", "proof", "start", "start"]
    assert all(step.away for step in switch.steps)
    assert switch.replaced == ("kubernetes:karpenter.sh/v1:NodePool",)
    assert all(minutes > downloaded(images_mib() + all_weights(planned)) for minutes in starts(switch).values())


PROVED = ["nodes", "plugin", "proof", "proof"]


@pytest.mark.parametrize(
    ("provisioner", "replaced", "away", "answer"),
    [
        ("node-group", "aws:eks/nodeGroup:NodeGroup", ["stop", "start", "start"], PROVED),
        ("karpenter", "kubernetes:karpenter.sh/v1:NodePool", ["stop", "nodes", *PROVED, "start", "start"], []),
    ],
)
def test_another_gpu_takes_other_nodes_and_a_proof(
    provisioner: str, replaced: str, away: list[str], answer: list[str]
) -> None:
    before, after = (pool(type, provisioner=provisioner) for type in ("g4dn.xlarge", "g6.xlarge"))
    switch = only(stack(before), stack(after))
    assert (switch.before, switch.after) == ("timeslice-2 on t4", "timeslice-2 on l4")
    assert switch.replaced == (replaced,)
    assert kinds(switch, away=True) == away
    assert kinds(switch, away=False) == answer


@pytest.mark.parametrize(
    ("before", "after", "replaced", "away"),
    [
        ("node-group", "karpenter", "aws:eks/nodeGroup:NodeGroup", ["nodes", "stop", "start", "start"]),
        ("karpenter", "node-group", "kubernetes:karpenter.sh/v1:NodePool", ["stop", "start", "start"]),
    ],
)
def test_another_provisioner_takes_other_nodes_and_proves_nothing_again(
    before: str, after: str, replaced: str, away: list[str]
) -> None:
    switch = only(stack(pool(provisioner=before)), stack(pool(provisioner=after)))
    assert (switch.before, switch.after) == (f"timeslice-2 by {before}", f"timeslice-2 by {after}")
    assert switch.replaced == (replaced,)
    assert kinds(switch, away=True) == away
    assert "proof" not in kinds(switch)


def test_with_mode_and_provisioner_the_proof_brings_karpenters_node() -> None:
    planned = stack(pool(sharing=MODES["mps-2"], provisioner="karpenter"))
    with_proof, without = (only(stack(), planned, proof=proof) for proof in (True, False))
    assert kinds(with_proof, away=False) == ["nodes", "plugin", "proof", "proof"]
    assert kinds(without, away=True) == ["nodes", "stop", "start", "start"]
    assert with_proof.replaced == ("aws:eks/nodeGroup:NodeGroup",)


def two_pools(first: Sharing, second: Sharing) -> Setup:
    named = (listed(0, "steady", pool(sharing=first)), listed(1, "rest", pool(sharing=second)))
    llama, mistral = pair()
    return setup(pools=named, tenants=(*tenants(llama, pool="steady"), *tenants(mistral, pool="rest")))


def test_of_several_pools_only_the_models_of_that_one_stop_whose_mode_changes() -> None:
    before = two_pools(Exclusive(), TimeSlicing(replicas=2))
    switch = only(before, two_pools(Exclusive(), Mps(replicas=2)))
    assert (switch.pool, switch.stops) == ("rest", ("mistral-7b",))
    assert [*starts(switch)] == ["mistral-7b"]


def test_where_one_pool_is_cut_the_others_keep_their_plugin() -> None:
    before = two_pools(TimeSlicing(), TimeSlicing())
    cut = replace(before.pools[1], instance_types=(CARD,))
    before = replace(before, pools=(before.pools[0], cut))
    other, mig = replace(before.pools[0], sharing=Exclusive()), replace(cut, sharing=Mig(layout="all-1g.24gb"))
    found = switches(replace(before, pools=(other, mig)), running(before))
    told = {switch.pool: any("GPU Operator" in step.what for step in switch.steps) for switch in found.pools}
    assert told == {other.name: False, mig.name: True}


def test_new_and_vanished_pools_and_models_are_told() -> None:
    before, after = two_pools(Exclusive(), TimeSlicing()), stack(listed(0, "steady", pool(sharing=Exclusive())))
    after = replace(after, tenants=tenants(pair()[0], pool="steady"))
    found = switches(after, running(before))
    assert (found.pools, found.new, found.gone, found.gone_models) == ((), (), ("rest",), ("mistral-7b",))
    found = switches(before, running(after))
    assert (found.pools, found.new, found.gone, found.gone_models) == ((), ("rest",), (), ())


def test_a_model_that_is_new_is_downloaded_and_has_no_downtime() -> None:
    planned = stack(pool(sharing=MODES["mps-2"]))
    before = replace(stack(), tenants=stack().tenants[:1])
    switch = only(before, planned)
    assert switch.stops == ("llama2-7b",)
    assert [downtime.model for downtime in switch.downtimes] == ["llama2-7b"]
    new = planned.tenants[1]
    update = MINUTES["kubernetes:helm.sh/v3:Release update"]
    assert starts(switch) == pytest.approx(
        {
            "llama2-7b": update + loads(planned)["llama2-7b"],
            "mistral-7b": update + loads(planned)["mistral-7b"] + downloaded(weights_mib(new)),
        }
    )


@pytest.mark.parametrize("provisioner", ["node-group", "karpenter"])
def test_a_parked_pool_has_nothing_to_stop(provisioner: str) -> None:
    parked = pool(desired=0, provisioner=provisioner)
    switch = only(stack(parked), stack(replace(parked, sharing=Exclusive())))
    assert (switch.stops, switch.downtimes, switch.parks) == ((), (), True)
    assert set(kinds(switch)) == {"nodes"}


def test_a_pool_that_wakes_up_under_another_mode_downloads_again_and_has_no_downtime() -> None:
    switch = only(stack(pool(desired=0)), stack(pool(sharing=Exclusive())))
    assert (switch.stops, switch.downtimes, switch.parks) == ((), (), False)
    assert switch.steps[0].what.endswith("; 1 node to join")
    assert all("downloads" in step.what and "where" not in step.what for step in switch.steps if step.kind == "start")


def test_a_pool_that_is_parked_on_the_way_keeps_its_models_away() -> None:
    switch = only(stack(), stack(pool(sharing=Exclusive(), desired=0)))
    assert (switch.stops, switch.downtimes, switch.parks) == (MODELS, (), True)
    assert kinds(switch) == ["nodes", "stop"]


def test_a_pool_without_models_stops_none() -> None:
    spare = listed(1, "spare", pool())
    before = stack(listed(0, "gpu", pool()), spare)
    switch = only(before, replace(before, pools=(before.pools[0], replace(spare, sharing=Exclusive()))))
    assert (switch.pool, switch.stops, kinds(switch)) == ("spare", (), ["nodes", "plugin", "proof", "proof"])


@pytest.mark.parametrize(
    ("types", "proof", "proved"),
    [(["g4dn.xlarge"], True, 2), (["g4dn.xlarge"], False, 0), (["g4dn.xlarge", "g4dn.12xlarge"], True, 0)],
)
def test_no_proof_is_told_where_none_is_made(types: Sequence[str], proof: bool, proved: int) -> None:
    switch = only(stack(pool(types)), stack(pool(types, sharing=Exclusive())), proof=proof)
    assert kinds(switch).count("proof") == proved
