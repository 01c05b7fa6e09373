"""Metrics on the real engine: store and exporters come, stay, change and go, and the password is encrypted."""

import json

from sandbox.world import World
from tests.engine.emulated import Raise

SECRET = "kubernetes:core/v1:Secret"
RELEASE = "kubernetes:helm.sh/v3:Release"
CHARTS = {"dcgm-exporter", "victoria-metrics-single", "grafana"}


def test_metrics_come_stay_and_go(raised: Raise) -> None:
    stack = raised("dev", {"monitoring": {"store": "builtin"}})

    def charts() -> set[str]:
        return {one.inputs["chart"] for one in stack.entities(RELEASE)} & CHARTS

    assert charts() == CHARTS
    [secret] = stack.entities(SECRET)
    password = secret.inputs["stringData"]["admin-password"]
    [grafana] = [one for one in stack.entities(RELEASE) if one.inputs["chart"] == "grafana"]
    assert grafana.inputs["values"]["admin"] == {"existingSecret": secret.outputs["metadata"]["name"]}
    assert stack.comes_up().changed == {}, "nothing has changed"
    assert password not in json.dumps(stack.state()), "secrets are encrypted"

    # Other costs make another dashboard, and its ConfigMap gets another name.
    stack.configure({"cluster": {"system-nodes": {"count": 2}}})
    changed = stack.comes_up().changed
    assert "tandem-monitoring-dashboards" in changed["replace"]
    assert "tandem-monitoring-grafana" in changed["update"]
    [kept] = stack.entities(SECRET)
    assert kept.inputs["stringData"]["admin-password"] == password, "the password stays"

    stack.configure({"monitoring": {"store": "none"}})
    assert {*stack.comes_up().changed["delete"]} == {"tandem-monitoring", "tandem-ollama-model-metrics"}
    assert (charts(), stack.entities(SECRET)) == (set(), [])
    # The emulated cluster has no Prometheus Operator.
    stack.configure({"monitoring": {"store": "builtin", "service-monitors": True}})
    failed = stack.up()
    assert failed.code != 0
    assert 'no matches for kind "PodMonitor"' in str(failed.errors)
    stack.configure({"monitoring": {"service-monitors": False}})
    stack.comes_up()
    assert charts() == CHARTS
    stack.goes_down()
    assert stack.behind(World.entities) == []
