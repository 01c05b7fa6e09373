"""Jobs: the nodes of their pods, the findings of a proof, and the remains of a failed Job."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from sandbox.world import IncompleteError, tokens
from sharing.modes.modes import Sharing
from tests.sandbox.mode_pieces import MODES, MPS, PROOF, TURNS, WHOLE, Switching, job, node_spec, prove, shares_spec
from tests.sandbox.world_pieces import Account, meta, refused

Spec = dict[str, Any]
READY, WAIT_FOR = "pulumi.com/replaceUnready", "pulumi.com/waitFor"


@pytest.fixture
def account() -> Switching:
    """One GPU node with two shares by time-slicing."""
    return Switching()


def status(account: Account, identity: str) -> dict[str, Any]:
    found: dict[str, Any] = account.outputs(tokens.JOB, identity)["status"]
    return found


# The nodes of a Job's pods.


@pytest.mark.parametrize("sharing", MODES, ids=lambda mode: mode.config_name)
def test_a_proof_completes_on_a_node_of_its_mode_and_then_uses_no_resources(sharing: Sharing) -> None:
    account = Switching(sharing)
    for name in prove(account, sharing):
        assert [one["type"] for one in status(account, name)["conditions"]] == ["Complete"]
    assert status(account, f"{PROOF}/node-{sharing.config_name}")["succeeded"] == 1, "by default, a Job has one pod"
    shares = 1 if sharing is WHOLE else 2
    assert status(account, f"{PROOF}/shares-{sharing.config_name}")["succeeded"] == shares
    for index in range(shares):
        account.serve(f"m{index}", sharing)
    with refused("Timeout", "Insufficient"):
        account.serve("more", sharing)


def test_a_job_whose_pods_find_no_node_fails_at_its_deadline_and_stays(account: Switching) -> None:
    held = account.serve("m", TURNS)
    with refused("DeadlineExceeded", r"pod job-0 is Pending: .*1 Insufficient nvidia.com/gpu"):
        account.make(tokens.JOB, **job(shares_spec(TURNS)))
    with pytest.raises(IncompleteError):
        account.make(tokens.JOB, **job(shares_spec(TURNS), "other"))
    assert [one.id for one in account.of(tokens.JOB)] == [f"{PROOF}/job", f"{PROOF}/other"]
    account.drop(tokens.RELEASE, held)
    assert status(account, f"{PROOF}/job")["conditions"][0]["reason"] == "DeadlineExceeded", "it does not start again"
    account.drop(tokens.JOB, f"{PROOF}/job")
    account.make(tokens.JOB, **job(shares_spec(TURNS)))


def test_pods_that_only_run_together_need_all_their_shares_on_one_node() -> None:
    account = Switching(TURNS, count=2)
    alone = node_spec(TURNS)
    for name in ("a", "b", "c"):
        account.serve(name, TURNS)
    # Two on the first node, one on the second.
    account.drop(tokens.RELEASE, "default/a")
    with refused("DeadlineExceeded", "2 Insufficient"):
        account.make(tokens.JOB, **job(shares_spec(TURNS), "together"))
    apart = shares_spec(TURNS)
    del apart["template"]["spec"]["affinity"]
    account.make(tokens.JOB, **job(apart, "apart"))
    account.make(tokens.JOB, **job(alone, "asks-for-none"))
    account.drop(tokens.RELEASE, "default/c")
    account.make(tokens.JOB, **job(shares_spec(TURNS), "together-again"))


def of_type(kind: str) -> Spec:
    chosen = {"matchExpressions": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [kind]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [chosen]}}}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"nodeSelector": {"tandem/pool": "other"}}, "node affinity/selector"),
        ({"affinity": of_type("g6.xlarge")}, "node affinity/selector"),
        ({"tolerations": []}, "untolerated taint {nvidia.com/gpu: present}"),
        ({"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}, "untolerated taint {tandem/mode"),
    ],
)
def test_a_job_respects_selector_affinity_and_taints(account: Switching, change: Spec, words: str) -> None:
    spec = node_spec(TURNS)
    spec["template"]["spec"]["affinity"] = of_type("g4dn.xlarge")
    account.make(tokens.JOB, **job(spec, "as-it-should-be"))
    spec["template"]["spec"] |= change
    with refused("DeadlineExceeded", words):
        account.make(tokens.JOB, **job(spec))


@pytest.mark.parametrize(
    ("token", "name", "words"),
    [(tokens.SERVICE_ACCOUNT, "node-prober", "service account"), (tokens.CONFIG_MAP, "scripts", "configmap")],
)
def test_pods_of_a_job_need_their_account_and_their_mounts(
    account: Switching, token: str, name: str, words: str
) -> None:
    account.drop(token, f"{PROOF}/{name}")
    with refused("DeadlineExceeded", f'{words}.*"{name}" not found'):
        account.make(tokens.JOB, **job(node_spec(TURNS)))
    account.make(token, name, metadata=meta(name, namespace=PROOF))
    account.make(tokens.JOB, **job(node_spec(TURNS), "later"))


# Findings.


def with_plugin(change: Callable[[dict[str, Any]], object]) -> Callable[[Switching], object]:
    def apply(account: Switching) -> None:
        release = "kube-system/plugin"
        values = json.loads(json.dumps(account.outputs(tokens.RELEASE, release)["values"]))
        change(values)
        account.change(tokens.RELEASE, release, values=values)

    return apply


def changed_(replicas: int) -> Callable[[Switching], object]:
    config = {"sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": replicas}]}}}
    return with_plugin(lambda values: values["config"]["map"].update({TURNS.config_name: json.dumps(config)}))


WRONG: dict[str, tuple[Callable[[Switching], object], str]] = {
    "fewer shares": (changed_(1), "it advertises 1 nvidia.com/gpu, expected 2"),
    "more shares": (changed_(3), "it advertises 3 nvidia.com/gpu, expected 2"),
    "another mode": (
        with_plugin(
            lambda values: values["config"]["map"].update({TURNS.config_name: json.dumps(MPS.plugin_config())})
        ),
        "its label nvidia.com/gpu.sharing-strategy is mps, expected time-slicing",
    ),
    "no feature discovery": (
        with_plugin(lambda values: values.update(gfd={"enabled": False})),
        "its label nvidia.com/gpu.replicas is missing, expected 2",
    ),
    "no plugin": (
        lambda account: account.drop(tokens.RELEASE, "kube-system/plugin"),
        "it advertises no nvidia.com/gpu",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_the_report_on_a_node_has_expectation_and_finding(account: Switching, case: str) -> None:
    account.make(tokens.JOB, **job(node_spec(TURNS), "before"))
    change, words = WRONG[case]
    change(account)
    shown = "expected: 2 shares of nvidia.com/gpu on a node with 1 T4"
    with refused("BackoffLimitExceeded", f"{shown}.*{words}"):
        account.make(tokens.JOB, **job(node_spec(TURNS)))
    assert status(account, f"{PROOF}/job")["conditions"][0]["reason"] == "BackoffLimitExceeded"


@pytest.mark.parametrize(
    ("change", "words"),
    [(changed_(3), "advertises 3 nvidia.com/gpu, expected 2"), (None, "more than the .* MiB")],
)
def test_pods_on_shares_find_their_number_and_whether_they_are_enforced(
    account: Switching, change: Callable[[Switching], object] | None, words: str
) -> None:
    account.make(tokens.JOB, **job(shares_spec(TURNS), "before"))
    wanted: Sharing = MPS
    if change:
        change(account)
        wanted = TURNS
    # For a mode that the node does not have, but with a toleration for the node's mode.
    spec = shares_spec(wanted, [TURNS])
    spec["template"]["spec"]["nodeSelector"] = {"tandem/pool": "gpu"}
    with refused("BackoffLimitExceeded", words):
        account.make(tokens.JOB, **job(spec))


# Failed and completed Jobs.


def test_a_job_that_failed_is_replaced_by_the_next_update_and_one_that_completed_is_not(account: Switching) -> None:
    account.serve("m", TURNS)
    given = job(shares_spec(TURNS), **{READY: "true"})
    with refused("DeadlineExceeded"):
        account.make(tokens.JOB, **given)
    found = account.world.diff(tokens.JOB, given, given)
    assert found.replaces
    assert found.delete_before_replace
    assert account.world.diff(tokens.JOB, given, job(shares_spec(TURNS))).replaces == (), "no update requests it"
    account.drop(tokens.JOB, f"{PROOF}/job")
    assert account.world.diff(tokens.JOB, given, given).replaces == ()
    account.drop(tokens.RELEASE, "default/m")
    account.make(tokens.JOB, **given)
    assert (
        account.world.diff(tokens.JOB, given, given).replaces,
        account.world.diff(tokens.JOB, given, given).changed,
    ) == ((), ())


def test_an_update_of_a_job_that_failed_fails_and_one_that_completed_is_only_changed(account: Switching) -> None:
    account.make(tokens.JOB, **job(shares_spec(TURNS), "good"))
    account.serve("m", TURNS)
    with refused("DeadlineExceeded"):
        account.make(tokens.JOB, **job(shares_spec(TURNS), "bad"))
    account.drop(tokens.RELEASE, "default/m")
    labels = {"a": "b"}
    account.change(tokens.JOB, f"{PROOF}/good", metadata=meta("good", namespace=PROOF, labels=labels))
    with pytest.raises(IncompleteError, match=r"JobFailed.*DeadlineExceeded"):
        account.change(tokens.JOB, f"{PROOF}/bad", metadata=meta("bad", namespace=PROOF, labels=labels))
    for name in ("good", "bad"):
        outputs = account.outputs(tokens.JOB, f"{PROOF}/{name}")
        assert outputs["metadata"]["labels"] == labels
        assert outputs["status"]["conditions"][0]["type"] == ("Complete" if name == "good" else "Failed")


# Jobs for which Pulumi does not wait.

EXISTS = {WAIT_FOR: "jsonpath={.metadata.uid}"}


def test_pulumi_neither_waits_for_a_job_with_another_condition_nor_sees_that_it_has_failed(account: Switching) -> None:
    account.make(tokens.JOB, **job(shares_spec(TURNS), "free", **EXISTS))
    assert status(account, f"{PROOF}/free")["succeeded"] == 2
    wrong = shares_spec(MPS, [TURNS])
    wrong["template"]["spec"]["nodeSelector"] = {"tandem/pool": "gpu"}
    account.make(tokens.JOB, **job(wrong, "bad", **EXISTS))
    assert status(account, f"{PROOF}/bad")["conditions"][0]["reason"] == "BackoffLimitExceeded"
    account.change(tokens.JOB, f"{PROOF}/bad", metadata=meta("bad", namespace=PROOF, annotations={**EXISTS, "a": "b"}))
    account.serve("m", TURNS)
    account.make(tokens.JOB, **job(shares_spec(TURNS), "waits", **EXISTS))
    assert status(account, f"{PROOF}/waits") == {"active": 2}
