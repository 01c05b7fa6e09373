"""Every fix by the breakage that it is for: what Kubernetes shows then, and what repairs it.

Messages of the scheduler: kubernetes v1.36 pkg/scheduler/framework/plugins (tainttoleration, nodeunschedulable,
noderesources, volumebinding) and types.go, FitError. Of kubelet: pkg/kubelet/images/types.go.
"""

from dataclasses import replace
from typing import Any

import pytest

from tandem.deployed.objects import Facts
from tandem.deployed.ollama import Memory
from tandem.verify.checks import Check, server_checks
from tandem.verify.servers import Outcome, Server
from tests.tandem.seen import NODE, changed, checks, daemon_set, facts, node, pending, pod, promise, ready, restarting

CAPACITY = "No spot capacity, no quota"


def first(seen: Facts, stack: str = "timeslice") -> Check:
    return next(check for check in checks(seen, stack).values() if check.held is False)


def test_a_node_that_lost_its_label_gets_it_back() -> None:
    bare = node()
    del bare["metadata"]["labels"]["tandem/pool"]
    check = first(replace(facts(), nodes=[bare]))
    assert check.what == "nodes ready"
    assert f"Run `kubectl label --overwrite node {NODE} tandem/pool=gpu`." in check.fix
    assert CAPACITY not in check.fix


def test_a_node_that_is_not_ready_is_looked_at() -> None:
    sick = node()
    why = "Kubelet stopped posting node status."
    sick["status"]["conditions"] = [{"type": "Ready", "status": "Unknown", "message": why}]
    check = first(replace(facts(), nodes=[sick]))
    assert f"(Kubelet stopped posting node status). Run `kubectl describe node {NODE}`" in check.fix
    assert CAPACITY not in check.fix


def test_a_node_that_is_being_deleted_is_waited_for() -> None:
    check = first(replace(facts(), nodes=[changed(node(), "metadata", "deletionTimestamp", to="now")]))
    assert f"{NODE} is being deleted" in check.fix
    assert "--wait" in check.fix


def test_only_a_pool_without_any_node_is_out_of_capacity() -> None:
    assert CAPACITY in first(replace(facts(), nodes=[])).fix
    coming = first(replace(facts(), nodes=[]), "karpenter").fix
    assert "`kubectl describe nodepool gpu`" in coming
    assert "EKS console" not in coming


def test_a_cluster_without_anything_of_the_stack_is_another_cluster() -> None:
    check = first(Facts([], {}, []))
    assert check.fix == (
        "Nothing of stack timeslice is in this cluster. Choose another --context, or run `pulumi up --stack timeslice`."
    )


def test_nodes_of_another_mode_come_before_all_that_follows_from_it() -> None:
    labels = {"nvidia.com/gpu.sharing-strategy": "mps"}
    release = "nvidia-device-plugin-gpu"
    daemons = [daemon_set(f"{release}-mps-control-daemon", desired=0, ready=0), *facts().daemon_sets[release[:20]]]
    seen = replace(facts(), nodes=[node(labels=labels, mode="timeslice-2")], daemon_sets={release[:20]: daemons})
    check = first(seen, "mps")
    assert (check.what, check.promised, check.found) == ("mode", "mps-2", f"timeslice-2 on {NODE}")
    assert "Run `pulumi up --stack mps`" in check.fix


def test_a_node_without_the_taint_is_not_judged_by_it() -> None:
    untainted = node()
    del untainted["spec"]
    assert checks(replace(facts(), nodes=[untainted]))["pool gpu", "mode"].held is None


def test_a_missing_daemon_set_is_deployed_again() -> None:
    check = first(replace(facts(), daemon_sets={}))
    assert check.fix == (
        "nvidia-device-plugin has no DaemonSet nvidia-device-plugin-gpu. Run `pulumi up --stack timeslice`."
    )


def test_a_daemon_set_that_fits_no_node_says_which_label_is_missing() -> None:
    release = "nvidia-device-plugin-gpu"
    found = [daemon_set(release, desired=0, ready=0), daemon_set(f"{release}-gpu-feature-discovery")]
    check = first(replace(facts(), daemon_sets={"nvidia-device-plugin": found}))
    assert "label tandem/pool" in check.fix
    assert "--show-labels" in check.fix
    found[0] = daemon_set(release, desired=1, ready=0)
    assert "describe pods" in first(replace(facts(), daemon_sets={"nvidia-device-plugin": found})).fix


