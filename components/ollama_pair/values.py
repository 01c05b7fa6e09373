"""The values of Ollama's chart for one model: its pod with the server, the start of its model, and the sidecar."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import pulumi

from components.containers import MODEL_USER, NOBODY, UNPRIVILEGED, run_as
from sharing import host, versions
from sharing.models import MIB, Served
from sharing.modes import GPU_RESOURCE
from sharing.names import OLLAMA_PORT, POOL_LABEL, tolerations
from sharing.ollama import ALL_LAYERS, server_environment
from sharing.setup import POD_CPU_MILLIS, Cache

MODELS_DIRECTORY = "/root/.ollama/models"
"""Where the server keeps models. `OLLAMA_MODELS` stays as it is: the mount goes over the directory instead."""
WATCH_FOLDER = "/watch"
"""Shared by the server's container and the sidecar that watches the model; `model_start.sh` knows it, too."""
SCRIPT_FOLDER = "/script"
WATCH_CPU_MILLIS = 10
"""What the sidecar requests of what is planned for a model's pod."""
STOP_SECONDS = 30
"""Requests under way may end; less than a spot node's two minutes."""


@dataclass(frozen=True, kw_only=True)
class OllamaModel:
    """One model of the pair."""

    served: Served
    """Model, id and settings."""
    cache: Cache = "node"
    """Model files in a directory of the node's disk, or on an EBS volume of their own."""
    volume_gib: int = 0
    """Size of that volume."""
    pool: str = "gpu"
    """Value of the node label `tandem/pool` of the nodes to run on."""
    ready_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that its node gets once its shares are there, where it must not run before."""
    mode_taint: pulumi.Input[str] | None = None
    """Value of the taint `tandem/mode` that its pod tolerates, any when absent: nodes that get another evict it."""
    resource_name: str = GPU_RESOURCE
    """What those nodes offer, and its pod requests one of."""
    page_cache_mib: int | None = None
    """RAM for the page cache, through which the weights are loaded; room for all of them when absent."""
    running: bool = True
    """False parks the model: release and volume stay, no pod runs."""
    zone: pulumi.Input[str] | None = None
    """Zone of its volume, which must be that of the nodes; needed with `cache="volume"`."""


def values(model: OllamaModel, claim: pulumi.Input[str], script: pulumi.Input[str]) -> dict[str, Any]:
    """Values of the chart for one model. It has no schema: a misspelt path does nothing, so a test knows them all."""
    served = model.served
    return {
        "fullnameOverride": served.id,
        "replicaCount": 1 if model.running else 0,
        "image": {"tag": versions.OLLAMA_IMAGE_TAG},
        "ollama": {
            "port": OLLAMA_PORT,
            "gpu": {"enabled": True, "type": "nvidia", "number": 1, "nvidiaResource": model.resource_name},
        },
        "resources": resources(model),
        "nodeSelector": {POOL_LABEL: model.pool, **model.ready_labels},
        "tolerations": tolerations(model.mode_taint),
        "extraEnv": [{"name": key, "value": value} for key, value in server_environment(served).items()],
        "lifecycle": {"postStart": {"exec": {"command": start_command(served)}}},
        "initContainers": [watch_container(served)],
        **_files(model, claim, script),
        "service": {"type": "ClusterIP", "port": OLLAMA_PORT},
        "readinessProbe": {"initialDelaySeconds": 1, "periodSeconds": 2},
        "serviceAccount": {"create": True, "automount": False},
        "podSecurityContext": run_as(MODEL_USER),
        # The root of the file system stays writable: NVIDIA's runtime puts the driver into ld.so.cache.
        "securityContext": UNPRIVILEGED,
        "terminationGracePeriodSeconds": STOP_SECONDS,
        "tests": {"enabled": False},
        # A rolling update would wait for a share that the old pod holds.
        "updateStrategy": {"type": "Recreate"},
    }


def resources(model: OllamaModel) -> dict[str, Any]:
    """Of the server's container. It requests what it keeps; the limit leaves room for the page cache, which the kernel
    takes back before it kills anything.
    """
    kept = host.host_need(model.served).total - host.SIDECAR_MIB
    weights = -(-model.served.model.file_bytes // MIB)
    page_cache = weights if model.page_cache_mib is None else min(weights, model.page_cache_mib)
    return {
        "requests": {"cpu": f"{POD_CPU_MILLIS - WATCH_CPU_MILLIS}m", "memory": f"{kept}Mi"},
        "limits": {"memory": f"{kept + page_cache}Mi"},
    }


def start_command(served: Served) -> list[str]:
    """What the container runs once it has started: `model_start.sh` with the model's tag, layers and batch."""
    return ["/bin/sh", "-c", start_script(), "model_start", served.model.name, str(ALL_LAYERS), str(served.batch)]


