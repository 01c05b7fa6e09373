"""Monitoring: settings that belong together, what the store reads, and what it may see."""

import json
import re
from typing import Any

import pytest
import yaml

from components import MonitoredPool, Monitoring, MonitoringArgs
from components.monitoring.alerts import FILE
from components.ollama_pair.model_metrics import FAMILIES
from sandbox.graph import Graph, holds_secret, masked, plain
from sandbox.preview.program import run

RELEASE = "kubernetes:helm.sh/v3:Release"
CONFIG_MAP, SECRET = "kubernetes:core/v1:ConfigMap", "kubernetes:core/v1:Secret"
POD_MONITOR = "kubernetes:monitoring.coreos.com/v1:PodMonitor"
RULE = "kubernetes:monitoring.coreos.com/v1:PrometheusRule"
POOLS = [MonitoredPool(name="gpu", node_usd_per_hour=0.5, share_mib=7680)]
KUBE_STATE_METRICS = {
    "kube_pod_status_phase",
    "kube_pod_container_resource_requests",
    "kube_pod_container_status_restarts_total",
}
"""kubernetes/kube-state-metrics v2.16.0, docs/metrics/workload/pod-metrics.md."""
KARPENTER_METRICS = {"karpenter_nodeclaims_disrupted_total"}
"""kubernetes-sigs/karpenter v1.14.1, pkg/metrics/metrics.go, NodeClaimsDisruptedTotal."""


def build(**changed: Any) -> Graph:
    args = MonitoringArgs(**{"pools": POOLS, "other_usd_per_hour": 0.25, **changed})
    return run(lambda: Monitoring("watch", args), project="test", stack="test")


@pytest.fixture(scope="module")
def graph() -> Graph:
    return build()


@pytest.fixture(scope="module")
def registered() -> Graph:
    """With objects of the Prometheus Operator alone."""
    return build(store="none", service_monitors=True)


@pytest.fixture(scope="module")
def karpenters() -> Graph:
    return build(karpenter=True, service_monitors=True)


def values(graph: Graph, chart: str) -> dict[str, Any]:
    [found] = [plain(one.inputs) for one in graph.of_type(RELEASE) if one.inputs["chart"] == chart]
    return dict(found["values"])


def jobs(graph: Graph) -> list[dict[str, Any]]:
    """What the store reads."""
    return list(values(graph, "victoria-metrics-single")["server"]["scrape"]["config"]["scrape_configs"])


@pytest.mark.real_world(
    behaviour="dcgm-exporter reports 0 for every pod on a GPU if it sees no processes of the node, or no UIDs of pods; "
    "without KUBERNETES_VIRTUAL_GPUS, it gives all memory of a shared GPU to one of its pods",
    source="NVIDIA/dcgm-exporter 4.5.3-4.8.2, internal/pkg/transformation/kubernetes.go and pidmapper.go",
)
def test_the_exporter_can_tell_the_pods_on_a_gpu_apart(graph: Graph) -> None:
    found = values(graph, "dcgm-exporter")
    assert found["hostPID"] is True
    assert found["kubernetes"] == {"enablePodUID": True}
    assert {"name": "KUBERNETES_VIRTUAL_GPUS", "value": "true"} in found["extraEnv"]


@pytest.mark.real_world(
    behaviour="The chart of dcgm-exporter selects no nodes, tolerates no taint of ours, and creates a ServiceMonitor "
    "whether or not the cluster knows that kind",
    source="NVIDIA/dcgm-exporter 4.5.3-4.8.2, deployment/values.yaml",
)
def test_the_exporter_runs_on_gpu_nodes_without_the_operator_in_every_mode(graph: Graph) -> None:
    found = values(graph, "dcgm-exporter")
    assert found["nodeSelector"] == {"nvidia.com/gpu.deploy.operands": "false"}
    assert {one["key"] for one in found["tolerations"]} == {"nvidia.com/gpu", "tandem/mode"}
    assert {one["operator"] for one in found["tolerations"]} == {"Exists"}
    assert found["serviceMonitor"] == {"enabled": False}


@pytest.mark.real_world(
    behaviour="A store adds labels of the target to series that lack them, also with honor_labels. With the pod's name "
    "there, `pod` of a GPU's own series would be the exporter's pod",
    source="https://prometheus.io/docs/prometheus/latest/configuration/configuration/#scrape_config, honor_labels",
)
def test_series_of_a_gpu_keep_their_labels_and_get_no_pod(graph: Graph) -> None:
    [gpus, _] = jobs(graph)
    assert gpus["honor_labels"] is True
    assert {rule.get("target_label") for rule in gpus["relabel_configs"]} == {None, "job", "node", "pool"}
    assert gpus["kubernetes_sd_configs"][0]["namespaces"]["names"] == ["dcgm-exporter", "gpu-operator"]


@pytest.mark.real_world(
    behaviour="Kubernetes lists a native sidecar as an init container, and the jobs of the store's chart skip those",
    source="VictoriaMetrics/helm-charts victoria-metrics-single-0.45.0, values.yaml, server.scrape.config",
)
def test_the_store_reads_native_sidecars_and_nothing_besides_models_and_gpus(graph: Graph) -> None:
    assert [job["job_name"] for job in jobs(graph)] == ["dcgm-exporter", "tandem-models"]
    assert "pod_container_init" not in json.dumps(jobs(graph))
    kept = [rule["regex"] for job in jobs(graph) for rule in job["relabel_configs"] if rule.get("action") == "keep"]
    assert kept == ["9400", "9410"]


