"""OllamaPair: an Ollama server for each of two or more models, each on its own share of a GPU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_kubernetes as k8s

from components.arguments import check_arguments
from components.charts import merge_values
from components.containers import create_namespace
from components.mps_daemon import claim_directory
from components.network_policies import ModelClients, network_policy, to_models
from components.ollama_pair.model import OllamaModel, SpillPool
from components.ollama_pair.model_files import claim_disk
from components.ollama_pair.values import chart_values, digest, script
from sharing import versions
from sharing.aws.tags import VOLUME
from sharing.models.importance import NORMAL, PRIORITIES, priority_class, used
from sharing.names import OLLAMA_NAMESPACE, OLLAMA_PORT, TOKEN

__all__ = ["ModelClients", "OllamaModel", "OllamaPair", "OllamaPairArgs", "SpillPool"]

RELEASE_SECONDS = 2700
"""Time to download image and model over a slow connection. A model that cannot load logs why much earlier."""


@dataclass(frozen=True, kw_only=True)
class OllamaPairArgs:
    """Inputs of OllamaPair.

    Raises `ValueError` for a value of the wrong type, an empty list of models, two models with the same id, a model
    without limits in a pool where others have them, and tags that AWS refuses.
    """

    models: Sequence[OllamaModel]
    """The models: at least one, each with its own id."""
    namespace: str = OLLAMA_NAMESPACE
    """Namespace of the models, created by this component."""
    clients: ModelClients = field(default_factory=ModelClients)
    """Pods outside `namespace` that can send requests to the models."""
    scrapers: ModelClients | None = None
    """Pods outside `namespace` that can read the models' metrics. None: the pods have no exporter of metrics."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags on the EBS volumes."""

    def __post_init__(self) -> None:
        check_arguments(self, tagged=VOLUME)
        ids = [model.served.id for model in self.models]
        if not ids or len(set(ids)) != len(ids):
            raise ValueError(
                f"OllamaPairArgs.models must have at least one model and no duplicate ids, not {ids}. "
                "Pass each model its own `id`."
            )
        for model in self.models:
            beside = [other for other in self.models if other.pool == model.pool and other.share]
            if beside and not model.share:
                raise ValueError(
                    f"OllamaPairArgs.models has {model.served.id} without limits beside {beside[0].served.id}: it "
                    "could take the entire GPU. Pass each model of that pool a `share`."
                )


class OllamaPair(pulumi.ComponentResource):
    """Serves one or more models side by side on shares of a GPU. A model that does not fit entirely on its share fails.

    ```python
    from tandem import OllamaModel, OllamaPair, OllamaPairArgs

    models = [OllamaModel("llama2:7b", context=2048), OllamaModel("mistral:7b", context=2048)]
    pair = OllamaPair("models", OllamaPairArgs(models=models))
    ```
    """

    urls: pulumi.Output[dict[str, str]]
    """In-cluster URL of each model, by id, e.g. `{"llama2-7b": "http://llama2-7b.ollama:11434"}`."""
    services: pulumi.Output[dict[str, str]]
    """Name of each model's Service, by id."""
    ports: pulumi.Output[dict[str, int]]
    """Port of each model's Service, by id."""

    def __init__(self, name: str, args: OllamaPairArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(TOKEN.format("OllamaPair"), name, None, opts)
        self._name, self._args = name, args
        child = pulumi.ResourceOptions(parent=self)
        # `restricted` would reject pods that run as root.
        namespace = create_namespace(f"{name}-namespace", args.namespace, "baseline", child)
        # Without it, a server accepts requests from the entire cluster, so it must exist before the first server.
        interceptors = sorted({model.scaling.namespace for model in args.models if model.scaling})
        spec = to_models(args.clients, args.scrapers, interceptors)
        policy = network_policy(f"{name}-incoming", namespace, spec, child)
        sidecars = ["watch"] if args.scrapers is None else ["watch", "metrics"]
        scripts = {sidecar: self._script(sidecar, namespace) for sidecar in sidecars}
        self._classes = {
            importance: k8s.scheduling.v1.PriorityClass(
                f"{name}-{importance}",
                metadata=k8s.meta.v1.ObjectMetaArgs(name=priority_class(args.namespace, importance)),
                value=PRIORITIES[importance],
                description=f"Models of importance {importance} in the namespace {args.namespace}.",
                opts=child,
            ).metadata.name
            for importance in used(model.importance for model in args.models)
        }
        daemon = claim_directory(name, namespace, child) if any(model.share for model in args.models) else None
        releases = {model.served.id: self._release(model, namespace, scripts, policy, daemon) for model in args.models}

        self.services = pulumi.Output.all(**{id: _service(release, id) for id, release in releases.items()})
        self.ports = pulumi.Output.from_input(dict.fromkeys(releases, OLLAMA_PORT))
        self.urls = self.services.apply(
            lambda services: {id: f"http://{name}.{args.namespace}:{OLLAMA_PORT}" for id, name in services.items()}
        )
        self.register_outputs({"urls": self.urls, "services": self.services, "ports": self.ports})

    def _script(self, sidecar: str, namespace: pulumi.Input[str]) -> pulumi.Output[str]:
        """A ConfigMap with a sidecar's script, named after its content, so that a changed script restarts the pods."""
        file = f"model_{sidecar}.py"
        text = script(file)
        return k8s.core.v1.ConfigMap(
            f"{self._name}-model-{sidecar}",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=f"model-{sidecar}-{digest(text)}", namespace=namespace),
            data={file: text},
            opts=pulumi.ResourceOptions(parent=self),
        ).metadata.name

    def _release(
        self,
        model: OllamaModel,
        namespace: pulumi.Input[str],
        scripts: Mapping[str, pulumi.Input[str]],
        policy: pulumi.Resource,
        daemon: pulumi.Input[str] | None,
    ) -> k8s.helm.v3.Release:
        id = model.served.id
        child = pulumi.ResourceOptions(parent=self)
        claim = claim_disk(f"{self._name}-{id}", model, namespace, self._args.tags, child)
        # No deleted_with: the pods must be deleted before their claim, their volume and their nodes.
        return k8s.helm.v3.Release(
            f"{self._name}-{id}",
            name=id,
            namespace=namespace,
            chart="ollama",
            version=versions.OLLAMA_CHART,
            repository_opts=k8s.helm.v3.RepositoryOptsArgs(repo=versions.OLLAMA_REPOSITORY),
            values=merge_values(
                chart_values(model, claim, scripts, namespace, self._classes.get(model.importance or NORMAL), daemon),
                model.values,
            ),
            timeout=RELEASE_SECONDS,
            skip_await=None if model.is_awaited else True,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[policy]),
        )


def _service(release: k8s.helm.v3.Release, id: str) -> pulumi.Output[str]:
    """The Service's name, resolved once its release is ready. Before that, its URL would not work."""
    return release.status.apply(lambda _: id)
