"""Monitoring: settings that belong together, what the store reads, and what it may see."""

import json
import re
from typing import Any

import pytest
import yaml

from components import MonitoredPool, Monitoring, MonitoringArgs
from components.monitoring.alerts import FILE
from sandbox.graph import Graph, holds_secret, masked, plain
from sandbox.preview.program import run
from tests.program.test_chart_values import keys, unknown

RELEASE = "kubernetes:helm.sh/v3:Release"
CONFIG_MAP, SECRET = "kubernetes:core/v1:ConfigMap", "kubernetes:core/v1:Secret"
POLICY, NAMESPACE = "kubernetes:networking.k8s.io/v1:NetworkPolicy", "kubernetes:core/v1:Namespace"
POD_MONITOR = "kubernetes:monitoring.coreos.com/v1:PodMonitor"
RULE = "kubernetes:monitoring.coreos.com/v1:PrometheusRule"
POOLS = [MonitoredPool(name="gpu", node_usd_per_hour=0.5, share_mib=7680, models=["llama"])]
MODELS_METRICS = {
    "tandem_model_loaded",
    "tandem_model_size_bytes",
    "tandem_model_size_vram_bytes",
    "tandem_ollama_up",
    "tandem_tokens_predicted_total",
    "tandem_tokens_predicted_seconds_total",
    "tandem_requests_processing",
    "tandem_requests_deferred",
}
"""Of the exporter in the models' pods."""
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


def release(graph: Graph, chart: str) -> dict[str, Any]:
    [found] = [plain(one.inputs) for one in graph.of_type(RELEASE) if one.inputs["chart"] == chart]
    return dict(found)


def values(graph: Graph, chart: str) -> dict[str, Any]:
    return dict(release(graph, chart)["values"])


def test_everything_with_a_port_starts_after_its_network_policy(graph: Graph) -> None:
    """Until then, it would accept requests from the entire cluster."""
    policies = {plain(one.inputs)["metadata"]["namespace"]: one.urn for one in graph.of_type(POLICY)}
    releases = graph.of_type(RELEASE)
    assert len(releases) == 3
    for one in releases:
        assert policies[plain(one.inputs)["namespace"]] in one.dependencies


@pytest.mark.parametrize("chart", ["dcgm-exporter", "victoria-metrics-single", "grafana"])
def test_every_value_exists_in_its_chart_with_its_type(graph: Graph, chart: str) -> None:
    found = release(graph, chart)
    assert list(unknown(found["values"], keys(chart, found["version"]))) == []


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


def test_no_exporter_is_deployed_where_the_operator_has_one() -> None:
    found = build(gpu_exporter=False)
    assert {one.inputs["chart"] for one in found.of_type(RELEASE)} == {"victoria-metrics-single", "grafana"}
    assert [plain(one.inputs)["metadata"]["name"] for one in found.of_type(NAMESPACE)] == ["tandem-monitoring"]


@pytest.mark.real_world(
    behaviour="A store adds labels of the target to series that lack them, also with honor_labels. With the pod's name "
    "there, `pod` of a GPU's own series would be the exporter's pod",
    source="https://prometheus.io/docs/prometheus/latest/configuration/configuration/#scrape_config, honor_labels",
)
def test_series_of_a_gpu_keep_their_labels_and_get_no_pod(graph: Graph) -> None:
    [gpus, _] = values(graph, "victoria-metrics-single")["server"]["scrape"]["config"]["scrape_configs"]
    assert gpus["honor_labels"] is True
    assert {rule.get("target_label") for rule in gpus["relabel_configs"]} == {None, "job", "node", "pool"}
    assert gpus["kubernetes_sd_configs"][0]["namespaces"]["names"] == ["dcgm-exporter", "gpu-operator"]


@pytest.mark.real_world(
    behaviour="Kubernetes lists a native sidecar as an init container, and the jobs of the store's chart skip those",
    source="VictoriaMetrics/helm-charts victoria-metrics-single-0.45.0, values.yaml, server.scrape.config",
)
def test_the_store_reads_native_sidecars_and_nothing_besides_models_and_gpus(graph: Graph) -> None:
    jobs = values(graph, "victoria-metrics-single")["server"]["scrape"]["config"]["scrape_configs"]
    assert [job["job_name"] for job in jobs] == ["dcgm-exporter", "tandem-models"]
    assert "pod_container_init" not in json.dumps(jobs)
    kept = [rule["regex"] for job in jobs for rule in job["relabel_configs"] if rule.get("action") == "keep"]
    assert kept == ["9400", "9410"]


