"""A stack that meets every expectation, as Kubernetes shows it. Tests change single parts."""

import copy
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from sharing.sections.config import SECTIONS
from stacks.stack_file.judge import Plan, judge, judge_file
from stacks.stack_file.yaml import read
from tandem.deployed.objects import Facts
from tandem.verify.checks import Check, model_checks, pool_checks

ROOT = Path(__file__).resolve().parents[2]
NODE = "ip-10-0-1-2"


@cache
def planned(stack: str = "timeslice") -> Plan:
    return judge_file(ROOT / f"Pulumi.{stack}.yaml").plan()


def ready(is_ready: bool = True) -> dict[str, Any]:
    return {"conditions": [{"type": "Ready", "status": str(is_ready)}]}


@cache
def limited() -> Plan:
    """The stack `mps` with limits per model: 8 GiB and 60 % of the threads, and 6 GiB."""
    source = read(ROOT / "Pulumi.mps.yaml", SECTIONS)
    shares = ({"memory-gib": 8, "compute-percent": 60}, {"memory-gib": 6})
    models = [{**model, "share": share} for model, share in zip(source.sections["models"], shares, strict=True)]
    own = {"sharing": {"mode": "mps", "limits": "per-model"}, "models": models}
    return judge(replace(source, sections={**source.sections, **own}), "Pulumi.mps.yaml").plan()


def node(
    name: str = NODE, *, shares: int = 2, labels: Mapping[str, str] | None = None, mode: str = "timeslice-2"
) -> dict[str, Any]:
    own = {
        "tandem/pool": "gpu",
        "node.kubernetes.io/instance-type": "g4dn.xlarge",
        "nvidia.com/gpu.deploy.operands": "false",
        "nvidia.com/gpu.sharing-strategy": "time-slicing",
        "nvidia.com/gpu.replicas": "2",
        "nvidia.com/mps.capable": "false",
        "kubernetes.io/hostname": name,
        **(labels or {}),
    }
    return {
        "metadata": {"name": name, "labels": own},
        "spec": {"taints": [{"key": "tandem/mode", "value": f"{mode}-1a2b3c4d", "effect": "NoExecute"}]},
        "status": {**ready(), "allocatable": {"cpu": "4", "nvidia.com/gpu": str(shares)}},
    }


SETTINGS = {
    "OLLAMA_CONTEXT_LENGTH": "2048",
    "OLLAMA_NUM_PARALLEL": "1",
    "OLLAMA_MAX_LOADED_MODELS": "1",
    "OLLAMA_KEEP_ALIVE": "-1",
    "OLLAMA_FLASH_ATTENTION": "1",
    "OLLAMA_KV_CACHE_TYPE": "f16",
    "LLAMA_ARG_CACHE_RAM": "0",
    "LLAMA_ARG_CACHE_IDLE_SLOTS": "0",
}
"""As `environment variables` of ollama v0.32.15 (envconfig/config.go) and llama-server (--cache-ram) for the stack."""


BATCH = "512"
"""Ollama's own for a context of up to 4,096 (v0.32.15, api/types.go, DefaultOptions; server/sched.go)."""


def pod(
    model: str,
    name: str = "",
    *,
    on: str = NODE,
    shares: int = 1,
    settings: Mapping[str, str] | None = None,
    batch: str = BATCH,
) -> dict[str, Any]:
    environment = [{"name": key, "value": value} for key, value in {**SETTINGS, **(settings or {})}.items()]
    limits = {"memory": "6Gi", **({"nvidia.com/gpu": str(shares)} if shares else {})}
    return {
        "metadata": {
            "name": name or f"{model}-5d4",
            "namespace": "ollama",
            "labels": {"app.kubernetes.io/instance": model},
        },
        "spec": {
            "nodeName": on,
            "containers": [
                {
                    "name": "ollama",
                    "resources": {"limits": limits},
                    "env": environment,
                    "lifecycle": {
                        "postStart": {"exec": {"command": ["/bin/sh", "-c", "…", "model_start", "…", batch]}}
                    },
                }
            ],
        },
        "status": {
            **ready(),
            "phase": "Running",
            "containerStatuses": [{"restartCount": 0, "state": {"running": {"startedAt": "2026-11-26T10:00:00Z"}}}],
        },
    }


def deployment(model: str, **changes: Any) -> dict[str, Any]:
    """The Deployment of a parked model."""
    return {"metadata": {"name": model}, "spec": {"replicas": 0, "template": {"spec": pod(model, **changes)["spec"]}}}


