"""OllamaPair: an Ollama server for each of its models, each on its own share of a GPU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any

import pulumi
import pulumi_kubernetes as k8s

from components.arguments import Given, Options, check_arguments, check_filled, check_tags, read_arguments
from components.charts import merge_values
from components.containers import create_namespace
from components.device_plugin_sharing import PoolSharing
from components.mps_daemon import claim_directory
from components.network_policies import ModelClients, network_policy, to_models
from components.ollama_pair.model import OllamaModel
from components.ollama_pair.model_files import claim_disk
from components.ollama_pair.placement import JudgedPools, Place, judge_pools, place_unjudged
from components.ollama_pair.values import chart_values, digest, script
from components.planned_pools import GpuNodes
from sharing import versions
from sharing.arguments import IN_LANGUAGE
from sharing.aws.tags import VOLUME
from sharing.fit.own_limits import judge_limit
from sharing.models.importance import NORMAL, PRIORITIES, priority_class, used
from sharing.names import OLLAMA_NAMESPACE, OLLAMA_PORT, TOKEN
from sharing.sections.pools import POOL

__all__ = ["ModelClients", "OllamaModel", "OllamaPair", "OllamaPairArgs"]

RELEASE_SECONDS = 2700
"""Time to download image and model over a slow connection. A model that cannot load logs why much earlier."""

RunsOn = Annotated[
    PoolSharing | GpuNodes | Sequence[PoolSharing | GpuNodes] | JudgedPools,
    "GPU nodes such as a SpotGpuNodeGroup, their PoolSharing, a list of these",
]
UNCHECKED = (
    "OllamaPair {}: nothing checks whether its models fit their GPU, its sharing mode and the RAM of its nodes. "
    "Pass the nodes as `runs_on`."
)


@check_arguments
@dataclass(frozen=True, kw_only=True)
class OllamaPairArgs:
    """Inputs of OllamaPair.

    Raises `ValueError` for a value of the wrong type, an empty list of models, two models with the same id, limits that
    are missing without `runs_on`, tags that AWS refuses, and with `runs_on` for each error that `tandem plan` would
    report about these models and pools.
    """

    models: Sequence[OllamaModel]
    """The models: at least one, each with its own id."""
    runs_on: RunsOn | None = None
    """The GPU nodes: a `SpotGpuNodeGroup`, a `KarpenterGpuPool`, a `PoolSharing`, or several of them. They decide
    whether the models fit, and what the models request and tolerate. None: nothing of this is checked.
    """
    namespace: str = OLLAMA_NAMESPACE
    """Namespace of the models, created by this component."""
    clients: ModelClients = field(default_factory=ModelClients)
    """Pods outside `namespace` that can send requests to the models."""
    scrapers: ModelClients | None = None
    """Pods outside `namespace` that can read the models' metrics. None: the pods have no exporter of metrics."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags on the EBS volumes."""

    def __post_init__(self) -> None:
        check_tags(self, VOLUME)
        check_filled(self, "models")
        ids = [model.served.id for model in self.models]
        if len(set(ids)) != len(ids):
            raise ValueError(f"OllamaPairArgs.models has duplicate ids: {ids}. Pass each model its own `id`.")
        self.judged  # noqa: B018  # raises the errors of the rules
        if self.runs_on is None:
            self._check_limits()

    @cached_property
    def judged(self) -> JudgedPools | None:
        """The verdict on the models on `runs_on`; None without it."""
        if self.runs_on is None or isinstance(self.runs_on, JudgedPools):
            return self.runs_on
        return judge_pools(self.runs_on, self.models)

    def places(self) -> dict[str, Place]:
        """Where each model runs, by its id."""
        if self.judged is None:
            return {model.served.id: place_unjudged(model) for model in self.models}
        return self.judged.places()

    def _check_limits(self) -> None:
        """Refuses limits that only a verdict could complete."""
        for model in self.models:
            if model.share and model.share.memory_mib is None:
                wrong = judge_limit(model.share, model.served)
                raise ValueError(f"OllamaModel.share of {model.served.model.name} {wrong}")
            beside = [other for other in self.models if (other.pool or POOL) == (model.pool or POOL) and other.share]
            if beside and not model.share:
                raise ValueError(
                    f"OllamaPairArgs.models has {model.served.id} without limits beside {beside[0].served.id}: it "
                    "could take the entire GPU. Pass each model of that pool a `share`."
                )


class OllamaPair(pulumi.ComponentResource):
    """Serves one or more models side by side on shares of a GPU. A model that does not fit entirely on its share fails.

    ```python
    from tandem import OllamaModel, OllamaPair, OllamaPairArgs, PoolSharing, TimeSlicing

    models = [OllamaModel("llama2:7b", context=2048), OllamaModel("mistral:7b", context=2048)]
    pool = PoolSharing(sharing=TimeSlicing(replicas=2), gpu="t4")
    pair = OllamaPair("models", OllamaPairArgs(models=models, runs_on=pool))
    ```
    """

    urls: pulumi.Output[dict[str, str]]
    """In-cluster URL of each model, by id, e.g. `{"llama2-7b": "http://llama2-7b.ollama:11434"}`."""
    services: pulumi.Output[dict[str, str]]
    """Name of each model's Service, by id."""
    ports: pulumi.Output[dict[str, int]]
    """Port of each model's Service, by id."""

    def __init__(self, name: str, args: Given[OllamaPairArgs] = None, opts: Options = None, **more: Any) -> None:
        args = read_arguments(OllamaPairArgs, args, more)
        super().__init__(TOKEN.format("OllamaPair"), name, None, opts)
        self._name, self._args, self._places = name, args, args.places()
        for warning in args.judged.warnings if args.judged else [UNCHECKED.format(name)]:
            pulumi.log.warn(IN_LANGUAGE.get()(warning))
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
        have_limits = any(place.share for place in self._places.values())
        daemon = claim_directory(name, namespace, child) if have_limits else None
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
        id, place = model.served.id, self._places[model.served.id]
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
                chart_values(
                    model, place, claim, scripts, namespace, self._classes.get(model.importance or NORMAL), daemon
                ),
                model.values,
            ),
            timeout=RELEASE_SECONDS,
            skip_await=None if place.is_awaited else True,
            opts=pulumi.ResourceOptions(parent=self, depends_on=[policy]),
        )


def _service(release: k8s.helm.v3.Release, id: str) -> pulumi.Output[str]:
    """The Service's name, resolved once its release is ready. Before that, its URL would not work."""
    return release.status.apply(lambda _: id)
