"""OllamaPair: two or more models, each an Ollama server of its own on one share of a GPU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_kubernetes as k8s

from components.arguments import check_arguments
from components.charts import merge_values
from components.containers import pod_security
from components.network_policies import ModelClients, network_policy, to_models
from components.ollama_pair.model_files import ModelDisk, claim_disk
from components.ollama_pair.values import OllamaModel, chart_values, digest, watch_script
from sharing import versions
from sharing.names import OLLAMA_NAMESPACE, OLLAMA_PORT, TOKEN

__all__ = ["ModelClients", "OllamaModel", "OllamaPair", "OllamaPairArgs"]

RELEASE_SECONDS = 2700
"""Time for image and model to come over a slow line; a model that fails to load says so much earlier."""


@dataclass(frozen=True, kw_only=True)
class OllamaPairArgs:
    """Inputs of OllamaPair.

    Raises `ValueError` for no model, and for two models with one id.
    """

    models: Sequence[OllamaModel]
    """The models; their ids must differ."""
    namespace: str = OLLAMA_NAMESPACE
    """Namespace of the releases."""
    clients: ModelClients = field(default_factory=ModelClients)
    """Pods that may ask the models, besides those in `namespace`."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags on the volumes."""

    def __post_init__(self) -> None:
        check_arguments(self)
        ids = [model.served.id for model in self.models]
        if not ids or len(set(ids)) != len(ids):
            raise ValueError(f"models need different ids, and at least one model (got {ids}). Pass each an `id`.")


class OllamaPair(pulumi.ComponentResource):
    """Serves one or more models next to each other on shares of a GPU. Each has all of its layers there, or fails.

    ```python
    from tandem import OllamaModel, OllamaPair, OllamaPairArgs

    models = [OllamaModel("llama2:7b", context=2048), OllamaModel("mistral:7b", context=2048)]
    pair = OllamaPair("models", OllamaPairArgs(models=models))
    ```
    """

    urls: pulumi.Output[dict[str, str]]
    """In-cluster URL of each model, by id."""
    services: pulumi.Output[dict[str, str]]
    """Name of each model's Service, by id."""
    ports: pulumi.Output[dict[str, int]]
    """Port of each model's Service, by id."""

    def __init__(self, name: str, args: OllamaPairArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(TOKEN.format("OllamaPair"), name, None, opts)
        self._name, self._args = name, args
        namespace = k8s.core.v1.Namespace(
            f"{name}-namespace",
            # `restricted` refuses root.
            metadata=k8s.meta.v1.ObjectMetaArgs(name=args.namespace, labels=pod_security("baseline")),
            opts=pulumi.ResourceOptions(parent=self),
        ).metadata.name
        # A server that starts before it answers the whole cluster.
        policy = network_policy(
            f"{name}-incoming",
            namespace,
            to_models(args.clients),
            pulumi.ResourceOptions(parent=self),
        )
        # Named by its content: a pod that reads another script is another pod.
        script = k8s.core.v1.ConfigMap(
            f"{name}-model-watch",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=f"model-watch-{digest(watch_script())}", namespace=namespace),
            data={"model_watch.py": watch_script()},
            opts=pulumi.ResourceOptions(parent=self),
        ).metadata.name
        releases = {model.served.id: self._release(model, namespace, script, policy) for model in args.models}

        self.services = pulumi.Output.all(**{id: _service(release, id) for id, release in releases.items()})
        self.ports = pulumi.Output.from_input(dict.fromkeys(releases, OLLAMA_PORT))
        self.urls = self.services.apply(
            lambda services: {id: f"http://{name}.{args.namespace}:{OLLAMA_PORT}" for id, name in services.items()}
        )
        self.register_outputs({"urls": self.urls, "services": self.services, "ports": self.ports})

    def _release(
        self,
        model: OllamaModel,
        namespace: pulumi.Input[str],
        script: pulumi.Input[str],
        policy: pulumi.Resource,
    ) -> k8s.helm.v3.Release:
        id = model.served.id
        size = model.volume_gib or model.served.model.volume_gib
        disk = ModelDisk(model=id, cache=model.cache, size_gib=size, zone=model.zone)
        child = pulumi.ResourceOptions(parent=self)
        claim = claim_disk(f"{self._name}-{id}", disk, namespace, self._args.namespace, self._args.tags, child)
        # No deleted_with: the pods must go before their claim, their volume and their nodes.
        return k8s.helm.v3.Release(
            f"{self._name}-{id}",
            name=id,
            namespace=namespace,
            chart="ollama",
            version=versions.OLLAMA_CHART,
            repository_opts=k8s.helm.v3.RepositoryOptsArgs(repo=versions.OLLAMA_REPOSITORY),
            values=merge_values(chart_values(model, claim, script), model.values),
            timeout=RELEASE_SECONDS,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[policy]),
        )


def _service(release: k8s.helm.v3.Release, id: str) -> pulumi.Output[str]:
    """The Service's name, known once its release is there: a URL that is known earlier answers nobody."""
    return release.status.apply(lambda _: id)
