"""Promise against fact, without a cluster: what is seen goes in, rows come out."""

from dataclasses import replace
from typing import Any

import pytest

from tandem.deployed.objects import Facts
from tandem.deployed.ollama import Memory
from tandem.planned.promise import ModelPromise
from tandem.verify.checks import model_checks, server_checks, stack_checks
from tandem.verify.servers import Outcome, Server
from tests.tandem.outputs import outputs
from tests.tandem.seen import (
    NODE,
    broken,
    changed,
    checks,
    daemon_set,
    deployment,
    facts,
    node,
    pending,
    pod,
    promise,
    ready,
    restarting,
)

GIB = 2**30


def test_a_stack_that_is_as_planned_keeps_every_promise() -> None:
    found = checks(facts())
    assert {check.held for check in found.values()} == {True}
    assert [what for about, what in found if about == "pool gpu"] == [
        "mode",
        "nodes ready",
        "device plugin ready",
        "feature discovery ready",
        "gpu.deploy.operands",
        "gpu.sharing-strategy",
        "gpu.replicas",
        "mps.capable",
        "nvidia.com/gpu a node",
    ]


def with_node(**changes: Any) -> Facts:
    return replace(facts(), nodes=[node(**changes)])


@pytest.mark.parametrize(
    ("seen", "first", "found"),
    [
        (replace(facts(), nodes=[]), "nodes ready", "0"),
        (with_node(labels={"tandem/pool": "other"}), "nodes ready", "0"),
        (
            replace(facts(), nodes=[changed(node(), "status", "conditions", to=ready(False)["conditions"])]),
            "nodes ready",
            f"0 (not ready: {NODE})",
        ),
        (
            replace(facts(), nodes=[changed(node(), "metadata", "deletionTimestamp", to="now")]),
            "nodes ready",
            f"0 (not ready: {NODE})",
        ),
        (with_node(labels={"nvidia.com/gpu.deploy.operands": "true"}), "gpu.deploy.operands", f"true on {NODE}"),
        (with_node(labels={"nvidia.com/gpu.sharing-strategy": "none"}), "gpu.sharing-strategy", f"none on {NODE}"),
        (with_node(labels={"nvidia.com/gpu.replicas": "4"}), "gpu.replicas", f"4 on {NODE}"),
        (with_node(labels={"nvidia.com/mps.capable": "true"}), "mps.capable", f"true on {NODE}"),
        (with_node(shares=1), "nvidia.com/gpu a node", f"1 on {NODE}"),
        (with_node(shares=4), "nvidia.com/gpu a node", f"4 on {NODE}"),
        (with_node(shares=0), "nvidia.com/gpu a node", f"0 on {NODE}"),
        (replace(facts(), daemon_sets={}), "device plugin ready", "no DaemonSet"),
    ],
)
def test_the_first_broken_promise_of_a_pool_is_its_cause(seen: Facts, first: str, found: str) -> None:
    assert broken(seen)[0] == first
    check = checks(seen)["pool gpu", first]
    assert found in check.found
    assert check.fix


def test_what_rests_on_nodes_is_not_judged_without_them() -> None:
    found = checks(replace(facts(), nodes=[]))
    for what in ("gpu.replicas", "nvidia.com/gpu a node"):
        assert (found["pool gpu", what].held, found["pool gpu", what].found) == (None, "no node is ready")


def test_a_daemon_set_is_known_by_its_name_and_must_be_ready_everywhere() -> None:
    plugin, release = "nvidia-device-plugin", "nvidia-device-plugin-gpu"
    discovery = daemon_set(f"{release}-gpu-feature-discovery")
    seen = replace(facts(), daemon_sets={plugin: [daemon_set(release, ready=0), discovery]})
    assert broken(seen) == ["device plugin ready"]
    assert checks(seen)["pool gpu", "device plugin ready"].found == "0 of 1 ready"
    # Ready wherever it is wanted, which is nowhere.
    seen = replace(facts(), daemon_sets={plugin: [daemon_set(release, desired=0, ready=0), discovery]})
    assert broken(seen) == ["device plugin ready"]
    # One of two nodes is not enough, though only one was promised.
    seen = replace(facts(), daemon_sets={plugin: [daemon_set(release, desired=2), discovery]})
    assert broken(seen) == ["device plugin ready"]


def test_mps_needs_its_daemon_and_exclusive_offers_whole_cards() -> None:
    labels = {"nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/mps.capable": "true"}
    assert broken(with_node(labels=labels), "mps")[0] == "mode", "the cause: the nodes were made for time-slicing"
    seen = with_node(labels=labels, mode="mps-2")
    assert broken(seen, "mps") == ["MPS daemon ready"]
    plugin, release = "nvidia-device-plugin", "nvidia-device-plugin-gpu"
    daemon = daemon_set(f"{release}-mps-control-daemon")
    assert not broken(replace(seen, daemon_sets={plugin: [*seen.daemon_sets[plugin], daemon]}), "mps")
    labels = {"nvidia.com/gpu.sharing-strategy": "none", "nvidia.com/gpu.replicas": "1"}
    two = [node(name, shares=1, labels=labels, mode="exclusive") for name in (NODE, "other")]
    both = [daemon_set(name, desired=2, ready=2) for name in (release, f"{release}-gpu-feature-discovery")]
    assert not broken(replace(facts(), nodes=two, daemon_sets={plugin: both}), "exclusive")
    assert broken(replace(facts(), nodes=two[:1]), "exclusive") == [
        "nodes ready",
        "device plugin ready",
        "feature discovery ready",
    ]


