"""What the pinned charts make of our values, by hand: the objects on which admission and placement depend.

A chart repository is not reachable everywhere, and pods must be scheduled everywhere. `test_charts.py` holds what is
written here against what helm renders, where it can. Images are without registry; configuration of programs that never
run here is left out.
"""

from collections.abc import Callable, Mapping
from typing import Any

Object = dict[str, Any]
Render = Callable[[Mapping[str, Any]], list[Object]]
"""Helm, for one of our releases."""
PLUGIN = "nvidia-device-plugin"
NFD = "node-feature-discovery"
NFD_VERSION = "v0.19.0"


def objects_of(release: Mapping[str, Any]) -> list[Object]:
    """The objects of one of our releases, from its inputs."""
    chart = release["chart"].rpartition("/")[2]
    made = {"ollama": _ollama, PLUGIN: _device_plugin, NFD: _node_feature_discovery}[chart](release)
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
        "nodeSelector": values["nodeSelector"],
        "tolerations": [
            {"key": gpu["nvidiaResource"], "operator": "Exists", "effect": "NoSchedule"},
            *values["tolerations"],
        ],
    }
    service = {"type": values["service"]["type"], "selector": chosen, "ports": [_port(values["service"]["port"])]}
    return [
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": name},
            "automountServiceAccountToken": values["serviceAccount"]["automount"],
        },
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": service},
        _workload("Deployment", name, chosen, pod, replicas=values["replicaCount"], strategy=values["updateStrategy"]),
    ]


def _port(port: int) -> Object:
    return {"name": "http", "port": port, "targetPort": "http", "protocol": "TCP"}


def _device_plugin(release: Mapping[str, Any]) -> list[Object]:
    values, version, name = release["values"], f"v{release['version']}", release["name"]
    assert values["gfd"]["enabled"]
    assert not values["nfd"]["enabled"]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": f"{name}-service-account"}},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"{name}-configs"},
            "data": values["config"]["map"],
        },
        _gpu_daemons(name, "", _plugin_pod(version), values),
        _gpu_daemons(name, "-gpu-feature-discovery", _discovery_pod(version), values),
        _gpu_daemons(name, "-mps-control-daemon", _mps_pod(version), values),
    ]


def _gpu_daemons(release: str, suffix: str, pod: Object, values: Mapping[str, Any]) -> Object:
    """All three have the same selector, tolerations and affinity, and nodeSelectors that begin alike."""
    chosen = {"app.kubernetes.io/name": PLUGIN, "app.kubernetes.io/instance": release}
    common = {
        "priorityClassName": "system-node-critical",
        "serviceAccountName": f"{release}-service-account",
        "tolerations": values["tolerations"],
        "affinity": values["affinity"],
        "nodeSelector": {**values["nodeSelector"], **pod.pop("nodeSelector", {})},
    }
    pod["volumes"] += [
        {"name": "available-configs", "configMap": {"name": f"{release}-configs"}},
        {"name": "config", "emptyDir": {}},
    ]
    return _workload("DaemonSet", f"{release}{suffix}", chosen, {**common, **pod})


def _plugin_pod(version: str) -> Object:
    admin = {"capabilities": {"add": ["SYS_ADMIN"]}}
    mounts = {
        "kubelet-device-plugins-dir": "/var/lib/kubelet/device-plugins",
        "mps-shm": "/dev/shm",
        "mps-root": "/mps",
        "cdi-root": "/var/run/cdi",
    }
    return {
        "shareProcessNamespace": True,
        "initContainers": [_configured("nvidia-device-plugin-init", version)],
        "containers": [
            _configured("nvidia-device-plugin-sidecar", version, securityContext=admin),
            _configured("nvidia-device-plugin-ctr", version, mounts, securityContext=admin),
        ],
        "volumes": [
            _host("kubelet-device-plugins-dir", "/var/lib/kubelet/device-plugins", "Directory"),
            _host("mps-root", "/run/nvidia/mps", "DirectoryOrCreate"),
            _host("mps-shm", "/run/nvidia/mps/shm"),
            _host("cdi-root", "/var/run/cdi", "DirectoryOrCreate"),
        ],
    }


def _discovery_pod(version: str) -> Object:
    privileged = {"privileged": True}
    features = "/etc/kubernetes/node-feature-discovery/features.d"
    return {
        "shareProcessNamespace": True,
        "initContainers": [_configured("gpu-feature-discovery-init", version)],
        "containers": [
            _configured("gpu-feature-discovery-sidecar", version, securityContext=privileged),
            _configured(
                "gpu-feature-discovery-ctr",
                version,
                {"output-dir": features, "host-sys": "/sys"},
                securityContext=privileged,
            ),
        ],
        "volumes": [
            _host("output-dir", features, "DirectoryOrCreate"),
            _host("host-sys", "/sys", "Directory"),
            _host("driver-root", "/", "Directory"),
        ],
    }


