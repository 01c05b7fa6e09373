"""The effect of a switch on a running stack, the models' downtime, and the vCPU quotas that it needs.

`--regen` writes `tests/golden/switches.txt`, whose titles name what each must show.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from components.ollama_pair.values import STOP_SECONDS
from sharing import tables
from sharing.models.served import Cache
from sharing.modes.modes import Exclusive, Mig, Mps, Sharing, TimeSlicing
from sharing.sections.config import StackConfig
from sharing.sections.startup import DISK_MIB_PER_SECOND, weights_mib
from stacks.outputs import StackOutputs
from tandem.plan import switch_screen
from tandem.plan.switch import Switch, Switches, switches
from tandem.terminal import open_console
from tests.conftest import Golden
from tests.sharing.builders import listed, pair, pool, replace, setup, tenants
from tests.tandem.outputs import outputs, running

MODES: dict[str, Sharing] = {"timeslice-2": TimeSlicing(), "mps-2": Mps(replicas=2), "exclusive": Exclusive()}
PROVISIONERS = ("node-group", "karpenter")
GPU = "g7e.2xlarge"
"""A node with one GPU that supports MIG."""
ON_DEMAND: dict[str, Any] = {"capacity": "on-demand"}
KARPENTER: dict[str, Any] = {"provisioner": "karpenter", "max": 2}
Scene = tuple[str, StackConfig | StackOutputs, StackConfig]
"""The title, the running stack, and the planned one."""


def stack(
    types: str | tuple[str, ...] = "g4dn.xlarge", sharing: Sharing | None = None, cache: Cache = "node", **pooled: Any
) -> StackConfig:
    return setup(pools=(pool(types, sharing, **pooled),), models=tenants(*pair(), cache=cache))


def two_pools(first: Sharing, second: Sharing) -> StackConfig:
    named = (listed(0, "steady", pool(sharing=first)), listed(1, "rest", pool(sharing=second)))
    llama, mistral = pair()
    return setup(pools=named, models=(*tenants(llama, pool="steady"), *tenants(mistral, pool="rest")))


def telling(stack: StackConfig, **other: Any) -> StackOutputs:
    """The outputs of a stack, with some changed."""
    shown = outputs(stack)
    shown["pools"]["gpu"] |= other
    return StackOutputs.model_validate(shown)


def of_modes() -> Iterator[Scene]:
    for before, after in itertools.permutations(MODES, 2):
        planned = stack(sharing=MODES[after])
        yield (
            f"{before} to {after}: pods go, then mode and proof; nothing is replaced",
            stack(sharing=MODES[before]),
            planned,
        )
    for before, after in itertools.permutations(MODES, 2):
        was, planned = (stack(sharing=MODES[mode], **KARPENTER) for mode in (before, after))
        yield f"{before} to {after} on Karpenter: the old node goes before the new one comes", was, planned
    three = stack(sharing=TimeSlicing(replicas=3))
    yield "other replicas are a switch", stack(), three
    policy = stack(sharing=TimeSlicing(allocation_policy="distributed"))
    yield "another policy is a switch", stack(), policy
    mps = stack(sharing=Mps(replicas=2))
    [shares] = outputs(mps)["pools"]["gpu"]["shares"]
    yield (
        "memory that the catalogue counts otherwise is no switch",
        telling(mps, shares=[{**shares, "memory_mib": shares["memory_mib"] - 100}]),
        mps,
    )
    yield "what stays as it is stops nothing", stack(), stack()


def of_nodes() -> Iterator[Scene]:
    two: dict[str, Any] = {"desired": 2, "max": 2}
    yield "a node that joins downloads images and models", stack(), stack(sharing=Exclusive(), **two)
    yield "two nodes that stay download models alone", stack(**two), stack(sharing=Exclusive(), **two)
    for by in PROVISIONERS:
        was = stack(cache="volume", provisioner=by, max=2)
        yield (
            f"on volumes no model is downloaded, {by}",
            was,
            stack(sharing=Exclusive(), cache="volume", provisioner=by, **two),
        )
        parked = stack(provisioner=by, desired=0)
        yield f"a parked pool has nothing to stop, {by}", parked, stack(sharing=Exclusive(), provisioner=by, desired=0)
        yield (
            f"another GPU takes other nodes and a proof, {by}",
            stack(provisioner=by),
            stack("g6.xlarge", provisioner=by),
        )
    yield "a pool that wakes up in another mode downloads", stack(desired=0), stack(sharing=Exclusive())
    yield "a pool that is parked keeps its models away", stack(), stack(sharing=Exclusive(), desired=0)
    for before, after in itertools.permutations(PROVISIONERS):
        yield f"from {before} to {after}: other nodes, no proof", stack(provisioner=before), stack(provisioner=after)
    yield (
        "another mode by Karpenter: the proof brings its node",
        stack(),
        stack(sharing=Mps(replicas=2), provisioner="karpenter"),
    )
    yield "another type of the same GPU: a new group, no proof", stack(), stack("g4dn.2xlarge")
    yield "another capacity: a new group, no proof", stack(), stack(**ON_DEMAND)
    yield "another number of GPUs is proved", stack(), stack("g4dn.12xlarge")
    yield (
        "types with several numbers of GPUs prove nothing",
        stack(("g4dn.xlarge", "g4dn.12xlarge")),
        stack(("g4dn.xlarge", "g4dn.12xlarge"), Exclusive()),
    )
    yield "Karpenter replaces a node that no longer fits", stack(**KARPENTER), stack("g4dn.2xlarge", **KARPENTER)
    one_each = stack("g4dn.2xlarge", Exclusive(), **KARPENTER)
    yield "Karpenter replaces one node at a time", stack(sharing=Exclusive(), **KARPENTER), one_each
    woken = stack("g4dn.2xlarge", **KARPENTER)
    yield "Karpenter's pool that wakes up has no node to replace", stack(desired=0, **KARPENTER), woken
    group = stack(replacement="delete-first")
    yield "delete-first is no matter of Karpenter's nodes", stack(**KARPENTER), group
    yield "fewer types with the same least GPUs are not proved", stack(("g4dn.xlarge", "g4dn.12xlarge")), stack()
    yield "Karpenter keeps a node that fits", stack(**KARPENTER), stack(("g4dn.xlarge", "g4dn.2xlarge"), **KARPENTER)
    fallback = stack(on_demand_fallback=True, **KARPENTER)
    yield "Karpenter keeps a spot node where it may fall back", stack(**KARPENTER), fallback
    yield "Karpenter keeps an on-demand node where it may fall back", stack(**KARPENTER, **ON_DEMAND), fallback
    yield (
        "no vCPUs where a type of the old nodes is not known",
        telling(stack(), instance_types=["g4dn.xlarge", "g99.xlarge"]),
        stack("g5.2xlarge"),
    )


def of_slices() -> Iterator[Scene]:
    small, large = Mig(layout="all-1g.24gb"), Mig(layout="all-2g.48gb")
    for before, after in ((TimeSlicing(), small), (small, Mps(replicas=2))):
        was, planned = stack(GPU, before), stack(GPU, after)
        yield f"{before.mode} to {after.mode}: models answer until new nodes have proved their shares", was, planned
    yield (
        "delete-first: models are unavailable until the new group has proved its shares",
        stack(GPU),
        stack(GPU, small, replacement="delete-first"),
    )
    yield "another layout: other nodes, the same operator", stack(GPU, small), stack(GPU, large)
    turns = Mig(layout="all-1g.24gb", replicas=2)
    yield "pods that take turns on the same slices need no new nodes", stack(GPU, small), stack(GPU, turns)


def of_limits() -> Iterator[Scene]:
    own = Mps(limits="per-model")
    for name, other in MODES.items():
        for by in ({}, KARPENTER):
            was, planned = stack(sharing=other, **by), stack(sharing=own, **by)
            suffix = " on Karpenter" * bool(by)
            # The plugin ends its MPS daemons on the old nodes, too.
            until = "until the plugin ends its daemons" if name == "mps-2" else "until the new nodes are proved"
            to = suffix or f": other nodes, and models answer {until}"
            yield f"{name} to limits per model{to}", was, planned
            back = suffix or ": other nodes, and models answer until these are proved"
            yield f"limits per model to {name}{back}", planned, was
    yield "limits per model that stay as they are stop nothing", stack(sharing=own), stack(sharing=own)


def of_pools() -> Iterator[Scene]:
    before = two_pools(Exclusive(), TimeSlicing())
    yield "only models of the pool whose mode changes stop", before, two_pools(Exclusive(), Mps(replicas=2))
    steady, rest = two_pools(TimeSlicing(), TimeSlicing()).pools
    whole = replace(before, pools=(steady, replace(rest, instance_types=(GPU,))))
    cut = replace(whole.pools[1], sharing=Mig(layout="all-1g.24gb"))
    yield (
        "where one pool is cut the other keeps its plugin",
        whole,
        replace(whole, pools=(replace(steady, sharing=Exclusive()), cut)),
    )
    one = setup(pools=before.pools[:1], models=tenants(pair()[0], pool="steady"))
    yield "pools and models that vanish are reported", before, one
    yield "pools that are new are reported", one, before
    alone = replace(stack(), models=stack().models[:1])
    yield "a new model is downloaded and has no downtime", alone, stack(sharing=Mps(replicas=2))
    spare = listed(1, "spare", pool())
    named = setup(pools=(listed(0, "gpu", pool()), spare), models=tenants(*pair()))
    yield (
        "a pool without models stops none",
        named,
        replace(named, pools=(named.pools[0], replace(spare, sharing=Exclusive()))),
    )


def lines(found: Switches) -> Iterator[str]:
    """A line for each pool whose mode changes: its steps, while models answer or not, and the downtime."""
    for switch in found.pools:
        parts = [f"{len(switch.stops)} stop"] if switch.stops else []
        parts += [f"replaced {', '.join(switch.replaced)}"] if switch.replaced else []
        for away, steps in itertools.groupby(switch.steps, lambda step: step.away):
            named = ", ".join(f"{step.kind} {step.minutes:.3f}" for step in steps)
            parts.append(f"{'away' if away else 'answering'}: {named}")
        parts += [f"= {', '.join(f'{each.minutes:.3f}' for each in switch.downtimes)}"] * bool(switch.downtimes)
        parts += [f"{each.quota.name} {each.most}" for each in switch.vcpus]
        yield f"{switch.pool} {switch.before} → {switch.after}{', parks' * switch.parks}; {'; '.join(parts)}"
    for what in ("new", "gone", "gone_models"):
        if names := getattr(found, what):
            yield f"{what}: {', '.join(names)}"


def test_every_switch_is_as_in_the_golden(golden: Golden) -> None:
    """The steps of each switch, and below them how often each step occurs, in words."""
    scenes = [(*scene, True) for scene in (*of_modes(), *of_nodes(), *of_slices(), *of_limits(), *of_pools())]
    planned = stack(sharing=Mps(replicas=2), provisioner="karpenter")
    scenes.append(("without a proof the models bring Karpenter's node", stack(), planned, False))
    scenes.append(("without a proof none is reported", stack(), stack(sharing=Exclusive()), False))
    text, words = "", Counter[str]()
    for title, before, after, proof in scenes:
        found = switches(after, before if isinstance(before, StackOutputs) else running(before), proof=proof, limits={})
        text += f"{title}\n" + "".join(f"  {line}\n" for line in lines(found))
        steps = [step for switch in found.pools for step in switch.steps]
        words.update(f"{step.kind} ± {step.plus_minus:.3f} {step.what} [{step.model}]" for step in steps)
    golden("switches.txt", text + "".join(f"{times} × {word}\n" for word, times in sorted(words.items())))


def test_limits_per_model_come_with_other_nodes_and_end_the_plugins_mps_daemons() -> None:
    """A process whose MPS daemon ends loses its limit, so its model stops (docs/decisions/0153)."""
    own = stack(sharing=Mps(limits="per-model"))

    def away(before: StackConfig, after: StackConfig) -> list[str]:
        switch = changed(before, after)
        assert switch.replaced == ("aws:eks/nodeGroup:NodeGroup",)
        return [step.kind for step in switch.steps if step.away]

    assert away(stack(), own) == ["stop", "start", "start"]
    assert away(stack(sharing=Mps(replicas=2)), own) == ["plugin", "proof", "proof", "stop", "start", "start"]
    assert away(own, stack(sharing=Mps(replicas=2))) == ["stop", "start", "start"]
    [words] = [step.what for step in changed(stack(), own).steps if step.kind == "plugin"]
    assert words == "the device plugin counts shares; each node has its own MPS daemon"


OWN: dict[str, Any] = {"sharing": Mps(limits="per-model")}
LLAMA, MISTRAL = (served.id for served in stack().models)


def limited(before: StackConfig, after: StackConfig, *, older: bool = False, **limits: int) -> Switches:
    """The changes where the limits were 7,000 MiB each, and will be those of `limits` by the models' names."""
    fits = {} if older else {"fit": {id: {"needs_mib": 6000, "share_mib": 7000} for id in (LLAMA, MISTRAL)}}
    ids = {"llama": LLAMA, "mistral": MISTRAL}
    planned = {ids[name]: mib for name, mib in limits.items()}
    return switches(after, StackOutputs.model_validate({**outputs(before), **fits}), proof=True, limits=planned)


