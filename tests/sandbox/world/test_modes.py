"""A node that changes its mode: evicted pods, GPUs with a remaining process, and the journal."""

from itertools import permutations
from typing import Any

import pytest

from components.device_plugin_sharing import plugin_chart
from sandbox.world import Entity, Event, tokens
from sharing.modes.modes import Sharing
from tests.sandbox.mode_pieces import (
    MODES,
    MPS,
    TURNS,
    WHOLE,
    Switching,
    job,
    prove,
    shares_spec,
    tolerations,
)
from tests.sandbox.world_pieces import TAINT, Account, refused

PAIRS = list(permutations(MODES, 2))
NAMES = [f"{old.config_name} to {new.config_name}" for old, new in PAIRS]


def where(account: Account, name: str) -> str:
    """Node of a model's pod; "" while it waits."""
    [pod] = [one for one in account.of(tokens.POD) if one.name == f"{name}-0"]
    return str(pod.outputs["node"])


def gpu_node(account: Account) -> Entity:
    [node] = [one for one in account.of(tokens.NODE) if one.outputs["metadata"]["labels"].get("tandem/pool") == "gpu"]
    return node


def serve_again(account: Account, name: str, sharing: Sharing) -> None:
    """Updates the model's release for that mode."""
    values = account.outputs(tokens.RELEASE, f"default/{name}")["values"]
    account.change(tokens.RELEASE, f"default/{name}", values={**values, "tolerations": tolerations(sharing)})


# Taints.


def test_a_taint_for_another_mode_evicts_pods_and_readmits_those_that_tolerate_it() -> None:
    account = Switching(TURNS)
    account.serve("old", TURNS)
    account.serve("both", TURNS, MPS)
    before = where(account, "old")
    account.switch(MPS)
    assert (where(account, "old"), where(account, "both")) == ("", before)
    account.drop(tokens.RELEASE, "default/both")
    serve_again(account, "old", MPS)
    assert where(account, "old") == before, "the node is the same"
    account.switch(TURNS)
    assert where(account, "old") == ""
    account.switch(MPS)
    assert where(account, "old") == before


@pytest.mark.parametrize("effect", ["NO_EXECUTE", "NoExecute", "NO_SCHEDULE", "NoSchedule", "PREFER_NO_SCHEDULE"])
@pytest.mark.real_world(
    behaviour="Only a taint with the effect NoExecute evicts running pods",
    source="kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/",
)
def test_only_no_execute_evicts_in_either_spelling(effect: str) -> None:
    account = Switching(TURNS)
    account.serve("m", TURNS)
    taint = {"key": "somebody", "value": "was-here", "effect": effect}
    account.world.tamper(tokens.NODE, gpu_node(account).id, lambda node: node.outputs["spec"]["taints"].append(taint))
    assert bool(where(account, "m")) is (effect not in ("NO_EXECUTE", "NoExecute"))
    if effect == "PREFER_NO_SCHEDULE":
        account.serve("later", TURNS)
    else:
        with refused("Timeout", "untolerated taint {somebody: was-here}"):
            account.serve("later", TURNS)


def test_a_request_tolerates_its_resources_taint_but_is_evicted_by_no_execute() -> None:
    account = Switching(TURNS)
    account.change(tokens.NODE_GROUP, "c:gpu", taints=[TAINT])
    account.model("m")
    account.change(tokens.NODE_GROUP, "c:gpu", taints=[{**TAINT, "effect": "NO_EXECUTE"}])
    assert where(account, "m") == ""


# GPUs.


LOST, EXCLUSIVE, FULL = "lost its MPS server", "GPU in EXCLUSIVE_PROCESS mode", "Insufficient nvidia.com/gpu"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [(TURNS, MPS, EXCLUSIVE), (WHOLE, MPS, EXCLUSIVE), (MPS, TURNS, LOST), (MPS, WHOLE, FULL), (TURNS, WHOLE, FULL)],
)
@pytest.mark.real_world(
    behaviour="Under MPS a GPU is in compute mode EXCLUSIVE_PROCESS, so a process outside MPS keeps clients out",
    source="docs.nvidia.com/deploy/mps/ (compute modes); k8s-device-plugin cmd/mps-control-daemon/mps/daemon.go",
)
def test_a_process_that_outlives_a_change_of_mode_blocks_new_processes(old: Sharing, new: Sharing, words: str) -> None:
    account = Switching(old)
    account.serve("old", *MODES)
    account.reconfigure(new)
    assert where(account, "old"), "nothing has evicted it"
    spec = shares_spec(new, MODES)
    # As many as there may be free shares.
    spec["parallelism"] = spec["completions"] = 1
    of_old = f"a process of {old.config_name} runs in default/old-0"
    shown = words if words is FULL else f"CUDA_ERROR_DEVICE_UNAVAILABLE .*{words}.*{of_old}"
    with refused("DeadlineExceeded", shown):
        account.make(tokens.JOB, **job(spec))
    with refused("Timeout", shown):
        account.serve("new", *MODES)
    account.drop(tokens.RELEASE, "default/old")
    account.make(tokens.JOB, **job(shares_spec(new, MODES), "later"))
    account.serve("new", *MODES)


