"""Our own description, with `charts.yaml`, of the pinned charts' objects: the parts for admission and placement.

Pods must be scheduled in every test run, but chart repositories are not reachable everywhere. `test_charts.py` compares
this with Helm's output where possible. Images have no registry. Configuration and mounts of programs that do not run
here are left out.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]
Render = Callable[[Mapping[str, Any]], list[Object]]
"""Helm, for one of our releases."""
PLUGIN = "nvidia-device-plugin"
NFD = "node-feature-discovery"
NFD_VERSION = "v0.19.0"
WRITTEN = Path(__file__).with_name("charts.yaml").read_text(encoding="utf-8")


def objects_of(release: Mapping[str, Any]) -> list[Object]:
    """The objects of one of our releases, from its inputs."""
    chart = release["chart"].rpartition("/")[2]
    made = {
        "ollama": _ollama,
        PLUGIN: _device_plugin,
        NFD: _node_feature_discovery,
        "dcgm-exporter": _gpu_exporter,
        "victoria-metrics-single": _store,
        "grafana": _grafana,
    }[chart](release)
    for one in made:
        one["metadata"].setdefault("namespace", release["namespace"])
    return made


def _ollama(release: Mapping[str, Any]) -> list[Object]:
    values, name = release["values"], release["values"]["fullnameOverride"]
    chosen = {"app.kubernetes.io/name": "ollama", "app.kubernetes.io/instance": release["name"]}
    gpu, claimed = values["ollama"]["gpu"], values.get("persistentVolume", {})
    assert gpu["enabled"]
    assert gpu["type"] == "nvidia"
    data: Object = {"name": "ollama-data"}
    if claimed.get("enabled"):
        data["persistentVolumeClaim"] = {"claimName": claimed["existingClaim"]}
    else:
        data["emptyDir"] = {}
    port = values["ollama"]["port"]
    container = {
        "name": "ollama",
        "image": f"ollama:{values['image']['tag']}",
        "ports": [{"name": "http", "containerPort": port, "protocol": "TCP"}],
        "env": [
            {"name": "OLLAMA_HOST", "value": f"0.0.0.0:{port}"},
            {
                "name": "PATH",
                "value": "/usr/local/nvidia/bin:/usr/local/cuda/bin"
                ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            },
            *values["extraEnv"],
        ],
        "resources": {
            "requests": values["resources"]["requests"],
            "limits": {gpu["nvidiaResource"]: gpu["number"], **values["resources"]["limits"]},
        },
        "volumeMounts": [{"name": "ollama-data", "mountPath": "/root/.ollama"}, *values.get("volumeMounts", [])],
        "lifecycle": values["lifecycle"],
        "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, **values["readinessProbe"]},
        "securityContext": values["securityContext"],
    }
    pod = {
        "serviceAccountName": name,
        "securityContext": values["podSecurityContext"],
        "terminationGracePeriodSeconds": values["terminationGracePeriodSeconds"],
        # `tpl (toYaml . )`: as they are (templates/deployment.yaml; rendered with Helm 3.22 and seen).
        "initContainers": values["initContainers"],
        "containers": [container],
        "volumes": [data, *values.get("volumes", [])],
        "tolerations": [
            {"key": gpu["nvidiaResource"], "operator": "Exists", "effect": "NoSchedule"},
            *values["tolerations"],
        ],
        **{key: values[key] for key in ("nodeSelector", "priorityClassName", "affinity") if values.get(key)},
    }
    served = {"name": "http", "port": values["service"]["port"], "targetPort": "http", "protocol": "TCP"}
    service = {"type": values["service"]["type"], "selector": chosen, "ports": [served]}
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": name},
            "automountServiceAccountToken": values["serviceAccount"]["automount"],
        },
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": service},
        _workload(
            "Deployment",
            name,
            chosen,
            pod,
            values.get("podLabels"),
            replicas=values["replicaCount"],
            strategy=values["updateStrategy"],
        ),
    ]


def _device_plugin(release: Mapping[str, Any]) -> list[Object]:
    values, name = release["values"], release["name"]
    assert values["gfd"]["enabled"]
    assert not values["nfd"]["enabled"]
    account, configs = f"{name}-service-account", f"{name}-configs"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": configs}, "data": values["config"]["map"]},
        *(_gpu_daemons(release, suffix, account, configs) for suffix in _written("plugin", release)),
    ]


def _gpu_daemons(release: Mapping[str, Any], suffix: str, account: str, configs: str) -> Object:
    """All three have the same selector, tolerations and affinity; their nodeSelectors have the same first labels."""
    values, pod = release["values"], _written("plugin", release)[suffix]
    common = {
        "priorityClassName": "system-node-critical",
        "serviceAccountName": account,
        "tolerations": values["tolerations"],
        "affinity": values["affinity"],
        "nodeSelector": {**values["nodeSelector"], **pod.pop("nodeSelector", {})},
    }
    pod["volumes"] += [
        {"name": "available-configs", "configMap": {"name": configs}},
        {"name": "config", "emptyDir": {}},
    ]
    chosen = {"app.kubernetes.io/name": PLUGIN, "app.kubernetes.io/instance": release["name"]}
    return _workload("DaemonSet", f"{release['name']}{suffix}", chosen, {**common, **pod})


def _node_feature_discovery(release: Mapping[str, Any]) -> list[Object]:
    found: list[Object] = []
    for role, pod in _written("discovery", release).items():
        account = {"name": pod["serviceAccountName"]}
        found.append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
        chosen = {"app.kubernetes.io/name": NFD, "app.kubernetes.io/instance": NFD, "role": role}
        shown = {"tolerations": release["values"]["worker"]["tolerations"]} if role == "worker" else {}
        kind = "DaemonSet" if role == "worker" else "Deployment"
        found.append(_workload(kind, f"{NFD}-{role}", chosen, {**pod, **shown}))
    return found


def _gpu_exporter(release: Mapping[str, Any]) -> list[Object]:
    values, name = release["values"], release["name"]
    pod: Object = yaml.safe_load(WRITTEN)["exporter"]
    resources = pod["containers"][0]["resources"]
    resources["requests"] = values["resources"]["requests"]
    resources["limits"] |= values["resources"]["limits"]
    shown = {key: values[key] for key in ("hostPID", "nodeSelector", "tolerations")}
    chosen = {f"app.kubernetes.io/{key}": name for key in ("name", "instance", "component")}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    return [account, _workload("DaemonSet", name, chosen, {"serviceAccountName": name, **pod, **shown})]


def _store(release: Mapping[str, Any]) -> list[Object]:
    values, name = release["values"]["server"], release["name"]
    assert values["persistentVolume"] == {"enabled": False}
    pod: Object = yaml.safe_load(WRITTEN)["store"]
    secured = {part: {**values[part]} for part in ("podSecurityContext", "securityContext")}
    assert all(one.pop("enabled") for one in secured.values())
    pod["containers"][0] |= {"resources": values["resources"], "securityContext": secured["securityContext"]}
    pod["volumes"].append({"name": "server-volume", "emptyDir": values["emptyDir"]})
    pod |= {"serviceAccountName": name, "securityContext": secured["podSecurityContext"]}
    pod["automountServiceAccountToken"] = True
    chosen = {
        "app": "server",
        "app.kubernetes.io/instance": name,
        "app.kubernetes.io/name": "victoria-metrics-single",
    }
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
    return [account, _workload("StatefulSet", name, chosen, pod, serviceName=name, replicas=1)]


def _grafana(release: Mapping[str, Any]) -> list[Object]:
    values, name = release["values"], release["name"]
    pod: Object = yaml.safe_load(WRITTEN)["grafana"]
    pod["containers"][0]["resources"] = values["resources"]
    [(folder, dashboards)] = values["dashboardsConfigMaps"].items()
    pod["volumes"] = [
        {"name": "config", "configMap": {"name": name}},
        {"name": f"dashboards-{folder}", "configMap": {"name": dashboards}},
        {"name": "storage", "emptyDir": {}},
        {"name": "search", "emptyDir": {}},
    ]
    pod["serviceAccountName"] = name
    pod["automountServiceAccountToken"] = values["automountServiceAccountToken"]
    chosen = {"app.kubernetes.io/name": "grafana", "app.kubernetes.io/instance": name}
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name},
        "automountServiceAccountToken": values["serviceAccount"]["automountServiceAccountToken"],
    }
    return [account, _workload("Deployment", name, chosen, pod, replicas=1, strategy=values["deploymentStrategy"])]


def _written(part: str, release: Mapping[str, Any]) -> Object:
    """The pods of `charts.yaml`, with the images of the release's version."""
    text = WRITTEN.replace("image: PLUGIN", f"image: k8s-device-plugin:v{release['version']}")
    found: Object = yaml.safe_load(text.replace("image: NFD", f"image: node-feature-discovery:{NFD_VERSION}"))[part]
    return found


def _workload(
    kind: str, name: str, chosen: Mapping[str, str], pod: Object, labels: Mapping[str, str] | None = None, **spec: Any
) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            **spec,
            "selector": {"matchLabels": chosen},
            "template": {"metadata": {"labels": {**(labels or {}), **chosen}}, "spec": pod},
        },
    }