def daemon_set(name: str, *, desired: int = 1, ready: int = 1) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"desiredNumberScheduled": desired, "numberReady": ready}}


def facts() -> Facts:
    """The facts of a healthy stack `timeslice`."""
    release = "nvidia-device-plugin-gpu"
    daemon_sets = [daemon_set(release), daemon_set(f"{release}-gpu-feature-discovery")]
    return Facts([node()], {"nvidia-device-plugin": daemon_sets}, [pod("llama2-7b"), pod("mistral-7b")])


def pending(model: str, message: str) -> dict[str, Any]:
    made = pod(model)
    del made["spec"]["nodeName"]
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    made["status"] = {"phase": "Pending", "conditions": [refused]}
    return made


def restarting(model: str, message: str) -> dict[str, Any]:
    made = pod(model)
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "message": message}}
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}}
    made["status"] = {
        **ready(False),
        "phase": "Running",
        "containerStatuses": [{"restartCount": 3, "state": waiting, "lastState": ended}],
    }
    return made


def under_mps(daemon: str = "09:00", server: str = "10:00", *, message: str = "", **pod_changes: Any) -> Facts:
    """The stack `mps` with a daemon and servers since these times; empty: it does not run. `message` ended one earlier.

    Names of containers and owner: k8s-device-plugin v0.20.0, templates/daemonset-mps-control-daemon.yml.
    """

    def since(name: str, time: str) -> dict[str, Any]:
        ran = (
            {"running": {"startedAt": f"2026-11-26T{time}:00Z"}} if time else {"waiting": {"reason": "PodInitializing"}}
        )
        ended = {"terminated": {"exitCode": 1, "message": message}} if message and name == "ollama" else {}
        return {"name": name, "restartCount": 1 if ended else 0, "state": ran, "lastState": ended}

    release = "nvidia-device-plugin-gpu"
    labels = {"nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/mps.capable": "true"}
    running = pod("daemon", "mps-x1")
    owners = [{"name": f"{release}-mps-control-daemon"}]
    running["metadata"] |= {"namespace": "nvidia-device-plugin", "ownerReferences": owners, **pod_changes}
    running["status"]["containerStatuses"] = [
        since("mps-control-daemon-ctr", daemon),
        since("mps-control-daemon-sidecar", "08:00"),
    ]
    models = [pod(model) for model in ("llama2-7b", "mistral-7b")]
    for model in models:
        model["status"] = {**ready(bool(server)), "phase": "Running", "containerStatuses": [since("ollama", server)]}
    daemons = [daemon_set(f"{release}{part}") for part in ("", "-gpu-feature-discovery", "-mps-control-daemon")]
    return Facts([node(mode="mps-2", labels=labels)], {"nvidia-device-plugin": daemons}, models, mps_pods=[running])


LIMITS = {
    "CUDA_MPS_PIPE_DIRECTORY": "/run/tandem-mps",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=8192M",
    "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "60",
}
"""Of the first model of `limited`. Form: amazon-ecs-agent, ecs-agent/utils/mps/mps.go."""


def under_limits(
    settings: Mapping[str, str] = LIMITS,
    mounted: str = "/run/tandem-mps",
    label: str = "per-model",
    first: dict[str, Any] | None = None,
) -> Facts:
    """The stack `limited`, with these variables and this directory in the pod of its first model."""
    own = node(mode="mps-2-per-model", labels={"tandem/mps": label})
    model = pod("llama2-7b", settings=settings)
    model["status"] = (first or model)["status"]
    model["spec"]["containers"][0]["volumeMounts"] = [{"mountPath": "/root/.ollama/models"}, {"mountPath": mounted}]
    daemon_sets = facts().daemon_sets
    return Facts([own], daemon_sets, [model, pod("mistral-7b")])


def changed(entity: dict[str, Any], *path: str, to: object) -> dict[str, Any]:
    """A copy with one value changed."""
    made = copy.deepcopy(entity)
    place = made
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = to
    return made


def checks(seen: Facts, stack: str = "timeslice") -> dict[tuple[str, str], Check]:
    """The checks of what Kubernetes shows of a stack."""
    plan = planned(stack)
    found = [check for pool in plan.config.pools for check in pool_checks(plan, pool, plan.config.nodes_of(pool), seen)]
    found += [check for fit in plan.verdict.fits for check in model_checks(plan, fit, seen)]
    return {(check.about, check.what): check for check in found}
