"""Nodes as the plan expects them, and as EKS, kubelet and the device plugin make them of our node groups."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sandbox.graph import Graph, Resource, plain
from sharing.hardware.gpus import InstanceType, instance_types
from sharing.hardware.system_instances import system_types
from sharing.modes.base import GPU_RESOURCE, LAYOUT_LABEL, LAYOUT_STATE_LABEL
from sharing.names import POOL_LABEL
from sharing.sections.pools import NODE_CPU_MILLIS

EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
"""Effects of taints in the EKS API, and their names on the node."""
PODS = 29
"""The pods that kubelet allows on the smallest of our types: 3 network interfaces of 10 addresses."""
ZONES = ("us-east-1a", "us-east-1b")

Node = dict[str, Any]


def node_groups(graph: Graph) -> dict[str, Resource]:
    """Every node group of a stack by name; GPU groups are those with a taint."""
    return {group.name: group for group in graph.of_type("aws:eks/nodeGroup:NodeGroup")}


def nodes(graph: Graph, *, desired: int | None = None) -> Iterator[Node]:
    """The nodes of every group of a stack; `desired` overrides the number of GPU nodes."""
    zone_of = {
        resource.id: plain(resource.outputs)["availabilityZone"] for resource in graph.of_type("aws:ec2/subnet:Subnet")
    }
    for name, group in node_groups(graph).items():
        inputs = plain(group.inputs)
        count = inputs["scalingConfig"]["desiredSize"]
        if inputs["taints"] and desired is not None:
            count = desired
        # The subnets of a VPC of yours are not in the graph, and no volume is tied to a zone of theirs.
        zones = [zone_of.get(subnet, ZONES[0]) for subnet in inputs["subnetIds"]]
        for number in range(count):
            yield node(f"{name}-{number}", graph, inputs, zones[number % len(zones)])


def node(name: str, graph: Graph, group: Mapping[str, Any], zone: str) -> Node:
    """One node of a group, with as many shares as the plugin advertises on it."""
    instance_type = group["instanceTypes"][0]
    size = instance_types().get(instance_type) or system_types()[instance_type]
    capacity = {"cpu": str(size.vcpu), "memory": f"{size.memory_mib}Mi", "pods": str(PODS)}
    allocatable = {
        **capacity,
        "cpu": f"{size.vcpu * 1000 - NODE_CPU_MILLIS}m",
        "memory": f"{size.allocatable_mib}Mi",
    }
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": size.arch,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": instance_type,
        "topology.kubernetes.io/zone": zone,
        "eks.amazonaws.com/capacityType": group["capacityType"],
        **group["labels"],
    }
    made: Node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints(group)},
        "status": {"capacity": capacity, "allocatable": allocatable},
    }
    if isinstance(size, InstanceType):
        offer(made, advertised(graph, labels, size.gpus))
        if LAYOUT_LABEL in labels:
            labels[LAYOUT_STATE_LABEL] = "success"
    return made


def taints(group: Mapping[str, Any]) -> list[dict[str, str]]:
    """The taints of a group's nodes as Kubernetes has them."""
    return [{**taint, "effect": EFFECTS[taint["effect"]]} for taint in group["taints"]]


def offer(node: Node, resources: Mapping[str, int]) -> None:
    """Sets how much of our resources the node offers."""
    for part in ("capacity", "allocatable"):
        node["status"][part] |= {resource: str(count) for resource, count in resources.items()}


def advertised(graph: Graph, labels: Mapping[str, str], gpus: int) -> dict[str, int]:
    """The shares that the device plugin offers on a node with those labels. Its pool's release has one configuration;
    a label names the layout of its GPUs."""
    cut = LAYOUT_LABEL in labels
    name = "tandem-sharing-operator" if cut else f"tandem-sharing-{labels[POOL_LABEL]}-plugin"
    values = plain(graph.named(name).inputs)["values"]
    shown = values["devicePlugin"]["config"] if cut else values["config"]
    config = json.loads(shown["data" if cut else "map"][shown["default"]])
    found = {GPU_RESOURCE: 1}
    if (strategy := config["flags"]["migStrategy"]) != "none":
        slices = _slices(values, labels)
        assert strategy == "mixed" or len(slices) == 1
        name = "nvidia.com/mig-{}" if strategy == "mixed" else GPU_RESOURCE
        found = {name.format(profile.replace("+", ".")): count for profile, count in slices.items()}
    for way in config.get("sharing", {}).values():
        replicas = {row["name"]: row["replicas"] for row in way["resources"]}
        found = {resource: count * replicas[resource] for resource, count in found.items()}
    return {resource: gpus * count for resource, count in found.items()}


def _slices(values: Mapping[str, Any], labels: Mapping[str, str]) -> dict[str, int]:
    """The slices of the layout that the label names."""
    [layout] = json.loads(values["migManager"]["config"]["data"]["config.yaml"])["mig-configs"][labels[LAYOUT_LABEL]]
    assert layout["mig-enabled"]
    return dict(layout["mig-devices"])
