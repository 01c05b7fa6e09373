"""The instance types that Karpenter can buy, as EC2 reports them and as the AWS provider labels and counts them."""

from collections.abc import Collection
from typing import Any

from sandbox.world.controllers.hardware import rows
from sandbox.world.tables import Row
from sharing.aws.partitions import HOME_REGION
from sharing.hardware import prices

INSTANCE_TYPE = "node.kubernetes.io/instance-type"
CAPACITY_TYPE = "karpenter.sh/capacity-type"
ZONE = "topology.kubernetes.io/zone"
AWS = "karpenter.k8s.aws/"
GPU_COUNT = f"{AWS}instance-gpu-count"
"""The one label of AWS's provider that our pools request.

Source: karpenter-provider-aws 1.14.1 pkg/providers/instancetype/types.go, computeRequirements.
"""
ZONES = ("a", "b")
PODS = 29
"""The pods that kubelet allows on the smallest of our types: 3 network interfaces of 10 addresses."""


def for_sale(*, without_spot: Collection[str] = ()) -> list[dict[str, Any]]:
    """All of them with their prices, in the form that Karpenter's KWOK provider reads from its file.

    A type is offered on spot where a spot price is known and `without_spot` does not withdraw it. Resources are the
    physical ones: one GPU is one `nvidia.com/gpu`, and the slice of one that a g6f has is none.
    """
    return [_sold(row, without_spot) for row in rows()]


def _sold(row: Row, without_spot: Collection[str]) -> dict[str, Any]:
    name = row["instance_type"]
    resources = {"cpu": row["vcpu"], "memory": f"{row['memory_mib']}Mi", "pods": str(PODS)}
    if row["gpu"]:
        dollars = {"on-demand": prices.on_demand(name, HOME_REGION).usd_per_hour}
        spot = prices.spot(name, HOME_REGION)
        if spot is not None and name not in without_spot:
            dollars["spot"] = spot.usd_per_hour
        if int(row["gpus"]):
            resources[f"{row['manufacturer']}.com/gpu"] = row["gpus"]
    else:
        dollars = {"on-demand": prices.system_node(name, HOME_REGION).usd_per_hour}
    return {
        "name": name,
        "architecture": row["arch"],
        "operatingSystems": ["linux"],
        "resources": resources,
        "offerings": [
            {"Price": usd, "Requirements": _requirements(row, capacity, f"{HOME_REGION}{zone}")}
            for capacity, usd in sorted(dollars.items())
            for zone in ZONES
        ],
    }


def _requirements(row: Row, capacity: str, zone: str) -> list[dict[str, Any]]:
    """The provider labels its nodes with an offering's requirements: the only way to set our labels."""
    wanted = {CAPACITY_TYPE: capacity, ZONE: zone, **({GPU_COUNT: row["gpus"]} if row["gpu"] else {})}
    return [{"key": key, "operator": "In", "values": [value]} for key, value in wanted.items()]
