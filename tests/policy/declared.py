"""Resources as programs of other people declare them."""

import json
from collections.abc import Mapping
from typing import Any

from policy.program import CONFIG_MAP, GROUP, RELEASE, Resource


def declare(type: str, name: str, **props: Any) -> Resource:
    return Resource(urn=f"urn:pulumi:dev::theirs::{type}::{name}", type=type, name=name, props=props)


def group(*types: str, name: str = "gpus", most: int = 1, **props: Any) -> Resource:
    return declare(GROUP, name, instanceTypes=[*types], scalingConfig={"maxSize": most}, **props)


def node_pool(most: int = 1, operator: str = "In", **needs: list[str]) -> Resource:
    """A NodePool of Karpenter with requirements such as `instance_family=["g5"]`."""
    keys = {name: f"karpenter.k8s.aws/{name.replace('_', '-')}" for name in needs}
    keys |= {"instance_type": "node.kubernetes.io/instance-type", "arch": "kubernetes.io/arch"}
    required = [{"key": keys[name], "operator": operator, "values": values} for name, values in needs.items()]
    spec = {"template": {"spec": {"requirements": required}}, "limits": {"nvidia.com/gpu": most}}
    return declare("kubernetes:karpenter.sh/v1:NodePool", "gpus", metadata={"name": "gpus"}, spec=spec)


def taints(key: str) -> list[dict[str, str]]:
    """As EKS has them."""
    return [{"key": key, "value": "yes", "effect": "NO_SCHEDULE"}]


def affinity(operator: str, value: str, key: str = "pool") -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": key, "operator": operator, "values": [value]}]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def sharing(way: str, replicas: object, **more: object) -> str:
    """The plugin's own file."""
    shared = {way: {"resources": [{"name": "nvidia.com/gpu", "replicas": replicas}], **more}}
    return json.dumps({"version": "v1", "sharing": shared})


def plugin(way: str = "timeSlicing", replicas: object = 2, name: str = "plugin", **values: Any) -> Resource:
    config = {"map": {"any": sharing(way, replicas)}}
    return declare(RELEASE, name, chart="nvidia-device-plugin", values={"config": config, **values})


def operator(**values: Any) -> Resource:
    return declare(RELEASE, "operator", chart="oci://ghcr.io/nvidia/gpu-operator", values=values)


def config_map(name: str, **data: str) -> Resource:
    return declare(CONFIG_MAP, name, metadata={"name": name}, data=data)


def ollama(
    *models: str, name: str = "", env: Mapping[str, str] | None = None, number: int = 1, **more: Any
) -> Resource:
    gpu = {"enabled": True, "type": "nvidia", "number": number}
    values = {"ollama": {"gpu": gpu, "models": {"pull": [*models]}}, "extraEnv": variables(env or {}), **more}
    return declare(RELEASE, name or models[0], chart="ollama", values=values)


def deployment(model: str, limits: Mapping[str, str]) -> Resource:
    """As the chart makes it, where Pulumi renders charts itself."""
    command = ["/bin/sh", "-c", f"while ! /bin/ollama ps; do sleep 5; done\n/bin/ollama pull {model}"]
    container = {
        "name": "ollama",
        "image": "docker.io/ollama/ollama:0.32.15",
        "lifecycle": {"postStart": {"exec": {"command": command}}},
        "resources": {"limits": limits},
    }
    spec = {"replicas": 1, "template": {"spec": {"containers": [container]}}}
    return declare("kubernetes:apps/v1:Deployment", model, spec=spec)


def daemon_set(config: str, default: str) -> Resource:
    """The plugin's, as its chart makes it."""
    env = variables({"DEFAULT_CONFIG": default})
    image = "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"
    containers = [{"name": "nvidia-device-plugin-ctr", "image": image, "env": env}]
    volumes = [{"name": "socket", "hostPath": {"path": "/run"}}, {"name": "configs", "configMap": {"name": config}}]
    pod = {"containers": containers, "volumes": volumes}
    return declare("kubernetes:apps/v1:DaemonSet", "plugin", spec={"template": {"spec": pod}})


def variables(env: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": key, "value": value} for key, value in env.items()]