def deployment(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "llama2-7b", "namespace": "ollama"}, "spec": spec, "status": {}}


def without_pod(*deployments: Any) -> Check:
    return first(replace(facts(), pods=[pod("mistral-7b")], deployments=list(deployments)))


def test_a_model_whose_release_is_not_there_is_deployed_again() -> None:
    check = without_pod()
    assert check.fix == "Namespace ollama has no release of it. Run `pulumi up --stack timeslice`."


def test_a_model_that_is_scaled_away_is_scaled_back() -> None:
    assert without_pod(deployment(replicas=0)).fix == (
        "Its Deployment is scaled to 0. Run `kubectl -n ollama scale deployment/llama2-7b --replicas=1`."
    )


def test_a_model_whose_pod_is_refused_shows_why() -> None:
    refused = deployment(replicas=1)
    why = 'pods "llama2-7b-x" is forbidden: exceeded quota: small'
    refused["status"]["conditions"] = [{"type": "ReplicaFailure", "status": "True", "message": why}]
    check = without_pod(refused)
    assert check.found == f"no pod: {why}"
    assert "Run `kubectl -n ollama describe deployment/llama2-7b`." in check.fix


def waiting(message: str, *nodes: Any) -> str:
    return first(replace(facts(), nodes=list(nodes or [node()]), pods=[pending("llama2-7b", message)])).fix


OTHERS = "2 node(s) didn't match Pod's node affinity/selector"


def test_a_half_done_switch_is_ended() -> None:
    """The message does not say which taint: the pod's toleration and the node's taint do."""
    message = f"0/3 nodes are available: 1 node(s) had untolerated taint(s), {OTHERS}."
    waits = pending("llama2-7b", message)
    waits["spec"]["tolerations"] = [
        {"key": "nvidia.com/gpu", "operator": "Exists"},
        {"key": "tandem/mode", "operator": "Equal", "value": "timeslice-2-ffffffff"},
    ]
    fix = first(replace(facts(), pods=[waits])).fix
    assert fix == "Its node serves another mode: a switch is half done. Run `pulumi up --stack timeslice`."
    waits["spec"]["tolerations"][1]["value"] = "timeslice-2-1a2b3c4d"
    fix = first(replace(facts(), pods=[waits])).fix
    assert fix == f"A taint of its node keeps it away. Run `kubectl describe node {NODE}`."


def test_a_cordoned_node_is_uncordoned() -> None:
    cordoned = changed(node(), "spec", "unschedulable", to=True)
    fix = waiting(f"0/3 nodes are available: 1 node(s) were unschedulable, {OTHERS}.", cordoned)
    assert fix == f"Its node is cordoned. Run `kubectl uncordon {NODE}`."


def test_shares_ram_and_volumes_that_are_not_there_are_told_apart() -> None:
    assert "holds the shares" in waiting(f"0/3 nodes are available: 1 Insufficient nvidia.com/gpu, {OTHERS}.")
    assert "RAM or CPU" in waiting(f"0/3 nodes are available: 1 Insufficient memory, {OTHERS}.")
    assert "another zone" in waiting("0/3 nodes are available: 3 node(s) had volume node affinity conflict.")
    assert waiting("0/3 nodes are available: 3 Too many pods.") == "Run `kubectl -n ollama describe pod llama2-7b-5d4`."


def holding(reason: str, message: str, *, sidecar: bool = False) -> str:
    made = pod("llama2-7b")
    ours = [{"restartCount": 0, "state": {"waiting": {"reason": reason, "message": message}}}]
    later = [{"restartCount": 0, "state": {"waiting": {"reason": "PodInitializing"}}}]
    made["status"] = {**ready(False), "phase": "Pending", "containerStatuses": later if sidecar else ours}
    if sidecar:
        made["status"]["initContainerStatuses"] = ours
    check = first(replace(facts(), pods=[made, pod("mistral-7b")]))
    assert reason in check.found
    return check.fix


@pytest.mark.parametrize("sidecar", [False, True])
def test_an_image_that_cannot_be_pulled_is_no_model_that_is_being_pulled(sidecar: bool) -> None:
    """The sidecar's image comes from Docker Hub as well, and holds up the server."""
    limit = "failed to pull and unpack image: 429 Too Many Requests - toomanyrequests: You have reached your limit"
    assert "100 pulls per address in six hours" in holding("ErrImagePull", limit, sidecar=sidecar)
    assert "--wait" not in holding("ImagePullBackOff", limit, sidecar=sidecar)
    other = holding("ImagePullBackOff", 'Back-off pulling image "x": not found', sidecar=sidecar)
    assert "Check its name, and the node's way out to the internet" in other