def _mps_pod(version: str) -> Object:
    privileged = {"privileged": True}
    root: Object = {
        "name": "mps-control-daemon-mounts",
        "image": f"k8s-device-plugin:{version}",
        "securityContext": privileged,
        "volumeMounts": [{"name": "mps-root", "mountPath": "/mps", "mountPropagation": "Bidirectional"}],
    }
    return {
        "hostPID": True,
        "nodeSelector": {"nvidia.com/mps.capable": "true"},
        "initContainers": [root, _configured("mps-control-daemon-init", version)],
        "containers": [
            _configured("mps-control-daemon-sidecar", version),
            _configured(
                "mps-control-daemon-ctr",
                version,
                {"mps-shm": "/dev/shm", "mps-root": "/mps"},
                securityContext=privileged,
            ),
        ],
        "volumes": [
            _host("mps-root", "/run/nvidia/mps", "DirectoryOrCreate"),
            _host("mps-shm", "/run/nvidia/mps/shm"),
        ],
    }


def _configured(name: str, version: str, mounts: Mapping[str, str] | None = None, **more: Any) -> Object:
    """A container that sees the configs."""
    paths = {**(mounts or {}), "available-configs": "/available-configs", "config": "/config"}
    return {
        "name": name,
        "image": f"k8s-device-plugin:{version}",
        "volumeMounts": [{"name": volume, "mountPath": path} for volume, path in paths.items()],
        **more,
    }


def _node_feature_discovery(release: Mapping[str, Any]) -> list[Object]:
    values, conf = release["values"], "/etc/kubernetes/node-feature-discovery"
    host = {
        "host-boot": ("/boot", "/host-boot"),
        "host-os-release": ("/etc/os-release", "/host-etc/os-release"),
        "host-sys": ("/sys", "/host-sys"),
        "host-usr-lib": ("/usr/lib", "/host-usr/lib"),
        "host-lib": ("/lib", "/host-lib"),
        "host-proc-swaps": ("/proc/swaps", "/host-proc/swaps"),
        "features-d": (f"{conf}/features.d/", f"{conf}/features.d/"),
    }
    master = "node-role.kubernetes.io/control-plane"
    accounts = (NFD, f"{NFD}-gc", f"{NFD}-worker")
    return [
        *({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}} for name in accounts),
        _discovery_part(
            "worker",
            f"{NFD}-worker",
            {"limits": {"memory": "512Mi"}, "requests": {"cpu": "5m", "memory": "64Mi"}},
            {**{name: inside for name, (_, inside) in host.items()}, "nfd-worker-conf": conf},
            tolerations=values["worker"]["tolerations"],
            volumes=[*(_host(name, path) for name, (path, _) in host.items()), _configuration("nfd-worker-conf")],
        ),
        _discovery_part(
            "master",
            "node-feature-discovery",
            {"limits": {"memory": "4Gi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
            {"nfd-master-conf": conf},
            tolerations=[{"key": master, "operator": "Equal", "value": "", "effect": "NoSchedule"}],
            affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [_preferred(master)]}},
            volumes=[_configuration("nfd-master-conf")],
        ),
        _discovery_part(
            "gc", f"{NFD}-gc", {"limits": {"memory": "1Gi"}, "requests": {"cpu": "10m", "memory": "128Mi"}}, {}
        ),
    ]


def _discovery_part(role: str, account: str, resources: Object, mounts: Mapping[str, str], **pod: Any) -> Object:
    container: Object = {"name": role, "image": f"node-feature-discovery:{NFD_VERSION}", "resources": resources}
    if mounts:
        container["volumeMounts"] = [
            {"name": volume, "mountPath": path, "readOnly": True} for volume, path in mounts.items()
        ]
    chosen = {"app.kubernetes.io/name": "node-feature-discovery", "app.kubernetes.io/instance": NFD, "role": role}
    whole = {"serviceAccountName": account, "dnsPolicy": "ClusterFirstWithHostNet", "containers": [container], **pod}
    return _workload("DaemonSet" if role == "worker" else "Deployment", f"{NFD}-{role}", chosen, whole)


def _preferred(label: str) -> Object:
    return {"weight": 1, "preference": {"matchExpressions": [{"key": label, "operator": "In", "values": [""]}]}}


def _configuration(name: str) -> Object:
    key = name.replace("nfd-", "").replace("-conf", "")
    items = [{"key": f"nfd-{key}.conf", "path": f"nfd-{key}.conf"}]
    return {"name": name, "configMap": {"name": f"{NFD}-{key}-conf", "items": items}}


def _host(name: str, path: str, kind: str = "") -> Object:
    return {"name": name, "hostPath": {"path": path, **({"type": kind} if kind else {})}}


def _workload(kind: str, name: str, chosen: Mapping[str, str], pod: Object, **spec: Any) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            **spec,
            "selector": {"matchLabels": chosen},
            "template": {"metadata": {"labels": chosen}, "spec": pod},
        },
    }