@pytest.mark.real_world(
    behaviour="Karpenter counts its nodes that AWS reclaims, on the port `http-metrics`",
    source="karpenter-provider-aws v1.14.1 pkg/controllers/interruption/utils.go deleteNodeClaim, and charts/karpenter",
)
def test_interruptions_are_read_from_karpenter_alone_and_nothing_else_of_its_metrics(karpenters: Graph) -> None:
    [job] = [one for one in jobs(karpenters) if one["job_name"] == "karpenter"]
    assert job["kubernetes_sd_configs"][0]["namespaces"]["names"] == ["kube-system"]
    kept = {one["source_labels"][0]: one["regex"] for one in job["relabel_configs"] if one.get("action") == "keep"}
    assert kept == {
        "__meta_kubernetes_pod_container_port_number": "8080",
        "__meta_kubernetes_pod_label_app_kubernetes_io_name": "karpenter",
    }
    assert job["metric_relabel_configs"] == [
        {"action": "keep", "source_labels": ["__name__"], "regex": "karpenter_nodeclaims_disrupted_total"}
    ]
    monitors = [plain(one.inputs) for one in karpenters.of_type(POD_MONITOR)]
    assert {one["spec"]["podMetricsEndpoints"][0]["port"] for one in monitors} == {"metrics", "http-metrics"}


@pytest.mark.parametrize("job", ["tandem-models", "karpenter"])
def test_series_of_models_and_of_karpenter_get_their_pod(karpenters: Graph, job: str) -> None:
    """The label is that of kubernetes_sd_config, role `pod` (Prometheus, Configuration)."""
    [rules] = [one["relabel_configs"] for one in jobs(karpenters) if one["job_name"] == job]
    pods = [rule["source_labels"] for rule in rules if rule.get("target_label") == "pod"]
    assert pods == [["__meta_kubernetes_pod_name"]]


def test_the_password_is_only_in_a_secret(graph: Graph) -> None:
    [secret] = graph.of_type(SECRET)
    assert holds_secret(secret.inputs["stringData"])
    held = plain(secret.inputs)["stringData"]
    assert {*held} == {"admin-user", "admin-password"}
    shown = json.dumps([[masked(one.inputs), masked(graph.outputs.get(one.urn, {}))] for one in graph])
    assert held["admin-password"] not in shown
    assert values(graph, "grafana")["admin"] == {"existingSecret": "watch-credentials-0000000"}


def test_grafana_finds_its_source_its_dashboard_and_its_rules(graph: Graph) -> None:
    found = values(graph, "grafana")
    [source] = found["datasources"]["datasources.yaml"]["datasources"]
    store = values(graph, "victoria-metrics-single")["server"]["fullnameOverride"]
    assert source["url"] == f"http://{store}:8428"
    [provider] = found["dashboardProviders"]["dashboardproviders.yaml"]["providers"]
    [(folder, config_map)] = found["dashboardsConfigMaps"].items()
    # The chart mounts it there (templates/_pod.tpl).
    assert provider["options"]["path"] == f"/var/lib/grafana/dashboards/{folder}"
    assert config_map == "watch-dashboards-0000000"
    rules = [rule for group in found["alerting"]["rules.yaml"]["groups"] for rule in group["rules"]]
    assert {query["datasourceUid"] for rule in rules for query in rule["data"]} == {source["uid"], "__expr__"}


def test_grafana_has_the_alerts_of_the_operator_as_far_as_the_store_has_their_metrics(
    graph: Graph, registered: Graph
) -> None:
    [rule] = registered.of_type(RULE)
    alerts = [alert for group in plain(rule.inputs)["spec"]["groups"] for alert in group["rules"]]
    grafana = values(graph, "grafana")["alerting"]["rules.yaml"]["groups"]
    shown = {one["title"]: one for group in grafana for one in group["rules"]}
    assert [*shown] == [alert["alert"] for alert in alerts if "kube_" not in alert["expr"]]
    # The chart evaluates templates: Grafana's own are escaped.
    summaries = {one["annotations"]["summary"].replace("{{`{{`}}", "{{") for one in shown.values()}
    assert summaries <= {alert["annotations"]["summary"] for alert in alerts}


def expressions(graph: Graph) -> list[str]:
    [board] = [json.loads(plain(one.inputs)["data"]["shared-gpus.json"]) for one in graph.of_type(CONFIG_MAP)]
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def named(expressions: list[str]) -> set[str]:
    """The metrics in PromQL."""
    return set(re.findall(r"\b(?:DCGM|tandem|kube|karpenter)_\w+", re.sub(r'"[^"]*"', "", " ".join(expressions))))


def test_dashboard_and_alerts_use_metrics_that_exist(graph: Graph, registered: Graph) -> None:
    exported = set(re.findall(r"^DCGM_\w+", values(graph, "dcgm-exporter")["customMetrics"], flags=re.MULTILINE))
    rules = values(graph, "grafana")["alerting"]["rules.yaml"]["groups"][0]["rules"]
    used = named([*expressions(graph), *(rule["data"][0]["model"]["expr"] for rule in rules)])
    assert used <= exported | {*FAMILIES} | KARPENTER_METRICS
    assert exported <= used, "read, but shown nowhere"
    rules = yaml.safe_load(FILE.read_text())["groups"][1]["rules"]
    more = named([*expressions(registered), *(rule["expr"] for rule in rules)])
    assert more <= exported | {*FAMILIES} | KARPENTER_METRICS | KUBE_STATE_METRICS
