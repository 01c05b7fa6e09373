"""Disruptions of a proof's pods on a GPU node: the MIG manager's reboot, and the compute mode after MPS."""

from typing import Any

import pytest

from components.device_plugin_sharing import operator_chart
from components.share_proof.expectation import expectations
from components.share_proof.jobs import ShareProofArgs, node_job, shares_job
from sandbox.world import tokens
from sharing.hardware.gpus import gpus
from sharing.modes.modes import Mig
from tests.sandbox.mode_pieces import MPS, PROOF, TURNS, WHOLE, Switching, job, prepare_proof, shares_spec
from tests.sandbox.world_pieces import TAINT, Account, refused

A100 = gpus()["a100-40gb"]
SLICES = Mig()
IGNORED = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}


@pytest.fixture
def cut() -> Account:
    """A node with eight A100 GPUs that the MIG manager has not partitioned yet."""
    account = Account()
    account.cluster()
    account.nodes()
    account.discovery()
    account.release("gpu-operator", "gpu-operator", **operator_chart.values([(SLICES, A100)]))
    mode = {"key": "tandem/mode", "value": SLICES.config_name, "effect": "NO_EXECUTE"}
    labels = {"tandem/pool": "gpu", "nvidia.com/gpu.present": "true", **SLICES.node_labels(A100)}
    account.gpu_nodes(instanceTypes=["p4d.24xlarge"], labels=labels, taints=[TAINT, mode])
    prepare_proof(account)
    return account


def specs() -> dict[str, dict[str, Any]]:
    """Specs of the proof's two Jobs for that node."""
    args = ShareProofArgs(sharing=SLICES, gpu=A100, gpus_per_node=8, namespace=PROOF)
    expected = expectations(SLICES, A100, 8)
    return {
        "node": node_job(expected, args, "scripts", "node-prober"),
        "shares": shares_job(expected[0], args, "shares-job", "shares", "shares", "scripts", "share-prober"),
    }


def unprepared(spec: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """A Job that neither waits for the slices nor survives a reboot, except for `changed`."""
    plain = job(spec)
    plain["spec"].pop("podFailurePolicy", None)
    plain["spec"]["template"]["spec"]["nodeSelector"] = {"tandem/pool": "gpu"}
    plain["spec"] |= changed
    return plain


@pytest.mark.real_world(
    behaviour="The MIG manager reboots a node whose GPUs change their MIG mode only at a reset, and its pods fail",
    source="mig-parted v0.15.0 pkg/mig/reconfigure/reconfigure.go; kubernetes v1.36 nodeshutdown_manager.go",
)
def test_a_job_on_a_node_that_is_being_partitioned_fails_once(cut: Account) -> None:
    given = unprepared(specs()["node"])
    with refused("BackoffLimitExceeded", "imminent node shutdown"):
        cut.make(tokens.JOB, **given)
    cut.drop(tokens.JOB, f"{PROOF}/job")
    cut.make(tokens.JOB, **given)


def test_a_job_that_ignores_disruptions_survives_the_reboot(cut: Account) -> None:
    cut.make(tokens.JOB, **unprepared(specs()["node"], podFailurePolicy=IGNORED))


def test_pods_that_wait_for_the_slices_start_after_the_reboot(cut: Account) -> None:
    given = unprepared(specs()["node"])
    given["spec"]["template"]["spec"]["nodeSelector"] |= {"nvidia.com/mig.config.state": "success"}
    cut.make(tokens.JOB, **given)


@pytest.mark.parametrize("role", ["node", "shares"])
def test_the_proof_waits_for_the_slices_and_would_survive_a_reboot(cut: Account, role: str) -> None:
    given = job(specs()[role])
    assert given["spec"]["podFailurePolicy"] == IGNORED
    assert given["spec"]["template"]["spec"]["nodeSelector"]["nvidia.com/mig.config.state"] == "success"
    cut.make(tokens.JOB, **given)


@pytest.mark.real_world(
    behaviour="After MPS a GPU stays in EXCLUSIVE_PROCESS mode until the pod of the MPS daemon has ended",
    source="k8s-device-plugin v0.20.0 cmd/mps-control-daemon/mps/daemon.go, Stop",
)
@pytest.mark.parametrize("now", [TURNS, WHOLE], ids=["timeslice", "exclusive"])
def test_a_process_that_does_not_retry_fails_right_after_mps(now: Any) -> None:
    given = job(shares_spec(now))
    [container] = given["spec"]["template"]["spec"]["containers"]
    container["env"] = [one for one in container["env"] if one["name"] != "EXCLUSIVE_SECONDS"]
    Switching(now).make(tokens.JOB, **given)
    account = Switching(MPS)
    account.switch(now)
    with refused("BackoffLimitExceeded", "EXCLUSIVE_PROCESS"):
        account.make(tokens.JOB, **given)
    account.drop(tokens.JOB, f"{PROOF}/job")
    account.make(tokens.JOB, **given)


@pytest.mark.parametrize("now", [TURNS, WHOLE], ids=["timeslice", "exclusive"])
def test_the_proof_outlasts_the_end_of_the_mps_daemon(now: Any) -> None:
    account = Switching(MPS)
    account.switch(now)
    account.make(tokens.JOB, **job(shares_spec(now)))


@pytest.mark.real_world(
    behaviour="Feature discovery labels a node without MPS `nvidia.com/mps.capable=false`",
    source="k8s-device-plugin v0.20.0 internal/lm/nvml.go, newSharingLabeler",
)
def test_a_label_of_the_node_shows_whether_it_uses_mps() -> None:
    account = Switching(MPS)
    given = job(shares_spec(MPS))
    given["spec"]["template"]["spec"]["nodeSelector"] |= {"nvidia.com/mps.capable": "true"}
    account.make(tokens.JOB, **given)
    account.switch(TURNS)
    with refused("DeadlineExceeded", "node affinity/selector"):
        account.make(tokens.JOB, "late", **job(given["spec"], "late"))
