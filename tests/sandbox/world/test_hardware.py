"""The hardware of the emulated cloud, and the catalogue of the rules: two tables, each from its own sources."""

import ast
import re
from collections.abc import Iterator
from itertools import combinations_with_replacement
from pathlib import Path

import pytest

from sandbox.world import hardware
from sharing import tables
from sharing.hardware import gpus as catalogue
from sharing.hardware import mig

ROOT = Path(__file__).resolve().parents[3]
KNOWN = {name: one for name, one in catalogue.instance_types().items() if one.gpu.vendor == "nvidia"}
WITH_MIG = {one.gpu.name: (one.gpu, hardware.instance_types()[name].gpu) for name, one in KNOWN.items()}
CATALOGUE = re.compile(r"sharing\.(gpus|mig|fit|matrix|assessment|karpenter)\b")
TABLES = re.compile(r"""read\(["'](?!durations["'])""")
"""The only table of the rules that the emulated cloud reads: the durations of AWS's operations."""


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


@pytest.mark.real_world(
    behaviour="A MIG profile has a size, possible start positions, and a maximum number on one GPU",
    source="NVIDIA go-nvml pkg/nvml/mock/gpus/a100.go, a30.go; gpu-operator v26.7.0 assets 0400_configmap.yaml",
)
@pytest.mark.parametrize("name", [name for name, (gpu, _) in WITH_MIG.items() if mig.profiles(gpu)])
def test_mig_profiles_are_the_same_in_both_tables(name: str) -> None:
    ours, cloud = WITH_MIG[name]
    expected = {one.name: (one.slices, one.starts, one.most, one.media) for one in mig.profiles(ours).values()}
    found = {one.name: (one.size, one.starts, one.instances, one.media) for one in hardware.profiles(cloud).values()}
    assert found == expected


def test_a_gpu_without_mig_has_no_profiles_in_either_table() -> None:
    for ours, cloud in WITH_MIG.values():
        assert bool(mig.profiles(ours)) == bool(hardware.profiles(cloud)), cloud


def layouts(profiles: dict[str, hardware.Profile], most: int) -> Iterator[dict[str, int]]:
    for count in range(1, most + 1):
        for names in combinations_with_replacement(sorted(profiles), count):
            yield {name: names.count(name) for name in names}


@pytest.mark.parametrize("name", ["a100-40gb", "rtx-pro-server-6000"])
def test_the_cloud_and_the_rules_agree_on_which_layouts_fit(name: str) -> None:
    ours, cloud = WITH_MIG[name]
    for layout in layouts(hardware.profiles(cloud), most=4):
        ruled = mig.fits(tuple((mig.profiles(ours)[one], count) for one, count in layout.items()), ours)
        fits = hardware.fits([(hardware.profiles(cloud)[one], count) for one, count in layout.items()], cloud)
        assert fits == ruled, layout


@pytest.mark.parametrize(
    ("layout", "fits"),
    [
        # A mixed layout that NVIDIA ships as all-balanced, and layouts that MIG's user guide shows or does not show.
        ({"1g.5gb": 2, "2g.10gb": 1, "3g.20gb": 1}, True),
        ({"4g.20gb": 1, "3g.20gb": 1}, True),
        ({"3g.20gb": 2}, True),
        ({"3g.20gb": 2, "1g.5gb": 1}, False),
        ({"4g.20gb": 2}, False),
        ({"1g.5gb+me": 2}, False),
        ({"7g.40gb": 1, "1g.5gb": 1}, False),
    ],
)
def test_known_layouts_of_an_a100(layout: dict[str, int], fits: bool) -> None:
    gpu = hardware.instance_types()["p4d.24xlarge"].gpu
    wanted = [(hardware.profiles(gpu)[name], count) for name, count in layout.items()]
    assert hardware.fits(wanted, gpu) is fits


def test_the_plugin_counts_a_part_of_a_gpu_as_one_and_ec2_as_none() -> None:
    part = hardware.instance_types()["g6f.large"]
    assert (part.gpus, part.gpu.is_slice, part.gpu.memory_mib) == (1, True, 2861)


def test_nvidias_plugin_finds_no_amd_gpu() -> None:
    assert "g4ad.xlarge" not in hardware.instance_types()


def test_the_emulated_cloud_reads_no_catalogue_of_the_rules() -> None:
    for path in sorted((ROOT / "sandbox").glob("**/*.py")):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sharing"):
                for name in node.names:
                    assert not CATALOGUE.match(f"{node.module}.{name.name}"), f"{path}:{node.lineno}"
        if "sharing" in text:
            assert not TABLES.search(text), path
