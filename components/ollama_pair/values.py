"""Helm values of the Ollama chart for one model: its server, the hook that loads the model, and the sidecars."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

import pulumi

from components.containers import MODEL_USER, NOBODY, UNPRIVILEGED, requests, run_as
from components.mps_daemon import CLAIM
from components.ollama_pair.model import OllamaModel
from components.ollama_pair.placement import Nodes, Place
from components.scaling import scaling_objects
from sharing import versions
from sharing.fit import host
from sharing.models.catalogue import MIB
from sharing.models.ollama import ALL_LAYERS, server_environment
from sharing.models.served import ServedModel
from sharing.modes.base import PER_MODEL
from sharing.modes.mps_clients import PIPE_DIRECTORY, client_environment
from sharing.names import (
    METRICS_ANNOTATIONS,
    METRICS_PORT,
    METRICS_PORT_NAME,
    MPS_DAEMON_LABEL,
    OLLAMA_PORT,
    POOL_LABEL,
    tolerations,
)
from sharing.sections.pools import POD_CPU_MILLIS

MODELS_DIRECTORY = "/root/.ollama/models"
"""Directory in which the server keeps models. The disk is mounted here, so `OLLAMA_MODELS` keeps its default."""
KERNELS_DIRECTORY = f"{MODELS_DIRECTORY}/cuda"
"""The driver's cache of compiled kernels, which outlives the container beside the model files (docs/decisions/0158).
Ollama reads only `blobs` and `manifests` there (v0.32.15 manifest/paths.go)."""
WATCH_FOLDER = "/watch"
"""Folder that the server's container shares with the sidecar. `model_start.sh` uses the same path."""
SCRIPT_FOLDER = "/script"
SIDECAR_CPU_MILLIS = 10
"""CPU request of a sidecar, part of `POD_CPU_MILLIS`."""
LOCAL_SERVER = f"http://127.0.0.1:{OLLAMA_PORT}"
HOME_WEIGHT = 100
"""Weight of a model's own pool. Those of other pools are so small that no other score of the scheduler hides it."""
STOP_SECONDS = 30
"""Time for running requests to finish. It must be less than the two minutes' notice of a spot interruption."""


def chart_values(
    model: OllamaModel,
    place: Place,
    claim: pulumi.Input[str],
    scripts: Mapping[str, pulumi.Input[str]],
    namespace: pulumi.Input[str],
    priority_class: pulumi.Input[str] | None,
    daemon: pulumi.Input[str] | None,
) -> dict[str, Any]:
    """Helm values for one model. The chart has no schema and ignores a misspelt path, so a test checks every path.

    `scripts` names the ConfigMaps of the sidecars `watch` and, with metrics, `metrics`. `daemon` names the claim on the
    directory of the node's MPS daemon, for a model with limits of its own.
    """
    served = model.served
    environment = {**server_environment(served), "CUDA_CACHE_PATH": KERNELS_DIRECTORY}
    if place.needs_mps_daemon:
        environment["TANDEM_MPS"] = "required"
    if place.share and place.share.memory_mib:
        environment |= {**client_environment(place.share.memory_mib, place.share.threads), "TANDEM_MPS": "node"}
    sidecars = [watch_container(served)]
    annotations = {}
    if "metrics" in scripts:
        # llama-server inherits it (ollama v0.32.15 llm/llama_server.go, SetupLlamaServerCommandEnv).
        environment["LLAMA_ARG_ENDPOINT_METRICS"] = "1"
        sidecars.append(metrics_container(served))
        annotations = {"podAnnotations": METRICS_ANNOTATIONS}
    return {
        "fullnameOverride": served.id,
        # Every upgrade sets the number again. KEDA raises it for a request, but never restores a pod that stops idle.
        "replicaCount": 1 if model.running and model.scaling is None else 0,
        "image": {"tag": versions.OLLAMA_IMAGE_TAG},
        "ollama": {
            "port": OLLAMA_PORT,
            "gpu": {
                "enabled": True,
                "type": "nvidia",
                "number": 1,
                "nvidiaResource": model.resource_name or place.resource,
            },
        },
        "resources": resources(model, place, len(sidecars)),
        **choose_nodes(model, place),
        "extraEnv": [{"name": key, "value": value} for key, value in environment.items()],
        "lifecycle": {"postStart": {"exec": {"command": start_command(served)}}},
        "initContainers": sidecars,
        **annotations,
        **_files(model, claim, scripts, daemon if place.share else None),
        "service": {"type": "ClusterIP", "port": OLLAMA_PORT},
        "readinessProbe": {"initialDelaySeconds": 1, "periodSeconds": 2},
        "serviceAccount": {"create": True, "automount": False},
        "podSecurityContext": run_as(MODEL_USER),
        # The root file system stays writable, because NVIDIA's runtime adds the driver to ld.so.cache.
        "securityContext": UNPRIVILEGED,
        "terminationGracePeriodSeconds": STOP_SECONDS,
        "tests": {"enabled": False},
        # A rolling update would wait for the share that the old pod holds.
        "updateStrategy": {"type": "Recreate"},
        **({} if priority_class is None else {"priorityClassName": priority_class}),
        **_scaled(model, namespace),
    }