@pytest.mark.parametrize("pooled", [{}, KARPENTER], ids=PROVISIONERS)
def test_a_model_whose_limit_changes_restarts_from_the_files_on_its_node(pooled: dict[str, Any]) -> None:
    own = stack(**OWN, **pooled)
    found = limited(own, own, llama=8000, mistral=7000)
    assert found.pools == ()
    [restart] = found.restarts
    assert (restart.downtime.model, restart.before_mib, restart.after_mib) == (LLAMA, 7000, 8000)
    durations = {row["type"]: row for row in tables.read("durations").rows}
    passes = [durations["kubernetes:core/v1:Pod evict"], durations["kubernetes:helm.sh/v3:Release update"]]
    load = weights_mib(own.models[0]) / DISK_MIB_PER_SECOND / 60
    assert restart.downtime.minutes == pytest.approx(sum(float(row["minutes"]) for row in passes) + load)
    assert restart.downtime.plus_minus == pytest.approx(math.hypot(*(float(row["plus_minus"]) for row in passes)))


def test_only_limits_that_the_outputs_tell_and_of_models_that_run_restart_any() -> None:
    own, parked = stack(**OWN), stack(**OWN, desired=0)
    assert [each.downtime.model for each in limited(own, own, llama=6000, mistral=8000).restarts] == [LLAMA, MISTRAL]
    assert limited(own, own, older=True, llama=8000, mistral=8000).restarts == ()
    assert limited(own, parked, llama=8000).restarts == ()
    assert limited(parked, own, llama=8000).restarts == ()
    assert limited(own, stack()).restarts == (), "the pool's models stop with its mode"
    alone = replace(own, models=own.models[:1])
    assert [each.downtime.model for each in limited(alone, own, llama=8000, mistral=8000).restarts] == [LLAMA]


