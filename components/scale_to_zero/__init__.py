"""ScaleToZero: models without requests stop, and the next request starts them again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from components.arguments import Given, Options, check_arguments, read_arguments
from components.charts import Chart, check_charts, merge_values, release_chart
from components.containers import create_namespace
from components.network_policies import ModelClients, network_policy, to_interceptor
from components.scale_to_zero import add_on_chart, keda_chart
from components.scaling import SCALER
from sharing.names import (
    INTERCEPTOR_LABELS,
    INTERCEPTOR_PORT,
    KEDA_NAMESPACE,
    OLLAMA_NAMESPACE,
    SCALER_PORT,
    TOKEN,
)

CHARTS = {chart.CHART.name: chart.CHART for chart in (keda_chart, add_on_chart)}


@check_arguments
@dataclass(frozen=True, kw_only=True)
class ScaleToZeroArgs:
    """Inputs of ScaleToZero.

    Raises `ValueError` for a value of the wrong type, no models, and values for an unknown chart.
    """

    models: Sequence[str]
    """Ids of the models, e.g. `["llama2-7b"]`: each gets a Service in front of it."""
    model_namespace: str = OLLAMA_NAMESPACE
    """Namespace of the models, whose pods may send requests. It need not exist yet."""
    clients: ModelClients = field(default_factory=ModelClients)
    """Other pods that may send requests."""
    namespace: str = KEDA_NAMESPACE
    """Namespace of KEDA, created by this component. It must not exist."""
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Extra Helm values by chart, merged last: `keda` or `keda-add-ons-http`."""

    def __post_init__(self) -> None:
        if not self.models:
            raise ValueError("ScaleToZeroArgs.models must have at least one id. Pass those of the models.")
        check_charts(self, CHARTS)


class ScaleToZero(pulumi.ComponentResource):
    """Deploys KEDA with its HTTP add-on, which scale models to zero and back. Use one per cluster without KEDA.

    A model takes part if it has a `scaling`. It saves money only on nodes that Karpenter removes.

    ```python
    from tandem import OllamaModel, OllamaPair, OllamaPairArgs, ScaleToZero, ScaleToZeroArgs, Scaling

    zero = ScaleToZero("zero", ScaleToZeroArgs(models=["llama2-7b"]))
    model = OllamaModel("llama2:7b", scaling=Scaling(idle_minutes=15, scaler=zero.scaler))
    OllamaPair("models", OllamaPairArgs(models=[model]))
    ```
    """

    urls: pulumi.Output[dict[str, str]]
    """In-cluster URL of each model, by id, e.g. `{"llama2-7b": "http://llama2-7b.keda:11434"}`. Only requests to these
    URLs start a model, and keep it running."""
    scaler: pulumi.Output[str]
    """Address of the add-on's scaler, for `Scaling.scaler`."""

    def __init__(self, name: str, args: Given[ScaleToZeroArgs] = None, opts: Options = None, **more: Any) -> None:
        args = read_arguments(ScaleToZeroArgs, args, more)
        super().__init__(TOKEN.format("ScaleToZero"), name, None, opts)
        self._name, self._args, self._child = name, args, pulumi.ResourceOptions(parent=self)
        namespace = create_namespace(f"{name}-namespace", args.namespace, "restricted", self._child)
        # Without it, the interceptor accepts requests from the entire cluster, so it must exist before it.
        clients = [args.model_namespace, *(other for other in args.clients.namespaces if other != args.model_namespace)]
        policy = network_policy(
            f"{name}-incoming",
            namespace,
            to_interceptor(ModelClients(namespaces=clients, labels=args.clients.labels)),
            self._child,
        )
        keda = self._release("keda", keda_chart.CHART, keda_chart.values(), namespace)
        # The add-on's chart has a ScaledObject of its own. KEDA brings the type, and must still run when the object is
        # deleted: only KEDA removes its finalizer.
        add_on = self._release("add-on", add_on_chart.CHART, add_on_chart.values(), namespace, keda, policy)
        self.scaler = add_on.status.apply(lambda _: f"{SCALER}.{args.namespace}:{SCALER_PORT}")
        services = {id: self._service(id, namespace, add_on) for id in args.models}
        self.urls = pulumi.Output.all(**{id: service.id for id, service in services.items()}).apply(
            lambda ids: {id: f"http://{id}.{args.namespace}:{INTERCEPTOR_PORT}" for id in ids}
        )
        self.register_outputs({"urls": self.urls, "scaler": self.scaler})

    def _service(self, id: str, namespace: pulumi.Input[str], add_on: pulumi.Resource) -> k8s.core.v1.Service:
        """A name for the interceptor, by which it knows the model that a request is for."""
        return k8s.core.v1.Service(
            f"{self._name}-{id}",
            metadata=k8s.meta.v1.ObjectMetaArgs(name=id, namespace=namespace),
            # One number for both ports: policies of vpc-cni need it (components/network_policies.py).
            spec=k8s.core.v1.ServiceSpecArgs(
                type="ClusterIP",
                selector=INTERCEPTOR_LABELS,
                ports=[k8s.core.v1.ServicePortArgs(name="http", port=INTERCEPTOR_PORT, target_port=INTERCEPTOR_PORT)],
            ),
            # A Service without pods is not ready.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[add_on]),
        )

    def _release(
        self,
        part: str,
        chart: Chart,
        values: dict[str, Any],
        namespace: pulumi.Input[str],
        *needs: pulumi.Resource,
    ) -> k8s.helm.v3.Release:
        merged = merge_values(values, self._args.values.get(chart.name, {}))
        return release_chart(
            f"{self._name}-{part}", chart, merged, named=chart.name, namespace=namespace, parent=self, needs=needs
        )