def _scaled(model: OllamaModel, namespace: pulumi.Input[str]) -> dict[str, Any]:
    """In the release itself: a separate ScaledObject would outlive the upgrade that sets one pod again, and KEDA would
    undo it.
    """
    if model.scaling is None or not model.running:
        return {}
    return {"extraObjects": scaling_objects(model.served.id, namespace, model.scaling)}


def choose_nodes(model: OllamaModel, place: Place) -> dict[str, Any]:
    """The nodes that a model may run on, and those that it prefers.

    Without other pools this is a nodeSelector, as ever: other values would restart models that run.
    """
    ready = {**place.home.ready_labels, **({MPS_DAEMON_LABEL: PER_MODEL} if place.share else {})}
    home = place.home.pool
    pools = [replace(place.home, ready_labels=ready), *place.spill]
    affinity: dict[str, Any] = {}
    if place.spill:
        terms = [_term({POOL_LABEL: pool.pool, **pool.ready_labels}) for pool in pools]
        # The scheduler compares weights with the highest one, and Karpenter tries the highest first.
        weights = [HOME_WEIGHT, *range(len(place.spill), 0, -1)]
        preferred = [
            {"weight": weight, "preference": _term({POOL_LABEL: pool.pool})}
            for weight, pool in zip(weights, pools, strict=True)
        ]
        affinity["nodeAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        }
    if model.packed:
        beside = {"labelSelector": {"matchLabels": {POOL_LABEL: home}}, "topologyKey": "kubernetes.io/hostname"}
        affinity["podAffinity"] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": beside}]
        }
    return {
        "nodeSelector": {} if place.spill else {POOL_LABEL: home, **ready},
        "tolerations": _tolerations(pools),
        **({"affinity": affinity} if affinity else {}),
        **({"podLabels": {POOL_LABEL: home}} if model.packed else {}),
    }


def _term(labels: Mapping[str, str]) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]}


def _tolerations(pools: Sequence[Nodes]) -> list[dict[str, Any]]:
    taints = [pool.mode_taint for pool in pools]
    if any(taint is None for taint in taints):
        return tolerations(None)
    first, *others = taints
    return [*tolerations(first), *(tolerations(taint)[1] for taint in others)]


