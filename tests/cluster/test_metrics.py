"""Dashboard and alerts count nothing twice in any sharing mode: Prometheus evaluates both, the real store the first.

The store also reads an exporter through the component's own scrape jobs.
"""

import copy
import http.server
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.monitoring.alerts import rule_groups
from components.monitoring.dashboard import MonitoredPool, Panel, panels
from components.monitoring.scraping import gpu_job, scrape_config
from tests.cluster.deployment import Deployment, Graphs, is_ready, manifests
from tests.cluster.metrics import READINGS, SECONDS, Case, Labels, read_cases, read_labels, read_series
from tests.cluster.store import Store, running_store, wait_for
from tests.control_plane import recipe
from tests.control_plane.api import ApiError
from tests.control_plane.recipe import METRICS

CASES = {case.name: case for case in read_cases()}
POOLS = [MonitoredPool(name="gpu", node_usd_per_hour=0.5, share_mib=7680)]
PANELS = {one.title: one for one in panels(POOLS, 0.25, has_kube_state_metrics=True)}
MINUTES = (READINGS - 1) * SECONDS // 60
MODES = ("exclusive", "timeslice", "mps", "mig")


def rules_of(case: Case) -> list[dict[str, Any]]:
    """The groups of rules in a stack with the models of the case."""
    return rule_groups([MonitoredPool(name="gpu", node_usd_per_hour=0.5, models=case.models)])


def alerts_of(case: Case) -> dict[str, dict[str, Any]]:
    return {rule["alert"]: rule for group in rules_of(case) for rule in group["rules"]}


def expected(case: Case, panel: Panel) -> list[dict[str, float]]:
    """The series of each query of a panel; none for a panel that the case does not name."""
    wanted = (case.panels or {}).get(panel.title, [{}] * len(panel.queries))
    assert len(wanted) == len(panel.queries), panel.title
    return wanted


@pytest.fixture(scope="session")
def tools(programs: Callable[[recipe.Recipe], Path]) -> Path:
    return programs(METRICS)


def check_with_promtool(tools: Path, folder: Path, groups: list[dict[str, Any]], test: dict[str, Any]) -> None:
    """Runs Prometheus's own test of rules on the metrics and the expected alerts of `test`."""
    (folder / "alerts.yaml").write_text(yaml.safe_dump({"groups": groups}), encoding="utf-8")
    head = {"rule_files": ["alerts.yaml"], "evaluation_interval": "15s", "fuzzy_compare": True}
    whole = {**head, "tests": [{"interval": "15s", **test}]}
    (folder / "test.yaml").write_text(yaml.safe_dump(whole), encoding="utf-8")
    command = [str(tools / recipe.PROMETHEUS_TOOL), "test", "rules", str(folder / "test.yaml")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", CASES)
def test_prometheus_makes_of_the_metrics_what_is_worked_out_by_hand(name: str, tools: Path, tmp_path: Path) -> None:
    case = CASES[name]
    groups = copy.deepcopy(rules_of(case))
    for group in groups:
        for rule in group["rules"]:
            del rule["annotations"]
    series = [
        {"series": one.text(), "values": " ".join(["_"] * one.first + [str(value) for _, value in one.readings()])}
        for one in read_series(case.metrics)
    ]
    queries = [
        {
            "expr": query.expr,
            "eval_time": f"{MINUTES}m",
            "exp_samples": [{"labels": labels, "value": value} for labels, value in wanted.items()],
        }
        for panel in PANELS.values()
        if case.panels is not None
        for query, wanted in zip(panel.queries, expected(case, panel), strict=True)
    ]
    alerts = [
        {
            "alertname": alert,
            "eval_time": f"{MINUTES}m",
            "exp_alerts": [
                {"exp_labels": {**rule["labels"], **one["labels"]}} for one in case.alerts if one["alert"] == alert
            ],
        }
        for alert, rule in alerts_of(case).items()
    ]
    test = {"input_series": series, "promql_expr_test": queries, "alert_rule_test": alerts}
    check_with_promtool(tools, tmp_path, groups, test)


@pytest.mark.parametrize(("up", "fires"), [(None, False), (0, False), (1, True)])
def test_models_that_wait_while_the_stack_is_parked_are_no_alert(
    up: int | None, fires: bool, tools: Path, tmp_path: Path
) -> None:
    """`up` of dcgm-exporter: None without GPU nodes, 1 with one. See the case `a pod that waits for a share`."""
    waits = {
        'kube_pod_status_phase{namespace="ollama",pod="mistral",phase="Pending"}': 1,
        'kube_pod_container_resource_requests{namespace="ollama",pod="mistral",resource="nvidia_com_gpu"}': 1,
        **({} if up is None else {'up{job="dcgm-exporter"}': up}),
    }
    [alert] = (rule for group in rule_groups() for rule in group["rules"] if rule["alert"] == "TandemNoShareForPod")
    labels = {**alert["labels"], "namespace": "ollama", "pod": "mistral", "phase": "Pending"}
    said = {
        key: text.replace("{{ $labels.namespace }}/{{ $labels.pod }}", "ollama/mistral")
        for key, text in alert["annotations"].items()
    }
    test = {
        "input_series": [{"series": name, "values": f"{value}+0x{READINGS - 1}"} for name, value in waits.items()],
        "alert_rule_test": [
            {
                "alertname": alert["alert"],
                "eval_time": f"{MINUTES}m",
                "exp_alerts": [{"exp_labels": labels, "exp_annotations": said}] if fires else [],
            }
        ],
    }
    check_with_promtool(tools, tmp_path, rule_groups(parks=True), test)


def test_each_mode_has_a_case_and_each_alert_fires_in_one() -> None:
    assert {*MODES} <= {*CASES}
    known = {alert for case in CASES.values() for alert in alerts_of(case)}
    assert {alert["alert"] for case in CASES.values() for alert in case.alerts} == known


@pytest.fixture(scope="module")
def store(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with running_store(tools, tmp_path_factory.mktemp("store"), "-search.latencyOffset=0s") as running:
        yield running


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.panels is not None])
def test_the_store_makes_of_the_metrics_what_is_worked_out_by_hand(name: str, store: Store) -> None:
    case = CASES[name]
    end = int(time.time()) - 60
    store.replace(
        f"{one.text()} {value} {(end - (READINGS - 1 - number) * SECONDS) * 1000}"
        for one in read_series(case.metrics)
        for number, value in one.readings()
    )
    for panel in PANELS.values():
        for query, wanted in zip(panel.queries, expected(case, panel), strict=True):
            found = {name_of(labels): value for labels, value in store.query(query.expr, end)}
            assert found == pytest.approx({name_of(read_labels(one)): wanted[one] for one in wanted}), query.expr