@pytest.mark.real_world(
    behaviour="Karpenter counts its nodes that AWS reclaims, on the port `http-metrics`",
    source="karpenter-provider-aws v1.14.1 pkg/controllers/interruption/utils.go deleteNodeClaim, and charts/karpenter",
)
def test_interruptions_are_read_from_karpenter_alone_and_nothing_else_of_its_metrics() -> None:
    jobs = values(build(karpenter=True), "victoria-metrics-single")["server"]["scrape"]["config"]["scrape_configs"]
    [job] = [one for one in jobs if one["job_name"] == "karpenter"]
    assert job["kubernetes_sd_configs"][0]["namespaces"]["names"] == ["kube-system"]
    kept = {one["source_labels"][0]: one["regex"] for one in job["relabel_configs"] if one.get("action") == "keep"}
    assert kept == {
        "__meta_kubernetes_pod_container_port_number": "8080",
        "__meta_kubernetes_pod_label_app_kubernetes_io_name": "karpenter",
    }
    assert job["metric_relabel_configs"] == [
        {"action": "keep", "source_labels": ["__name__"], "regex": "karpenter_nodeclaims_disrupted_total"}
    ]
    monitors = [plain(one.inputs) for one in build(karpenter=True, service_monitors=True).of_type(POD_MONITOR)]
    assert {one["spec"]["podMetricsEndpoints"][0]["port"] for one in monitors} == {"metrics", "http-metrics"}


def test_the_store_has_no_volume_that_outlives_the_stack(graph: Graph) -> None:
    assert values(graph, "victoria-metrics-single")["server"]["persistentVolume"] == {"enabled": False}
    assert "persistence" not in values(graph, "grafana")


def test_the_password_is_only_in_a_secret(graph: Graph) -> None:
    [secret] = graph.of_type(SECRET)
    assert holds_secret(secret.inputs["stringData"])
    held = plain(secret.inputs)["stringData"]
    assert {*held} == {"admin-user", "admin-password"}
    shown = json.dumps([[masked(one.inputs), masked(graph.outputs.get(one.urn, {}))] for one in graph])
    assert held["admin-password"] not in shown
    assert values(graph, "grafana")["admin"] == {"existingSecret": "watch-credentials-0000000"}


def test_grafana_sends_nothing_to_its_makers_and_never_calls_the_cluster(graph: Graph) -> None:
    found = values(graph, "grafana")
    assert {*found["grafana.ini"]["analytics"].values()} == {False}
    assert found["grafana.ini"]["plugins"] == {"preinstall_disabled": True}
    assert found["automountServiceAccountToken"] is False
    assert found["rbac"] == {"create": False}
    assert found["testFramework"] == {"enabled": False}


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


def test_grafana_and_the_operator_have_the_same_alerts_as_far_as_the_store_has_their_metrics(
    graph: Graph, registered: Graph
) -> None:
    [rule] = registered.of_type(RULE)
    groups = plain(rule.inputs)["spec"]["groups"]
    assert groups[:-1] == yaml.safe_load(FILE.read_text(encoding="utf-8"))["groups"]
    grafana = values(graph, "grafana")["alerting"]["rules.yaml"]["groups"]
    shown = {one["title"]: one for group in grafana for one in group["rules"]}
    for group in groups:
        for alert in group["rules"]:
            if "kube_" in alert["expr"]:
                assert alert["alert"] not in shown
                continue
            same = shown.pop(alert["alert"])
            assert same["data"][0]["model"]["expr"] == alert["expr"]
            assert (same["for"], same["labels"]) == (alert["for"], alert["labels"])
            # The chart evaluates templates: Grafana's own are escaped.
            assert same["annotations"]["summary"].replace("{{`{{`}}", "{{") == alert["annotations"]["summary"]
    assert shown == {}


def test_an_alert_expects_each_model_while_a_node_of_its_pool_reports(graph: Graph) -> None:
    groups = values(graph, "grafana")["alerting"]["rules.yaml"]["groups"]
    [rule] = [one for group in groups for one in group["rules"] if one["title"] == "TandemModelWithoutPod"]
    expected = 'absent(tandem_ollama_up{id="llama"}) and on () count(DCGM_FI_DEV_FB_FREE{pool="gpu"}) > 0'
    assert rule["data"][0]["model"]["expr"] == expected
    assert "TandemModelWithoutPod" not in str(values(build(pools=[]), "grafana"))


def dashboards(graph: Graph) -> list[dict[str, Any]]:
    return [json.loads(plain(one.inputs)["data"]["shared-gpus.json"]) for one in graph.of_type(CONFIG_MAP)]


def expressions(graph: Graph) -> list[str]:
    return [target["expr"] for one in dashboards(graph) for panel in one["panels"] for target in panel["targets"]]


def named(expression: str) -> set[str]:
    return set(re.findall(r"\b(?:DCGM|tandem|kube|karpenter)_\w+", re.sub(r'"[^"]*"', "", expression)))


