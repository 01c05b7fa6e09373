"""OpenWebUI: a web page to chat with the models, and to ask about documents, on nodes without a GPU.

Accounts, chats and documents are on an EBS volume. Without one, they are lost with the pod (docs/decisions/0192).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pulumi
import pulumi_kubernetes as k8s
import pulumi_random as random

from components.arguments import Given, Options, check_arguments, check_least, check_tags, read_arguments
from components.containers import NOBODY, UNPRIVILEGED, create_namespace, requests, run_as
from components.disks import claim_volume, ebs_volume
from components.network_policies import ModelClients, network_policy, to_page
from sharing import versions
from sharing.aws.tags import VOLUME
from sharing.names import TOKEN, UI_LABELS, UI_NAMESPACE, UI_PORT
from sharing.section import is_email
from sharing.sections.ui import LARGEST_GIB

SERVICE = "open-webui"
DATA = "/app/backend/data"
"""Folder of the database, uploads and caches: `DATA_DIR` of the image."""
DATA_GIB = 2
"""Limit of that folder without a volume."""
NOMINAL_SIZE = "1Gi"
"""Size in the claim on the volume. A claim cannot grow without a StorageClass, and Pulumi would replace it while the
pod holds it. Kubernetes enforces no size: the file system is as large as the EBS volume."""
ON_VOLUME = "accounts-and-documents"
"""Part of the volume's name, so that the preview of `pulumi destroy` says what is lost."""
SIZE_ANNOTATION = "tandem/storage-gib"
"""On the pod, so that it restarts when the volume grows. The CSI driver enlarges the file system when it mounts it
(aws-ebs-csi-driver pkg/driver/node.go, NodeStageVolume)."""
API = "/api"
"""Below it are `/models` and `/chat/completions`, as in OpenAI's API (Open WebUI 0.11.4, open_webui/main.py)."""
SECRET_LENGTH = 32
"""Characters; bcrypt takes 72 bytes (Open WebUI 0.11.4 open_webui/utils/auth.py, `validate_password`)."""
CPU_MILLIS, MEMORY_MIB = 100, 1536
"""Requests of the pod, and its limit of memory. It took 1,153 MiB after a start, and 1,283 MiB with two documents of
0.8 MB (docs/decisions/0192)."""
PROBE_SECONDS, START_PROBES = 5, 60
"""The first start migrates a database, and imports take most of a minute."""

# Read in open_webui/env.py and open_webui/config.py of version 0.11.4.
SETTINGS = {
    # Otherwise, only administrators would see the models.
    "BYPASS_MODEL_ACCESS_CONTROL": "true",
    # Otherwise, the page offers tools in every request, and Ollama refuses it for models without them, like llama2:7b.
    "DEFAULT_MODEL_PARAMS": '{"function_calling": "legacy"}',
    # Programs send a key instead of a password. It is valid for the list of models and for chats alone.
    "ENABLE_API_KEYS": "true",
    "USER_PERMISSIONS_FEATURES_API_KEYS": "true",
    "ENABLE_API_KEYS_ENDPOINT_RESTRICTIONS": "true",
    "API_KEYS_ALLOWED_ENDPOINTS": f"{API}/models,{API}/chat/completions",
    # Otherwise, the first start would copy most settings into its database and ignore later ones.
    "ENABLE_PERSISTENT_CONFIG": "false",
    "ENABLE_SIGNUP": "false",
    # On by default, with api.openai.com as its address.
    "ENABLE_OPENAI_API": "false",
    # No check for updates, and no downloads from Hugging Face.
    "OFFLINE_MODE": "true",
    "ENABLE_VERSION_UPDATE_CHECK": "false",
    "ENABLE_COMMUNITY_SHARING": "false",
    "ANONYMIZED_TELEMETRY": "false",
    "DO_NOT_TRACK": "true",
    "SCARF_NO_ANALYTICS": "true",
    # Otherwise, the page would load an embedding model of its own, which it downloads first.
    "RAG_EMBEDDING_ENGINE": "ollama",
    # A list entry that picks one of the models at random.
    "ENABLE_EVALUATION_ARENA_MODELS": "false",
    # The image's own folders belong to root.
    "DATA_DIR": DATA,
    "STATIC_DIR": f"{DATA}/static",
    "HOME": DATA,
}
"""Environment of the container, without addresses and secrets."""
WITHOUT_EMBEDDING = {"BYPASS_EMBEDDING_AND_RETRIEVAL": "true"}
"""Documents go into the prompt as they are."""
CHUNK_CHARACTERS, CHUNK_OVERLAP = 1000, 100
"""Defaults of Open WebUI 0.11.4 (config.py, CHUNK_SIZE and CHUNK_OVERLAP)."""
EMBEDDING_BATCH = 16
"""Passages in one request. By default, the page sends each passage alone, and all at once, and Ollama refuses what
does not fit its queue of 512 (config.py, RAG_EMBEDDING_BATCH_SIZE and RAG_EMBEDDING_CONCURRENT_REQUESTS; ollama
v0.32.15 envconfig/config.go, OLLAMA_MAX_QUEUE)."""