def model(seen: Facts, what: str) -> Any:
    return checks(seen)["model llama2-7b", what]


def with_pod(*pods: Any) -> Facts:
    return replace(facts(), pods=[*pods, pod("mistral-7b")])


def test_a_model_without_a_pod_is_told() -> None:
    seen = with_pod()
    assert broken(seen) == ["pod ready"]
    assert model(seen, "pod ready").found == "no pod"
    assert model(seen, "on a node of its pool").held is None


def test_a_pending_pod_shows_the_schedulers_words() -> None:
    seen = with_pod(pending("llama2-7b", "0/3 nodes are available: 1 Insufficient nvidia.com/gpu."))
    assert broken(seen) == ["pod ready"]
    check = model(seen, "pod ready")
    assert "Pending, 0/3 nodes are available: 1 Insufficient nvidia.com/gpu." in check.found
    assert "Something else holds the shares" in check.fix


def test_a_restarting_pod_shows_how_often_and_its_last_words() -> None:
    seen = with_pod(restarting("llama2-7b", "llama2:7b spilled: some of its\nlayers are on the CPU."))
    check = model(seen, "pod ready")
    assert check.held is False
    assert "CrashLoopBackOff: back-off 40s" in check.found
    assert "3 restarts, the last: llama2:7b spilled: some of its layers are on the CPU." in check.found
    assert "`models[0].kv-type: q8_0`" in check.fix


def test_a_ready_pod_that_was_restarted_holds_and_still_shows_it() -> None:
    was = changed(restarting("llama2-7b", ""), "status", "conditions", to=ready()["conditions"])
    check = model(with_pod(was), "pod ready")
    assert check.held is True
    assert "3 restarts, the last: Error, exit code 1" in check.found


def test_of_an_old_and_a_new_pod_the_one_that_stays_counts() -> None:
    old = changed(pod("llama2-7b", "a-old"), "metadata", "deletionTimestamp", to="now")
    seen = with_pod(old, pending("llama2-7b", "Insufficient nvidia.com/gpu"))
    assert "Insufficient" in model(seen, "pod ready").found
    assert model(with_pod(restarting("llama2-7b", ""), pod("llama2-7b", "z")), "pod ready").held is True


def test_a_pod_elsewhere_or_without_a_share_breaks_its_promise() -> None:
    assert broken(with_pod(pod("llama2-7b", on="system-1"))) == ["on a node of its pool"]
    assert broken(with_pod(pod("llama2-7b", shares=0))) == ["holds one share"]
    assert broken(with_pod(pod("llama2-7b", shares=2))) == ["holds one share"]


def test_a_parked_stack_promises_that_nothing_runs() -> None:
    made = promise()
    parked = replace(made.models[0], running=False)
    [held] = model_checks(parked, Facts([], {}, []))
    assert (held.what, held.held) == ("parked", True)
    [running] = model_checks(parked, facts())
    assert (running.held, running.found) == (False, "llama2-7b-5d4")
    assert running.fix == "It was parked in the stack's file alone. Run `pulumi up --stack timeslice`."
    assert list(server_checks(parked, None)) == []


def test_a_parked_model_wakes_with_the_settings_of_the_file() -> None:
    parked = replace(promise().models[0], running=False)

    def compared(**changes: Any) -> tuple[bool | None, str]:
        _, check = model_checks(parked, Facts([], {}, [], [deployment(parked.id, **changes)]))
        return check.held, check.found

    assert compared()[0] is True
    assert compared(settings={"OLLAMA_CONTEXT_LENGTH": "4096"}) == (False, "context 4096, not 2048")
    assert compared(batch="1024") == (False, "batch 1024, not 512")


def test_another_batch_than_that_of_the_file_is_a_broken_promise() -> None:
    seen = replace(facts(), pods=[pod("llama2-7b", batch="1024"), pod("mistral-7b")])
    broken = [check for check in checks(seen).values() if check.held is False]
    assert [(check.about, check.what, check.found) for check in broken] == [
        ("model llama2-7b", "settings", "batch 1024, not 512")
    ]


STEPS = ("version", "held", "loaded", "answered")


def server(size: int, size_vram: int, **failed: str) -> Server:
    outcomes = {}
    for step in STEPS:
        outcomes[step] = Outcome(step not in failed, failed.get(step, "fine"))
        if step in failed:
            return Server(outcomes)
    return Server(outcomes, Memory(size=size, size_vram=size_vram, context=2048, expires=""))


