"""The hardware of the emulated cloud, and the catalogue of the rules: two tables, each from its own source."""

import pytest

from sandbox.world.controllers import hardware
from sharing import tables


@pytest.mark.real_world(
    behaviour="EC2 reports vCPUs, memory, GPUs and local disks of each GPU instance type",
    source="EC2 DescribeInstanceTypes, by karpenter-provider-aws v1.14.1 reference/instance-types.md",
)
def test_instance_types_are_the_same_in_both_tables() -> None:
    ours = {row["instance_type"]: row for row in tables.read("gpu_instances").rows}
    cloud = {row["instance_type"]: row for row in hardware.rows() if row["manufacturer"]}
    assert ours.keys() == cloud.keys()
    for name, row in ours.items():
        for key in ("vcpu", "memory_mib", "gpus", "gpu_memory_mib", "arch", "local_nvme_gb"):
            assert row[key] == cloud[name][key], f"{name}: {key}"
        assert row["gpu"].startswith(cloud[name]["gpu"]), name


def test_instance_types_for_system_nodes_are_the_same_in_both_tables() -> None:
    cloud = {row["instance_type"]: row for row in hardware.rows() if not row["manufacturer"]}
    for row in tables.read("system_instances").rows:
        found = cloud.pop(row["instance_type"])
        assert all(row[key] == found[key] for key in ("vcpu", "memory_mib", "arch")), row
    assert cloud == {}


@pytest.mark.parametrize(
    ("kind", "gpus"), [("g4dn.xlarge", 1), ("g4dn.12xlarge", 4), ("g6f.large", 1), ("g4ad.xlarge", 0), ("m7i.large", 0)]
)
def test_the_plugin_counts_a_part_of_a_gpu_as_one_and_no_amd_gpu(kind: str, gpus: int) -> None:
    assert hardware.gpus(kind) == gpus