@cache
def start_script() -> str:
    """The hook that loads the model, as it is shipped."""
    return files(__package__).joinpath("model_start.sh").read_text(encoding="utf-8")


def watch_container(served: Served) -> dict[str, Any]:
    """The native sidecar: its readiness counts for the pod, and the chart has no place for other containers."""
    settings = {
        "MODEL": served.model.name,
        "CONTEXT": str(served.effective_context),
        "SERVER": f"http://127.0.0.1:{OLLAMA_PORT}",
        "DIRECTORY": WATCH_FOLDER,
        "PERIOD_SECONDS": "30",
        "RETRY_SECONDS": "10",
        # As long as a load over a slow line; a busy server keeps it waiting, which harms nobody.
        "LOAD_SECONDS": "900",
        "TOKEN_SECONDS": "20",
        # A chat that pauses for less finds its prompt in the cache.
        "IDLE_SECONDS": "300",
        # NVIDIA's runtime gives this container no GPU.
        "NVIDIA_VISIBLE_DEVICES": "void",
    }
    memory = {"memory": f"{host.SIDECAR_MIB}Mi"}
    return {
        "name": "model-watch",
        "image": versions.PROBER_IMAGE,
        "restartPolicy": "Always",
        "command": ["python", "-u", "-B", "-m", "model_watch"],
        "workingDir": SCRIPT_FOLDER,
        "env": [{"name": name, "value": value} for name, value in settings.items()],
        "resources": {"requests": {"cpu": f"{WATCH_CPU_MILLIS}m", **memory}, "limits": memory},
        "readinessProbe": {"exec": {"command": ["test", "-e", f"{WATCH_FOLDER}/ready"]}, "periodSeconds": 2},
        "securityContext": {
            "runAsUser": NOBODY,
            "runAsGroup": NOBODY,
            "runAsNonRoot": True,
            "readOnlyRootFilesystem": True,
            **UNPRIVILEGED,
        },
        "volumeMounts": [
            {"name": "watch", "mountPath": WATCH_FOLDER},
            {"name": "watch-script", "mountPath": SCRIPT_FOLDER, "readOnly": True},
        ],
    }


@cache
def watch_script() -> str:
    """The sidecar's script as it is shipped."""
    return files(__package__).joinpath("model_watch.py").read_text(encoding="utf-8")


def digest(text: str) -> str:
    """Eight characters that change with the text."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _files(model: OllamaModel, claim: pulumi.Input[str], script: pulumi.Input[str]) -> dict[str, Any]:
    """The volumes of the pod, and where the server has them."""
    items = [{"key": "model_watch.py", "path": "model_watch.py"}]
    volumes: list[dict[str, Any]] = [
        {"name": "watch", "emptyDir": {}},
        {"name": "watch-script", "configMap": {"name": script, "items": items}},
    ]
    mounts = [{"name": "watch", "mountPath": WATCH_FOLDER}]
    if model.cache == "volume":
        disk = {"persistentVolume": {"enabled": True, "existingClaim": claim}}
        return {**disk, "volumes": volumes, "volumeMounts": mounts}
    return {
        "volumes": [{"name": "models", "persistentVolumeClaim": {"claimName": claim}}, *volumes],
        "volumeMounts": [{"name": "models", "mountPath": MODELS_DIRECTORY}, *mounts],
    }