@check_arguments
@dataclass(frozen=True, kw_only=True)
class OpenWebUIArgs:
    """Inputs of OpenWebUI.

    Raises `ValueError` for a value of the wrong type, no URLs, an address that is not one, a size that EBS does not
    offer, and half of the settings for a volume or for embeddings.
    """

    model_urls: Sequence[pulumi.Input[str]]
    """URLs of the Ollama servers to chat with, e.g. `["http://llama2-7b.ollama:11434"]`. Their network policy must let
    the pods in.
    """
    admin_email: pulumi.Input[str]
    """E-mail address of the first administrator. Nothing is sent to it. It is a secret in Pulumi's state."""
    namespace: str = UI_NAMESPACE
    """Namespace of its own, created by this component."""
    clients: ModelClients = field(default_factory=ModelClients)
    """Pods that can send requests to the page's API; none by default."""
    storage_gib: int = 0
    """GiB of an EBS volume for accounts, chats and documents, e.g. 4. Without it, they are lost with the pod. It needs
    the EBS CSI driver, can grow, and is deleted with the component.
    """
    zone: pulumi.Input[str] | None = None
    """Zone of the volume, in which a node without taints must run. Required with `storage_gib`."""
    embedding_url: pulumi.Input[str] | None = None
    """URL of the Ollama server with the embedding model, for documents. Without it, documents go into the prompt as
    they are.
    """
    embedding_model: str | None = None
    """The embedding model's name, e.g. `nomic-embed-text`. Required with `embedding_url`."""
    chunk_characters: int = CHUNK_CHARACTERS
    """Length of the passages into which documents are divided. It must fit the embedding model's context."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """AWS tags of the volume."""

    def __post_init__(self) -> None:
        check_tags(self, VOLUME)
        check_least(self, storage_gib=0, chunk_characters=CHUNK_OVERLAP + 1)
        if self.storage_gib > LARGEST_GIB:
            raise ValueError(f"OpenWebUIArgs.storage_gib is {self.storage_gib}. Pass {LARGEST_GIB} or less.")
        if self.storage_gib and self.zone is None:
            raise ValueError("OpenWebUIArgs.zone is missing, but a volume needs it. Pass the zone of a node.")
        if (self.embedding_url is None) != (self.embedding_model is None):
            missing = "embedding_model" if self.embedding_model is None else "embedding_url"
            raise ValueError(f"OpenWebUIArgs.{missing} is missing. Pass the embedding model's name and its URL.")
        if not self.model_urls:
            raise ValueError("OpenWebUIArgs.model_urls must have at least one URL. Pass those of `OllamaPair.urls`.")
        if isinstance(self.admin_email, str) and not is_email(self.admin_email):
            # The message leaves the address out: it is personal data, and messages end up in logs.
            raise ValueError("OpenWebUIArgs.admin_email is not an e-mail address. Pass ops@example.com, for example.")


class OpenWebUI(pulumi.ComponentResource):
    """A chat page in the browser for Ollama servers, and one OpenAI-compatible API for all of them.

    Only `kubectl port-forward` and `clients` reach it.

    Sign-up is closed, and the first administrator has a generated password. With `storage_gib`, accounts, chats and
    documents are on an EBS volume; without it, they are lost with the pod. With `embedding_url`, the page searches
    documents for the passages that fit a question.

    ```python
    from tandem import OpenWebUI, OpenWebUIArgs

    ui = OpenWebUI("ui", OpenWebUIArgs(model_urls=["http://llama2-7b.ollama:11434"], admin_email="ops@example.com"))
    ```
    """

    url: pulumi.Output[str]
    """In-cluster URL, e.g. `http://open-webui.open-webui:8080`."""
    openai_url: pulumi.Output[str]
    """In-cluster base URL for clients of OpenAI's API, e.g. `http://open-webui.open-webui:8080/api`. It has all models.
    Each user creates a key in the page."""
    admin_password: pulumi.Output[str]
    """Secret: password of the first administrator."""
    volume_id: pulumi.Output[str | None]
    """ID of the EBS volume, e.g. for `aws ec2 create-snapshot`. None without `storage_gib`."""

    def __init__(self, name: str, args: Given[OpenWebUIArgs] = None, opts: Options = None, **more: Any) -> None:
        args = read_arguments(OpenWebUIArgs, args, more)
        super().__init__(TOKEN.format("OpenWebUI"), name, None, opts)
        self._name, self._child = name, pulumi.ResourceOptions(parent=self)
        namespace = create_namespace(f"{name}-namespace", args.namespace, "restricted", self._child)
        # Without it, the page accepts requests from the entire cluster, so it must exist before the page.
        policy = network_policy(f"{name}-incoming", namespace, to_page(args.clients), self._child)
        password = self._generate("admin-password")
        credentials = self._credentials(namespace, args.admin_email, password)
        urls = pulumi.Output.all(*args.model_urls).apply(";".join)
        claim = self._claim(args, namespace)
        server = k8s.apps.v1.Deployment(
            f"{name}-server",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=SERVICE, namespace=namespace, labels=UI_LABELS),
            spec=cast(Any, deployment_spec(args, urls, credentials, claim)),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[policy]),
        )
        service = k8s.core.v1.Service(
            f"{name}-service",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=SERVICE, namespace=namespace),
            # One number for both ports: policies of vpc-cni need it (components/network_policies.py).
            spec=k8s.core.v1.ServiceSpecArgs(
                type="ClusterIP",
                selector=UI_LABELS,
                ports=[k8s.core.v1.ServicePortArgs(name="http", port=UI_PORT, target_port=UI_PORT)],
            ),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[server]),
        )
        self.url = service.id.apply(lambda _: f"http://{SERVICE}.{args.namespace}:{UI_PORT}")
        self.openai_url = pulumi.Output.concat(self.url, API)
        self.admin_password = password
        self.register_outputs(
            {
                "url": self.url,
                "openaiUrl": self.openai_url,
                "adminPassword": self.admin_password,
                "volumeId": self.volume_id,
            }
        )

    def _claim(self, args: OpenWebUIArgs, namespace: pulumi.Input[str]) -> pulumi.Input[str] | None:
        """The name of a claim on the volume; None without one."""
        self.volume_id = pulumi.Output.from_input(None)
        if not args.storage_gib:
            return None
        source = ebs_volume(f"{self._name}-{ON_VOLUME}", args.zone, args.storage_gib, args.tags, self._child)
        self.volume_id = pulumi.Output.from_input(source["csi"].volume_handle)
        return claim_volume(self._name, "data", namespace, NOMINAL_SIZE, source, self._child)

    def _generate(self, part: str) -> pulumi.Output[str]:
        """A random secret that stays the same. Letters and digits alone, so that any shell takes it."""
        kept = random.RandomPassword(f"{self._name}-{part}", length=SECRET_LENGTH, special=False, opts=self._child)
        return pulumi.Output.secret(kept.result)

    def _credentials(
        self, namespace: pulumi.Input[str], email: pulumi.Input[str], password: pulumi.Input[str]
    ) -> pulumi.Output[str]:
        """The name of the Secret with the secret settings. A change gives it another name, and the pod restarts."""
        # Without a fixed key, every new pod would log everybody out (open-webui/open-webui#5131).
        values = {
            "WEBUI_SECRET_KEY": self._generate("key"),
            "WEBUI_ADMIN_EMAIL": pulumi.Output.secret(email),
            "WEBUI_ADMIN_PASSWORD": password,
        }
        made = k8s.core.v1.Secret(
            f"{self._name}-credentials",
            metadata=k8s.meta.v1.ObjectMetaArgs(namespace=namespace),
            string_data=pulumi.Output.secret(values),
            opts=self._child,
        )
        name: pulumi.Output[str] = made.metadata.name
        return name


def environment(args: OpenWebUIArgs, urls: pulumi.Input[str]) -> dict[str, pulumi.Input[str]]:
    """The settings of the container, without secrets."""
    if args.embedding_url is None or args.embedding_model is None:
        return {"OLLAMA_BASE_URLS": urls, **SETTINGS, **WITHOUT_EMBEDDING}
    return {
        "OLLAMA_BASE_URLS": urls,
        **SETTINGS,
        # Its server is not one of those to chat with, so nobody can choose it there.
        "RAG_OLLAMA_BASE_URL": args.embedding_url,
        "RAG_EMBEDDING_MODEL": args.embedding_model,
        "RAG_EMBEDDING_BATCH_SIZE": str(EMBEDDING_BATCH),
        "RAG_EMBEDDING_CONCURRENT_REQUESTS": "1",
        "CHUNK_SIZE": str(args.chunk_characters),
        "CHUNK_OVERLAP": str(CHUNK_OVERLAP),
    }


def deployment_spec(
    args: OpenWebUIArgs, urls: pulumi.Input[str], credentials: pulumi.Input[str], claim: pulumi.Input[str] | None
) -> dict[str, Any]:
    """Spec of the Deployment. Its pod tolerates no taint, so it runs on nodes without a GPU.

    `claim` is the name of a claim on the volume. Its PersistentVolume keeps the pod in the volume's zone.
    """
    health = {"httpGet": {"path": "/health", "port": UI_PORT}, "periodSeconds": PROBE_SECONDS}
    container = {
        "name": SERVICE,
        "image": versions.OPEN_WEBUI_IMAGE,
        "env": [{"name": name, "value": value} for name, value in environment(args, urls).items()],
        "envFrom": [{"secretRef": {"name": credentials}}],
        "ports": [{"name": "http", "containerPort": UI_PORT}],
        "resources": requests(CPU_MILLIS, MEMORY_MIB),
        "securityContext": UNPRIVILEGED,
        "startupProbe": {**health, "failureThreshold": START_PROBES},
        "readinessProbe": health,
        "livenessProbe": {**health, "timeoutSeconds": PROBE_SECONDS, "failureThreshold": 6},
        "volumeMounts": [{"name": "data", "mountPath": DATA}],
    }
    folder: dict[str, Any] = {"emptyDir": {"sizeLimit": f"{DATA_GIB}Gi"}}
    metadata: dict[str, Any] = {"labels": UI_LABELS}
    if claim is not None:
        folder = {"persistentVolumeClaim": {"claimName": claim}}
        metadata["annotations"] = {SIZE_ANNOTATION: str(args.storage_gib)}
    pod = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {**run_as(NOBODY), "fsGroup": NOBODY},
        "containers": [container],
        "volumes": [{"name": "data", **folder}],
    }
    return {
        "replicas": 1,
        # Two pods at once would need twice the memory, and write to one database, or each have its own accounts.
        "strategy": {"type": "Recreate"},
        "selector": {"matchLabels": UI_LABELS},
        "template": {"metadata": metadata, "spec": pod},
    }