def changed(before: StackConfig, after: StackConfig) -> Switch:
    [switch] = switches(after, running(before), proof=True, limits={}).pools
    return switch


def test_a_models_downtime_is_the_time_of_all_steps_that_it_waits_for_and_of_no_other_models_start() -> None:
    planned = stack(sharing=Mps(replicas=2))
    shown = [
        "aws:eks/nodeGroup:NodeGroup update",
        "kubernetes:core/v1:Pod evict",
        "kubernetes:apps/v1:DaemonSet",
        "kubernetes:batch/v1:Job",
        "kubernetes:batch/v1:Job",
        "kubernetes:helm.sh/v3:Release update",
    ]
    known = {row["type"]: (float(row["minutes"]), float(row["plus_minus"])) for row in tables.read("durations").rows}
    assert known["kubernetes:core/v1:Pod evict"][0] == STOP_SECONDS / 60
    loads = [weights_mib(served) / DISK_MIB_PER_SECOND / 60 for served in planned.models]
    downtimes = changed(stack(), planned).downtimes
    assert [one.minutes for one in downtimes] == pytest.approx([sum(known[one][0] for one in shown) + t for t in loads])
    assert {round(one.plus_minus, 9) for one in downtimes} == {round(math.hypot(*(known[one][1] for one in shown)), 9)}


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
def test_a_change_needs_quota_for_what_runs_at_once(
    before: StackConfig, after: StackConfig, vcpus: dict[str, int]
) -> None:
    assert {each.quota.name: each.most for each in changed(before, after).vcpus} == vcpus


def test_the_screen_says_that_a_parked_pool_has_no_end_of_its_downtime(capsys: pytest.CaptureFixture[str]) -> None:
    parked = switches(stack(sharing=Exclusive(), desired=0), running(stack()), proof=True, limits={})
    switch_screen.show(open_console(), parked)
    assert "\nDowntime: until the pool has nodes again\n" in capsys.readouterr().out


def test_the_screen_says_that_a_pool_of_karpenter_is_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    other = switches(stack(sharing=Exclusive(), **KARPENTER), running(stack(**KARPENTER)), proof=True, limits={})
    switch_screen.show(open_console(), other)
    assert "\nreplaced: Karpenter's pool, with its nodes\n" in capsys.readouterr().out