def test_dashboard_and_alerts_use_metrics_that_exist(graph: Graph, registered: Graph) -> None:
    exported = set(re.findall(r"^DCGM_\w+", values(graph, "dcgm-exporter")["customMetrics"], flags=re.MULTILINE))
    rules = values(graph, "grafana")["alerting"]["rules.yaml"]["groups"][0]["rules"]
    used = [*expressions(graph), *(rule["data"][0]["model"]["expr"] for rule in rules)]
    assert set().union(*map(named, used)) <= exported | MODELS_METRICS | KARPENTER_METRICS
    more = [
        *expressions(registered),
        *(rule["expr"] for rule in yaml.safe_load(FILE.read_text())["groups"][1]["rules"]),
    ]
    assert set().union(*map(named, more)) <= exported | MODELS_METRICS | KARPENTER_METRICS | KUBE_STATE_METRICS
    assert exported - set().union(*map(named, used)) == set(), "read, but shown nowhere"


def test_a_dashboard_has_panels_side_by_side_and_works_with_any_source(graph: Graph) -> None:
    [one] = dashboards(graph)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in one["panels"]]
    assert len(set(places)) == len(places) == len({panel["id"] for panel in one["panels"]})
    [variable] = one["templating"]["list"]
    sources = {target["datasource"]["uid"] for panel in one["panels"] for target in panel["targets"]}
    assert sources == {f"${{{variable['name']}}}"}
    assert all(panel["description"] for panel in one["panels"])


def test_costs_are_shown_only_with_prices() -> None:
    assert "Cost per hour" not in str(dashboards(build(pools=[])))
    assert any(one.startswith("0.25 + 0.5 * ") for one in expressions(build()))


@pytest.mark.parametrize(
    ("args", "readers"),
    [
        ({}, ["store"]),
        ({"service_monitors": True}, ["store", "prometheus"]),
        ({"store": "none", "service_monitors": True}, ["prometheus"]),
    ],
)
def test_only_the_store_and_prometheus_read_the_metrics_of_gpus(args: dict[str, Any], readers: list[str]) -> None:
    policies = {
        plain(one.inputs)["metadata"]["namespace"]: plain(one.inputs)["spec"] for one in build(**args).of_type(POLICY)
    }
    [rule] = policies["dcgm-exporter"]["ingress"]
    label = "kubernetes.io/metadata.name"
    peers = {
        "store": {
            "namespaceSelector": {
                "matchExpressions": [{"key": label, "operator": "In", "values": ["tandem-monitoring"]}]
            }
        },
        "prometheus": {
            "namespaceSelector": {},
            "podSelector": {"matchLabels": {"app.kubernetes.io/managed-by": "prometheus-operator"}},
        },
    }
    assert rule == {"from": [peers[one] for one in readers], "ports": [{"protocol": "TCP", "port": 9400}]}


def test_no_pod_of_another_namespace_reaches_store_or_dashboard(graph: Graph) -> None:
    [spec] = [plain(one.inputs)["spec"] for one in graph.of_type(POLICY) if one.name == "watch-incoming"]
    assert spec["ingress"] == [{"from": [{"podSelector": {}}], "ports": [{"protocol": "TCP", "port": 8428}]}]


def test_monitors_read_what_the_store_reads(graph: Graph, registered: Graph) -> None:
    jobs = values(graph, "victoria-metrics-single")["server"]["scrape"]["config"]["scrape_configs"]
    monitors = [plain(one.inputs) for one in registered.of_type(POD_MONITOR)]
    assert [one["metadata"]["labels"] for one in monitors] == [{"release": "kube-prometheus-stack"}] * 2
    for job, monitor in zip(jobs, monitors, strict=True):
        assert (
            monitor["spec"]["namespaceSelector"]["matchNames"] == job["kubernetes_sd_configs"][0]["namespaces"]["names"]
        )
        [endpoint] = monitor["spec"]["podMetricsEndpoints"]
        assert (endpoint["port"], endpoint["honorLabels"]) == ("metrics", True)
        snake = [
            {re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", key): value for key, value in rule.items()}
            for rule in endpoint["relabelings"]
        ]
        assert snake == job["relabel_configs"]


def test_the_dashboard_of_the_operator_shows_pods_that_wait(graph: Graph, registered: Graph) -> None:
    def titles(one: Graph) -> set[str]:
        return {panel["title"] for panel in dashboards(one)[0]["panels"]}

    assert titles(registered) - titles(graph) == {"Pods on GPUs"}
    [config_map] = registered.of_type(CONFIG_MAP)
    # Default of the sidecar in kube-prometheus-stack's Grafana.
    assert plain(config_map.inputs)["metadata"]["labels"] == {"grafana_dashboard": "1"}
    assert plain(config_map.inputs)["metadata"]["namespace"] == "ollama"


def test_extra_values_are_merged_last() -> None:
    found = build(values={"grafana": {"resources": {"limits": {"memory": "1Gi"}}}})
    assert values(found, "grafana")["resources"] == {
        "requests": {"cpu": "100m", "memory": "512Mi"},
        "limits": {"memory": "1Gi"},
    }