def test_a_pod_that_starts_is_waited_for() -> None:
    assert "Run it again with --wait" in holding("ContainerCreating", "")


def test_a_container_that_ends_is_explained_by_its_last_words() -> None:
    def said(message: str) -> str:
        return first(replace(facts(), pods=[restarting("llama2-7b", message), pod("mistral-7b")])).fix

    assert "less memory for it than planned" in said("llama2:7b did not load: cudaMalloc failed: out of memory")
    assert "cannot pull llama2:7b from the registry of Ollama" in said(
        "cannot pull llama2:7b and it is not on the disk"
    )
    assert said("") == "Its container ends again and again. Run `kubectl -n ollama logs deployment/llama2-7b`."


def asked(step: str, text: str) -> str:
    steps = ("version", "held", "loaded", "answered")
    outcomes = {one: Outcome(True, "fine") for one in steps[: steps.index(step)]}
    seen = Server({**outcomes, step: Outcome(False, text)})
    return next(check.fix for check in server_checks(promise().models[0], seen) if check.held is False)


def test_a_user_who_may_not_forward_ports_is_told_what_to_ask_for() -> None:
    fix = asked("version", "the cluster refuses to forward a port to llama2-7b-5d4 (403)")
    assert "Ask for `get` and `create` on pods/portforward in namespace ollama" in fix
    assert "logs" not in fix
    assert "TCP 10250" in asked("version", "the cluster refuses to forward a port to llama2-7b-5d4 (502)")


def test_a_server_that_fails_is_explained_by_its_log_or_its_pull() -> None:
    assert "rollout restart deployment/llama2-7b" in asked("held", "it has phi:2")
    assert "Something else is on the GPU" in asked("loaded", "500: cudaMalloc failed: out of memory")
    assert "logs deployment/llama2-7b" in asked("answered", "an answer without a word")


def with_settings(**settings: str) -> Facts:
    return replace(facts(), pods=[pod("llama2-7b", settings=settings), pod("mistral-7b")])


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("OLLAMA_CONTEXT_LENGTH", "1024", "context 1024, not 2048"),
        ("OLLAMA_NUM_PARALLEL", "4", "slots 4, not 1"),
        ("OLLAMA_KV_CACHE_TYPE", "q8_0", "KV type q8_0, not f16"),
        ("LLAMA_ARG_CACHE_RAM", "8192", "prompt cache (MiB) 8192, not 512"),
        ("LLAMA_ARG_CACHE_RAM", "", "prompt cache (MiB) not set, not 512"),
        ("OLLAMA_FLASH_ATTENTION", "0", "OLLAMA_FLASH_ATTENTION 0, not 1"),
    ],
)
def test_a_server_that_was_deployed_with_other_settings_breaks_its_promise(name: str, value: str, found: str) -> None:
    check = first(with_settings(**{name: value}))
    assert (check.about, check.what, check.found) == ("model llama2-7b", "settings", found)
    assert "Run `pulumi up --stack timeslice`." in check.fix
    assert "rollout undo deployment/llama2-7b" in check.fix


def test_settings_come_before_what_follows_from_them() -> None:
    spilled = restarting("llama2-7b", "llama2:7b spilled")
    spilled["spec"] = pod("llama2-7b", settings={"OLLAMA_CONTEXT_LENGTH": "32768"})["spec"]
    seen = replace(facts(), pods=[spilled, pod("mistral-7b")])
    assert [what for (_, what), check in checks(seen).items() if check.held is False] == ["settings", "pod ready"]


def test_a_context_that_the_server_has_not_breaks_its_promise() -> None:
    steps = ("version", "held", "loaded", "answered")
    seen = Server({one: Outcome(True, "fine") for one in steps}, Memory(size=5, size_vram=5, context=1024, expires=""))
    [check] = [check for check in server_checks(promise().models[0], seen) if check.held is False]
    assert (check.what, check.promised, check.found) == ("context", "2,048 tokens", "1,024 tokens")
    assert "ollama show llama2:7b --parameters" in check.fix