def name_of(labels: Labels) -> str:
    return str(sorted(labels.items()))


class Exporter(http.server.BaseHTTPRequestHandler):
    """dcgm-exporter on a time-sliced GPU."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(CASES["timeslice"].metrics.encode())

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


def test_the_scrape_job_keeps_the_labels_of_pods_and_gives_none_to_the_gpu(tools: Path, tmp_path: Path) -> None:
    """The job of the component, with a target that has the labels of Kubernetes's discovery."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Exporter)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    discovered = {
        "__meta_kubernetes_pod_container_port_number": "9400",
        "__meta_kubernetes_pod_node_name": "n1",
        "__meta_kubernetes_node_label_tandem_pool": "gpu",
        "__meta_kubernetes_pod_name": "dcgm-exporter-x",
        # The Prometheus Operator gives a target these, before the rules of a PodMonitor.
        "pod": "dcgm-exporter-x",
        "namespace": "dcgm-exporter",
        "container": "exporter",
    }
    config = scrape_config([gpu_job()])
    config["global"]["scrape_interval"] = "1s"
    [job] = config["scrape_configs"]
    del job["kubernetes_sd_configs"]
    other = {**discovered, "__meta_kubernetes_pod_container_port_number": "8080"}
    target = f"127.0.0.1:{server.server_port}"
    job["static_configs"] = [{"targets": [target], "labels": labels} for labels in (discovered, other)]
    file = tmp_path / "scrape.yaml"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    options = (f"-promscrape.config={file}", "-promscrape.config.strictParse=true", "-search.latencyOffset=0s")
    with running_store(tools, tmp_path, *options) as store:
        wait_for(lambda: store.query("DCGM_FI_DEV_FB_USED"), lambda: (tmp_path / "store.log").read_text())
        found = store.query("DCGM_FI_DEV_FB_USED")
    server.shutdown()
    wanted = [
        ({**one.labels, "instance": target}, one.start)
        for one in read_series(CASES["timeslice"].metrics)
        if one.name == "DCGM_FI_DEV_FB_USED"
    ]
    assert sorted(found, key=itemgetter(1)) == sorted(wanted, key=itemgetter(1))


def test_the_api_server_accepts_the_monitors_of_the_prometheus_operator(
    cluster: Deployment, graphs: Graphs, tools: Path
) -> None:
    definitions = yaml.safe_load_all((tools / recipe.OPERATOR_CRDS).read_text(encoding="utf-8"))
    for one in filter(None, definitions):
        cluster.api.apply(one)

    def known() -> bool:
        try:
            served = cluster.api.call("GET", "/apis/monitoring.coreos.com/v1")["resources"]
        except ApiError:
            return False
        return {"PodMonitor", "PrometheusRule"} <= {one["kind"] for one in served}

    cluster.wait_for("the server knew the monitors", known)
    found = manifests(graphs("with-monitors"))
    kinds = [one["kind"] for one in found]
    assert (kinds.count("PodMonitor"), kinds.count("PrometheusRule")) == (2, 1)
    for one in found:
        if one["kind"] in ("Namespace", "PodMonitor", "PrometheusRule"):
            cluster.api.apply(one)


def test_the_exporter_runs_on_the_gpu_node_and_the_rest_on_system_nodes(cluster: Deployment, graphs: Graphs) -> None:
    cluster.deploy(graphs("monitored"))
    cluster.wait_for_daemons("dcgm-exporter", {"tandem-gpu-group-0"}, "dcgm-exporter")

    def placed() -> dict[str, str]:
        pods = [pod for pod in cluster.pods("tandem-monitoring") if is_ready(pod)]
        return {pod["metadata"]["labels"]["app.kubernetes.io/instance"]: pod["spec"]["nodeName"] for pod in pods}

    cluster.wait_for("store and dashboards ran", lambda: {*placed()} == {"victoria-metrics", "grafana"})
    assert {*placed().values()} == {"tandem-system-0"}