def llama() -> ModelPromise:
    return promise().models[0]


def test_a_model_whole_on_the_gpu_keeps_every_promise() -> None:
    found = list(server_checks(llama(), server(5 * GIB, 5 * GIB)))
    assert [check.held for check in found] == [True] * 6
    assert (found[-2].what, found[-2].found) == ("context", "2,048 tokens")
    assert found[-1].found == "100 % of 5,120 MiB"


@pytest.mark.parametrize("step", STEPS)
def test_after_a_step_that_failed_the_later_ones_are_not_judged(step: str) -> None:
    found = list(server_checks(llama(), server(0, 0, **{step: "why not"})))
    assert [check.held for check in found[:4]] == [
        *([True] * STEPS.index(step)),
        False,
        *([None] * (3 - STEPS.index(step))),
    ]
    assert found[STEPS.index(step)].found == "why not"


def test_a_server_that_was_not_asked_is_not_judged() -> None:
    assert {check.held for check in server_checks(llama(), None)} == {None}


def test_a_spilled_model_says_how_much_and_what_would_fit() -> None:
    whole = list(server_checks(llama(), server(5 * GIB, 5 * GIB - 100 * 2**20)))[-1]
    assert whole.held is False
    assert whole.found == "98 %: 100 MiB of 5,120 MiB spilled to the CPU"
    # 1 GiB of KV cache in f16: half of it is more than what is missing; shorter contexts are offered as well.
    assert "`models[0].context: " in whole.fix
    assert "`models[0].kv-type: q8_0`" in whole.fix
    assert "g4dn.xlarge" not in whole.fix, "the type that it runs on is no way out"


def test_the_more_has_spilled_the_more_is_advised() -> None:
    def offered(missing_mib: int) -> list[str]:
        return llama().what_would_fit(missing_mib * 2**20)

    assert "`models[0].context: 1792`" in offered(100)
    assert "`models[0].context: 1024`" in offered(500)
    assert not any("context" in offer or "kv-type" in offer for offer in offered(3000)[:1])
    assert "`models[0].context: 1792`" in promise("mps").models[0].what_would_fit(100 * 2**20), (
        "of its share, not of the card"
    )
    assert any(offer.startswith("`gpu-nodes.instance-types: [g") for offer in offered(3000))


def test_a_model_on_the_cpu_alone_is_told_so() -> None:
    whole = list(server_checks(llama(), server(5 * GIB, 0)))[-1]
    assert (whole.held, whole.found) == (False, "0 %: it runs on the CPU")


def test_a_model_that_was_loaded_and_is_gone_breaks_its_promise() -> None:
    seen = server(1, 1)
    seen.memory = None
    whole = list(server_checks(llama(), seen))[-1]
    assert (whole.held, whole.found) == (False, "not loaded any more")


def deployed(**pool: Any) -> dict[str, Any]:
    """The outputs of the stack as its file says, but for some of its pool."""
    told = outputs(promise().setup)
    told["pools"]["gpu"].update(pool)
    return told


ENDPOINTS = {"llama2-7b": "http://…", "mistral-7b": "http://…"}


@pytest.mark.parametrize(
    ("outputs", "found"),
    [
        (deployed(), "it is"),
        (deployed(mode="mps", config="mps-2"), "pool gpu is deployed as mps-2, not timeslice-2"),
        (deployed(config="timeslice-4"), "pool gpu is deployed as timeslice-4, not timeslice-2"),
        (
            deployed(instance_types=["g5.xlarge"], gpu="a10g"),
            "pool gpu is deployed as timeslice-2 on a10g, not timeslice-2 on t4",
        ),
        (deployed(capacity="on-demand"), "pool gpu is deployed as timeslice-2 (on-demand), not timeslice-2 (spot)"),
        (
            deployed(provisioner="karpenter"),
            "pool gpu is deployed as timeslice-2 by karpenter, not timeslice-2 by node-group",
        ),
        ({**deployed(), "endpoints": {"llama2-7b": "x"}}, "model mistral-7b is not deployed"),
        ({**deployed(), "endpoints": {**ENDPOINTS, "phi": "x"}}, "model phi is still deployed"),
        (
            {**deployed(), "pools": {"big": deployed()["pools"]["gpu"]}},
            "pool gpu is not deployed; pool big is still deployed",
        ),
    ],
)
def test_a_file_that_was_changed_after_up_is_noticed(outputs: dict[str, Any], found: str) -> None:
    [check] = stack_checks(promise(), outputs)
    assert check.found == found
    assert check.held == (found == "it is")


def test_outputs_of_another_program_are_not_what_the_file_says() -> None:
    [check] = stack_checks(promise(), {"mode": "timeslice", "endpoints": ENDPOINTS})
    assert (check.held, "pools is missing" in check.found) == (False, True)


def test_without_pulumi_nothing_is_said_of_the_deployment() -> None:
    assert list(stack_checks(promise(), None)) == []