def test_a_pod_without_a_share_has_no_process_on_the_gpu() -> None:
    account = Switching(TURNS)
    before = account.world.journal
    account.model("m", ollama={"gpu": {"enabled": False}}, tolerations=tolerations(TURNS))
    assert where(account, "m") == gpu_node(account).id
    assert account.world.journal == before


def test_a_process_blocks_none_on_a_gpu_without_mps_or_with_its_own_config() -> None:
    account = Switching(WHOLE)
    account.serve("old", *MODES)
    account.reconfigure(TURNS)
    account.serve("new", *MODES)
    for name in ("old", "new"):
        account.drop(tokens.RELEASE, f"default/{name}")
    account.reconfigure(MPS)
    account.serve("old", *MODES)
    account.change(tokens.RELEASE, "kube-system/plugin", description="the same configuration")
    account.reconfigure(WHOLE)
    account.reconfigure(MPS)
    account.serve("new", *MODES)


# The journal.


@pytest.mark.parametrize(("old", "new"), PAIRS, ids=NAMES)
def test_a_switch_stops_changes_proves_and_starts(old: Sharing, new: Sharing) -> None:
    account = Switching(old)
    prove(account, old)
    account.serve("m", old)
    node, before = gpu_node(account).id, len(account.world.journal)
    account.switch(new)
    prove(account, new)
    serve_again(account, "m", new)
    was, now = old.config_name, new.config_name
    assert account.world.journal[before:] == [
        Event(kind="stop", node=node, config=was, who="default/m-0"),
        Event(kind="mode", node=node, config=now, before=was),
        Event(kind="prove", node=node, config=now, who=f"proof/node-{now}"),
        Event(kind="prove", node=node, config=now, who=f"proof/shares-{now}"),
        Event(kind="start", node=node, config=now, who="default/m-0"),
    ]
    assert gpu_node(account).id == node


def test_a_mode_that_changes_under_a_process_is_reported_before_its_end() -> None:
    account = Switching(TURNS)
    account.serve("m", *MODES)
    before = len(account.world.journal)
    account.reconfigure(MPS)
    account.drop(tokens.RELEASE, "default/m")
    assert [(event.kind, event.config) for event in account.world.journal[before:]] == [
        ("mode", MPS.config_name),
        ("stop", TURNS.config_name),
    ]


def lost_node(account: Switching) -> None:
    account.change(tokens.NODE_GROUP, "c:gpu", scalingConfig={"desiredSize": 0})


def lost_cluster(account: Switching) -> None:
    account.drop(tokens.NODE_GROUP, "c:system")
    account.drop(tokens.NODE_GROUP, "c:gpu")
    account.drop(tokens.CLUSTER, "c")


def upgraded(account: Switching) -> None:
    account.change(tokens.RELEASE, "default/m", version="2")


@pytest.mark.parametrize(
    ("happens", "shown"),
    [
        (lost_node, ["stop"]),
        (lost_cluster, ["stop"]),
        (upgraded, ["stop", "start"]),
        (lambda account: account.drop(tokens.RELEASE, "default/m"), ["stop"]),
        (lambda account: account.drop(tokens.RELEASE, "kube-system/plugin"), []),
        (lambda account: account.change(tokens.NODE_GROUP, "c:gpu", releaseVersion="later"), ["stop", "mode", "start"]),
    ],
)
def test_every_end_of_a_process_is_reported_once(happens: Any, shown: list[str]) -> None:
    account = Switching(TURNS)
    account.serve("m", TURNS)
    before = len(account.world.journal)
    happens(account)
    account.make("aws:ec2/vpc:Vpc", cidrBlock="10.1.0.0/16")
    assert [event.kind for event in account.world.journal[before:]] == shown


def test_a_second_device_plugin_on_a_node_is_a_clash_of_both() -> None:
    account = Switching(TURNS)
    before = len(account.world.journal)
    values, both = plugin_chart.values("gpu", TURNS), "kube-system/plugin, kube-system/other"
    account.make(
        tokens.RELEASE, "other", name="other", namespace="kube-system", chart="nvidia-device-plugin", values=values
    )
    clash = [Event(kind="clash", node=gpu_node(account).id, config="", who=both)]
    assert account.world.journal[before:] == clash
    account.make("aws:ec2/vpc:Vpc", cidrBlock="10.1.0.0/16")
    assert account.world.journal[before:] == clash, "only once"
    with refused("Timeout", "Insufficient nvidia.com/gpu"):
        account.serve("m", TURNS)
    account.world.delete(tokens.RELEASE, "kube-system/other")
    account.make("aws:ec2/vpc:Vpc", cidrBlock="10.2.0.0/16")
    assert [event.kind for event in account.world.journal[before:]].count("clash") == 1