def resources(model: OllamaModel, place: Place, sidecars: int) -> dict[str, Any]:
    """CPU and memory of the server's container, next to this number of sidecars.

    The request covers the memory that the server keeps. The limit adds the page cache, which the kernel reclaims before
    it kills a process.
    """
    kept = host.host_need(model.served).total - host.SIDECAR_MIB
    weights = -(-model.served.model.file_bytes // MIB)
    page_cache = weights if place.page_cache_mib is None else min(weights, place.page_cache_mib)
    return {
        "requests": {"cpu": f"{POD_CPU_MILLIS - sidecars * SIDECAR_CPU_MILLIS}m", "memory": f"{kept}Mi"},
        "limits": {"memory": f"{kept + page_cache}Mi"},
    }


def start_command(served: ServedModel) -> list[str]:
    """The container's postStart hook: `model_start.sh` with the model's tag, layers and batch size."""
    return [
        "/bin/sh",
        "-c",
        start_script(),
        "model_start",
        served.model.name,
        ALL_LAYERS,
        str(served.effective_batch),
    ]


def start_script() -> str:
    """Text of `model_start.sh`, the hook that loads the model."""
    return script("model_start.sh")


def watch_container(served: ServedModel) -> dict[str, Any]:
    """The sidecar that watches the model. Its readiness is part of the pod's readiness."""
    settings = {
        "MODEL": served.model.name,
        "CONTEXT": str(served.effective_context),
        "SERVER": LOCAL_SERVER,
        "DIRECTORY": WATCH_FOLDER,
        "PERIOD_SECONDS": "30",
        "RETRY_SECONDS": "10",
        # Long enough to load a model over a slow connection. To wait for a busy server does no harm.
        "LOAD_SECONDS": "900",
        "TOKEN_SECONDS": "20",
        # A chat that pauses for less keeps its prompt in the cache.
        "IDLE_SECONDS": "300",
    }
    return {
        **_sidecar("model-watch", "model_watch", settings, host.SIDECAR_MIB),
        "readinessProbe": {"exec": {"command": ["test", "-e", f"{WATCH_FOLDER}/ready"]}, "periodSeconds": 2},
        "volumeMounts": [
            {"name": "watch", "mountPath": WATCH_FOLDER},
            {"name": "watch-script", "mountPath": SCRIPT_FOLDER, "readOnly": True},
        ],
    }


def metrics_container(served: ServedModel) -> dict[str, Any]:
    """The sidecar that serves the model's metrics. It has no probe, so its failure does not stop the model."""
    settings = {
        "ID": served.id,
        "MODEL": served.model.name,
        "SERVER": LOCAL_SERVER,
        "PORT": str(METRICS_PORT),
        "READY": f"{WATCH_FOLDER}/ready",
    }
    return {
        **_sidecar(METRICS_PORT_NAME, "model_metrics", settings, host.METRICS_MIB),
        "ports": [{"name": METRICS_PORT_NAME, "containerPort": METRICS_PORT}],
        "volumeMounts": [
            {"name": "watch", "mountPath": WATCH_FOLDER, "readOnly": True},
            {"name": "metrics-script", "mountPath": SCRIPT_FOLDER, "readOnly": True},
        ],
    }


def _sidecar(name: str, module: str, settings: Mapping[str, str], memory_mib: int) -> dict[str, Any]:
    """An init container that keeps running: the chart supports no other extra containers."""
    # The variable stops NVIDIA's runtime from giving this container a GPU.
    environment = {**settings, "NVIDIA_VISIBLE_DEVICES": "void"}
    return {
        "name": name,
        "image": versions.PROBER_IMAGE,
        "restartPolicy": "Always",
        "command": ["python", "-u", "-B", "-m", module],
        "workingDir": SCRIPT_FOLDER,
        "env": [{"name": key, "value": value} for key, value in environment.items()],
        "resources": requests(SIDECAR_CPU_MILLIS, memory_mib),
        "securityContext": {
            "runAsUser": NOBODY,
            "runAsGroup": NOBODY,
            "runAsNonRoot": True,
            "readOnlyRootFilesystem": True,
            **UNPRIVILEGED,
        },
    }


@cache
def script(name: str) -> str:
    """Text of a script, e.g. `model_watch.py`."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def digest(text: str) -> str:
    """Eight characters that change with the text."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _files(
    model: OllamaModel,
    claim: pulumi.Input[str],
    scripts: Mapping[str, pulumi.Input[str]],
    daemon: pulumi.Input[str] | None,
) -> dict[str, Any]:
    """The pod's volumes, and where the server's container mounts them."""
    volumes: list[dict[str, Any]] = [
        {"name": "watch", "emptyDir": {}},
        *(_script_volume(sidecar, config_map) for sidecar, config_map in scripts.items()),
    ]
    mounts = [{"name": "watch", "mountPath": WATCH_FOLDER}]
    if daemon is not None:
        volumes.append({"name": CLAIM, "persistentVolumeClaim": {"claimName": daemon}})
        mounts.append({"name": CLAIM, "mountPath": PIPE_DIRECTORY})
    if model.cache == "volume":
        disk = {"persistentVolume": {"enabled": True, "existingClaim": claim}}
        return {**disk, "volumes": volumes, "volumeMounts": mounts}
    return {
        "volumes": [{"name": "models", "persistentVolumeClaim": {"claimName": claim}}, *volumes],
        "volumeMounts": [{"name": "models", "mountPath": MODELS_DIRECTORY}, *mounts],
    }


def _script_volume(sidecar: str, config_map: pulumi.Input[str]) -> dict[str, Any]:
    file = f"model_{sidecar}.py"
    return {"name": f"{sidecar}-script", "configMap": {"name": config_map, "items": [{"key": file, "path": file}]}}
