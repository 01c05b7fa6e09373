"""The values of Ollama's chart for one model: its pod with the server, the start of its model, and the sidecar."""

import hashlib
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, Literal

import pulumi

from components.arguments import check_arguments, check_least
from components.containers import MODEL_USER, NOBODY, UNPRIVILEGED, run_as
from sharing import host, versions
from sharing.models import MIB, PROMPT_CACHE_MIB, KvType, Model, Served, find_model
from sharing.modes import GPU_RESOURCE
from sharing.names import OLLAMA_PORT, POOL_LABEL, model_id, tolerations
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


@dataclass(frozen=True)
class OllamaModel:
    """One model of the pair, e.g. `OllamaModel("llama2:7b", context=2048)`.

    Raises `ValueError` for a value that no field takes, a model that the catalogue lacks, a volume without a zone, and
    a volume that is smaller than the model.
    """

    model: Model | str
    """Its tag, e.g. `llama2:7b`, or a `Model` that the catalogue lacks."""
    _: KW_ONLY
    id: str | None = None
    """Name of its release and Service; made of the tag when absent, e.g. `llama2-7b`."""
    context: int = 4096
    """Tokens per request."""
    slots: int = 1
    """Requests at a time; each has its own KV cache."""
    kv_type: KvType | Literal["f16", "q8_0", "q4_0"] = KvType.F16
    """How the KV cache is stored."""
    batch: int | None = None
    """Tokens per step; Ollama's choice when absent."""
    prompt_cache_mib: int = PROMPT_CACHE_MIB
    """RAM for earlier prompts; 0 for none."""
    cache: Cache = "node"
    """Model files in a directory of the node's disk, or on an EBS volume of their own."""
    volume_gib: int | None = None
    """Size of that volume; made of the model's size when absent."""
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
    values: Mapping[str, Any] = field(default_factory=dict)
    """More values for the chart, merged last."""

    def __post_init__(self) -> None:
        check_arguments(self)
        check_least(self, context=1, slots=1, prompt_cache_mib=0)
        model = self.served.model
        if self.cache == "volume" and self.zone is None:
            raise ValueError(f'{model.name} with cache="volume" needs the zone of its nodes. Pass `zone`.')
        if self.volume_gib is not None and self.volume_gib * 2**30 < model.file_bytes:
            found = f"its volume_gib is {self.volume_gib}"
            raise ValueError(f"{model.name} does not fit its volume ({found}). Pass {model.volume_gib}, or nothing.")

    @cached_property
    def served(self) -> Served:
        """The model with its settings, as the rules know it."""
        model = find_model(self.model)
        return Served(
            id=self.id or model_id(model.name),
            model=model,
            context=self.context,
            slots=self.slots,
            kv_type=KvType(self.kv_type),
            prompt_cache_mib=self.prompt_cache_mib,
            num_batch=self.batch or 0,
        )


def chart_values(model: OllamaModel, claim: pulumi.Input[str], script: pulumi.Input[str]) -> dict[str, Any]:
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
