"""Monitoring: metrics of GPUs and models, with dashboards and alerts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import pulumi
import pulumi_kubernetes as k8s
import pulumi_random as random

from components.arguments import Given, Options, check_arguments, read_arguments
from components.charts import Chart, check_charts, merge_values, release_chart
from components.containers import create_namespace
from components.monitoring import gpu_exporter_chart, grafana_chart, store_chart
from components.monitoring.alerts import rule_groups
from components.monitoring.dashboard import MonitoredPool, dashboard, panels
from components.monitoring.scraping import Job, gpu_job, karpenter_job, models_job, pod_monitor
from components.network_policies import network_policy, to_gpu_exporter, to_store
from sharing.names import (
    DASHBOARDS_PORT,
    GPU_EXPORTER,
    MONITORING_NAMESPACE,
    OLLAMA_NAMESPACE,
    TOKEN,
)

ADMIN = "admin"
"""User of Grafana's administrator."""
SECRET_LENGTH = 32
CHARTS = {chart.CHART.name: chart.CHART for chart in (gpu_exporter_chart, store_chart, grafana_chart)}
OPERATOR_API = "monitoring.coreos.com/v1"


@check_arguments
@dataclass(frozen=True, kw_only=True)
class MonitoringArgs:
    """Inputs of Monitoring.

    Raises `ValueError` for a value of the wrong type, neither a store nor monitors, and values for an unknown chart.
    """

    store: Literal["none", "builtin"] = "builtin"
    """`builtin` deploys a metrics store and Grafana on nodes without a GPU. Both lose their data with their pods."""
    service_monitors: bool = False
    """Whether to create PodMonitors, a PrometheusRule and a dashboard for the Prometheus Operator in the cluster."""
    gpu_exporter: bool = True
    """Whether to deploy dcgm-exporter. False if the GPU Operator manages all GPU nodes: it has an exporter."""
    parks: bool = False
    """Whether a schedule stops the GPU nodes at times: then pods that wait without any GPU node are no alert."""
    model_namespace: pulumi.Input[str] = OLLAMA_NAMESPACE
    """Existing namespace of the models, e.g. that of `OllamaPair`. It also gets the monitors."""
    karpenter: bool = False
    """Whether Karpenter launches nodes, for the alert about spot interruptions."""
    pools: Sequence[MonitoredPool] = ()
    """Pools of GPU nodes. Without any, there is no panel with costs, and no alert about models without a pod."""
    other_usd_per_hour: float | None = None
    """Costs of everything besides the GPU nodes in USD per hour, for the same panel."""
    monitor_labels: Mapping[str, str] = field(default_factory=lambda: {"release": "kube-prometheus-stack"})
    """Labels of the monitors and the rule, by which a Prometheus finds them."""
    namespace: str = MONITORING_NAMESPACE
    """Namespace of the store, created by this component. It must not exist."""
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Extra Helm values by chart, merged last: `dcgm-exporter`, `victoria-metrics-single` or `grafana`."""

    def __post_init__(self) -> None:
        if self.store == "none" and not self.service_monitors:
            raise ValueError(
                'MonitoringArgs.store is "none", and service_monitors is False. Pass store="builtin", for example.'
            )
        check_charts(self, CHARTS)


class Monitoring(pulumi.ComponentResource):
    """Metrics of GPUs and models, with a dashboard and alerts that are right for shared GPUs. Use one per cluster.

    Only `kubectl port-forward` reaches the dashboard. The store keeps two days, and loses them with its pod.

    ```python
    from tandem import Monitoring, MonitoringArgs

    monitoring = Monitoring("monitoring", MonitoringArgs(model_namespace="ollama"))
    ```
    """

    url: pulumi.Output[str | None]
    """In-cluster URL of Grafana, e.g. `http://grafana.tandem-monitoring:3000`; None without a store."""
    admin_password: pulumi.Output[str | None]
    """Secret: password of Grafana's user `admin`; None without a store."""

    def __init__(self, name: str, args: Given[MonitoringArgs] = None, opts: Options = None, **more: Any) -> None:
        args = read_arguments(MonitoringArgs, args, more)
        super().__init__(TOKEN.format("Monitoring"), name, None, opts)
        self._name, self._args, self._child = name, args, pulumi.ResourceOptions(parent=self)
        if args.gpu_exporter:
            self._export_gpus()
        self.url, self.admin_password = pulumi.Output.from_input(None), pulumi.Output.from_input(None)
        if args.store == "builtin":
            self.url, self.admin_password = self._store()
        if args.service_monitors:
            self._register()
        self.register_outputs({"url": self.url, "adminPassword": self.admin_password})

    def _export_gpus(self) -> None:
        """The exporter of GPU metrics. It sees the node's processes, so no stricter level admits it."""
        namespace = create_namespace(f"{self._name}-gpu-namespace", GPU_EXPORTER, "privileged", self._child)
        readers = [self._args.namespace] if self._args.store == "builtin" else []
        spec = to_gpu_exporter(readers, prometheus=self._args.service_monitors)
        # As for the store: the policy must exist before the pods.
        policy = network_policy(f"{self._name}-gpu-incoming", namespace, spec, self._child)
        values = gpu_exporter_chart.values()
        self._release("gpu-exporter", gpu_exporter_chart.CHART, GPU_EXPORTER, values, namespace, policy)

    def _store(self) -> tuple[pulumi.Output[str | None], pulumi.Output[str | None]]:
        """The store with Grafana. Returns Grafana's URL and its administrator's password."""
        namespace = create_namespace(f"{self._name}-namespace", self._args.namespace, "restricted", self._child)
        # Without it, both accept requests from the entire cluster, so it must exist before them.
        policy = network_policy(f"{self._name}-incoming", namespace, to_store(), self._child)
        values = store_chart.values([*self._jobs().values()])
        self._release("store", store_chart.CHART, store_chart.NAME, values, namespace, policy)
        kept = random.RandomPassword(f"{self._name}-password", length=SECRET_LENGTH, special=False, opts=self._child)
        password: pulumi.Output[str] = pulumi.Output.secret(kept.result)
        credentials = k8s.core.v1.Secret(
            f"{self._name}-credentials",
            metadata=k8s.meta.v1.ObjectMetaArgs(namespace=namespace),
            string_data=pulumi.Output.secret({"admin-user": ADMIN, "admin-password": password}),
            opts=self._child,
        ).metadata.name
        dashboards = self._dashboards("dashboards", namespace, {}, has_kube_state_metrics=False)
        values = grafana_chart.values(credentials, dashboards, self._args.pools)
        grafana = self._release("grafana", grafana_chart.CHART, grafana_chart.NAME, values, namespace, policy)
        url = f"http://{grafana_chart.NAME}.{self._args.namespace}:{DASHBOARDS_PORT}"
        return grafana.id.apply(lambda _: url), password

    def _register(self) -> None:
        """What the Prometheus Operator reads. The dashboard is for the sidecar of kube-prometheus-stack's Grafana."""
        namespace = self._args.model_namespace
        for part, job in self._jobs().items():
            self._custom(part, "PodMonitor", namespace, pod_monitor(job))
        self._custom(
            "rules", "PrometheusRule", namespace, {"groups": rule_groups(self._args.pools, parks=self._args.parks)}
        )
        self._dashboards("shared-dashboards", namespace, {"grafana_dashboard": "1"}, has_kube_state_metrics=True)

    def _jobs(self) -> dict[str, Job]:
        """What the store or the Prometheus Operator reads, with a name for each monitor."""
        jobs = {"gpus": gpu_job(), "models": models_job(self._args.model_namespace)}
        return jobs | {"karpenter": karpenter_job()} if self._args.karpenter else jobs

    def _custom(self, part: str, kind: str, namespace: pulumi.Input[str], spec: dict[str, Any]) -> None:
        k8s.apiextensions.CustomResource(
            f"{self._name}-{part}",
            api_version=OPERATOR_API,
            kind=kind,
            metadata=k8s.meta.v1.ObjectMetaArgs(
                name=f"tandem-{part}", namespace=namespace, labels={**self._args.monitor_labels}
            ),
            spec=spec,
            opts=self._child,
        )

    def _dashboards(
        self, part: str, namespace: pulumi.Input[str], labels: Mapping[str, str], *, has_kube_state_metrics: bool
    ) -> pulumi.Output[str]:
        """The name of a ConfigMap with the dashboard. A change gives it another name."""
        args = self._args
        found = panels(args.pools, args.other_usd_per_hour, has_kube_state_metrics=has_kube_state_metrics)
        made = k8s.core.v1.ConfigMap(
            f"{self._name}-{part}",
            metadata=k8s.meta.v1.ObjectMetaArgs(namespace=namespace, labels={**labels}),
            data={"shared-gpus.json": dashboard(found)},
            opts=self._child,
        )
        named: pulumi.Output[str] = made.metadata.name
        return named

    def _release(
        self,
        part: str,
        chart: Chart,
        named: str,
        values: dict[str, Any],
        namespace: pulumi.Input[str],
        *needs: pulumi.Resource,
    ) -> k8s.helm.v3.Release:
        merged = merge_values(values, self._args.values.get(chart.name, {}))
        return release_chart(
            f"{self._name}-{part}", chart, merged, named=named, namespace=namespace, parent=self, needs=needs
        )
