"""The instance types that Karpenter can buy: what EC2 reports of them, as its AWS provider labels and counts it."""

import re
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

from sandbox.world.hardware import Row, rows
from sharing import prices
from sharing.prices import HOME_REGION

Labels = dict[str, str]
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
ZONE = "topology.kubernetes.io/zone"
AWS = "karpenter.k8s.aws/"
ZONES = ("a", "b")
PODS = 29
"""What kubelet allows the smallest of our types: 3 network interfaces of 10 addresses."""
_FAMILY = re.compile(r"(?P<category>[a-z]+)(?P<generation>\d+)")


@cache
def aws_labels() -> dict[str, Labels]:
    """Labels of AWS's provider by instance type, of GPU types and of those for system nodes.

    Source: karpenter-provider-aws 1.14.1 pkg/providers/instancetype/types.go, computeRequirements.
    """
    return {row["instance_type"]: _labels(row) for row in rows()}


def for_sale(
    *, region: str = HOME_REGION, zones: Sequence[str] = ZONES, without_spot: Collection[str] = ()
) -> list[dict[str, Any]]:
    """All of them with their prices, in the form that Karpenter's KWOK provider reads from its file.

    A type is offered on spot where a spot price is known and `without_spot` does not withdraw it. Resources are the
    physical ones: one GPU is one `nvidia.com/gpu`, and the slice of one that a g6f has is none.
    """
    return [_sold(row, region, zones, without_spot) for row in rows()]


def _labels(row: Row) -> Labels:
    family, _, size = row["instance_type"].partition(".")
    of_family = _FAMILY.match(family)
    assert of_family
    labels = {
        "instance-category": of_family["category"],
        "instance-generation": of_family["generation"],
        "instance-family": family,
        "instance-size": size,
        "instance-cpu": row["vcpu"],
        "instance-memory": row["memory_mib"],
    }
    if row["gpu"]:
        labels |= {
            "instance-gpu-name": row["gpu"],
            "instance-gpu-manufacturer": row["manufacturer"],
            "instance-gpu-count": row["gpus"],
            "instance-gpu-memory": row["gpu_memory_mib"],
        }
    if int(row["local_nvme_gb"]):
        labels["instance-local-nvme"] = row["local_nvme_gb"]
    return {f"{AWS}{key}": value for key, value in labels.items()}


def _sold(row: Row, region: str, zones: Sequence[str], without_spot: Collection[str]) -> dict[str, Any]:
    name = row["instance_type"]
    resources = {"cpu": row["vcpu"], "memory": f"{row['memory_mib']}Mi", "pods": str(PODS)}
    if row["gpu"]:
        dollars = {"on-demand": prices.on_demand(name, region).usd_per_hour}
        spot = prices.spot(name, region)
        if spot is not None and name not in without_spot:
            dollars["spot"] = spot.usd_per_hour
        if int(row["gpus"]):
            resources[f"{row['manufacturer']}.com/gpu"] = row["gpus"]
    else:
        dollars = {"on-demand": prices.system_node(name, region).usd_per_hour}
    return {
        "name": name,
        "architecture": row["arch"],
        "operatingSystems": ["linux"],
        "resources": resources,
        "offerings": [
            {"Price": usd, "Requirements": _requirements(aws_labels()[name], capacity, f"{region}{zone}")}
            for capacity, usd in sorted(dollars.items())
            for zone in zones
        ],
    }


def _requirements(labels: Labels, capacity: str, zone: str) -> list[dict[str, Any]]:
    """The provider puts what an offering requires on its nodes: the only way for our labels to get there."""
    wanted = {CAPACITY_TYPE: capacity, ZONE: zone, **labels}
    return [{"key": key, "operator": "In", "values": [value]} for key, value in wanted.items()]
