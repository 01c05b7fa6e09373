"""The catalogue of GPUs and instance types. Every table names its source."""

import datetime
from importlib.resources import files
from pathlib import Path

import pytest

from sharing import tables
from sharing.hardware import prices
from sharing.hardware.gpus import CUDA_FRACTION_OF_NVML, alike, find_gpu, gpus, instance_types

# Instance types by GPU, family by family, as EC2 and Karpenter list them: 68 with an NVIDIA GPU, 5 with AMD's.
SIZES = {
    "g4dn": ("t4", "xlarge 2xlarge 4xlarge 8xlarge 12xlarge:4 16xlarge metal:8"),
    "g5": ("a10g", "xlarge 2xlarge 4xlarge 8xlarge 12xlarge:4 16xlarge 24xlarge:4 48xlarge:8"),
    "g5g": ("t4g", "xlarge 2xlarge 4xlarge 8xlarge 16xlarge:2 metal:2"),
    "g6": ("l4", "xlarge 2xlarge 4xlarge 8xlarge 12xlarge:4 16xlarge 24xlarge:4 48xlarge:8"),
    "g6e": ("l40s", "xlarge 2xlarge 4xlarge 8xlarge 12xlarge:4 16xlarge 24xlarge:4 48xlarge:8"),
    "g7": ("rtx-pro-4500", "2xlarge 4xlarge 8xlarge 12xlarge:2 24xlarge:4 48xlarge:8"),
    "g7e": ("rtx-pro-server-6000", "2xlarge 4xlarge 8xlarge 12xlarge:2 24xlarge:4 48xlarge:8"),
    "gr6": ("l4", "4xlarge 8xlarge"),
    "p3": ("v100-16gb", "2xlarge 8xlarge:4 16xlarge:8"),
    "p3dn": ("v100-32gb", "24xlarge:8"),
    "p4d": ("a100-40gb", "24xlarge:8"),
    "p4de": ("a100-80gb", "24xlarge:8"),
    "p5": ("h100", "4xlarge 48xlarge:8"),
    "p5e": ("h200", "48xlarge:8"),
    "p5en": ("h200", "48xlarge:8"),
    "p6-b200": ("b200", "48xlarge:8"),
    "p6-b300": ("b300", "48xlarge:8"),
    "g4ad": ("radeon-pro-v520", "xlarge 2xlarge 4xlarge 8xlarge:2 16xlarge:4"),
}
SLICES = {"g6f.large": 2861, "g6f.xlarge": 2861, "g6f.2xlarge": 5722, "g6f.4xlarge": 11444, "gr6f.4xlarge": 11444}
WHOLE = [
    (f"{family}.{size.partition(':')[0]}", gpu, int(size.partition(":")[2] or 1))
    for family, (gpu, sizes) in SIZES.items()
    for size in sizes.split()
]
TABLES = sorted(path.name.removesuffix(".csv") for path in files("sharing").joinpath("data").iterdir())


def test_the_catalogue_has_exactly_these_types() -> None:
    assert sorted(instance_types()) == sorted([*SLICES, *(name for name, _, _ in WHOLE)])
    vendors = [known.gpu.vendor for known in instance_types().values()]
    assert (vendors.count("nvidia"), vendors.count("amd")) == (68, 5)


@pytest.mark.parametrize(("name", "gpu", "count"), WHOLE)
def test_a_type_has_its_gpus(name: str, gpu: str, count: int) -> None:
    known = instance_types()[name]
    assert known.name == name
    assert known.gpu is gpus()[gpu]
    assert known.gpus == count
    assert known.vcpu >= 4
    assert known.memory_mib >= 8192
    assert known.local_nvme_gb >= 0
    assert known.arch == ("arm64" if gpu == "t4g" else "amd64")


@pytest.mark.parametrize(("name", "mib"), SLICES.items())
def test_a_slice_of_a_gpu_counts_as_one_small_gpu(name: str, mib: int) -> None:
    known = instance_types()[name]
    assert (known.gpus, known.gpu.nvml_mib, known.gpu.name) == (1, mib, f"l4/{mib}")
    assert known.gpu.cuda_mib == int(mib * 0.98)
    assert known.gpu.is_slice
    assert known.gpu.cuda_is_derived
    assert known.gpu.compute_capability == (8, 9)


def test_only_fractional_types_have_a_slice() -> None:
    assert sorted(name for name, known in instance_types().items() if known.gpu.is_slice) == sorted(SLICES)


def test_a_t4_has_the_measured_values() -> None:
    t4 = instance_types()["g4dn.xlarge"].gpu
    assert (t4.nvml_mib, t4.cuda_mib) == (15_360, 14_912)
    assert not t4.cuda_is_derived
    assert t4.compute_capability == (7, 5)
    assert t4.title == "T4"
    assert all(figure in t4.source for figure in ("14,912", "15,110"))


DERIVED = ("v100-16gb", "rtx-pro-4500", "radeon-pro-v520")


@pytest.mark.parametrize("name", gpus())
def test_memory_without_a_measurement_is_derived_and_marked(name: str) -> None:
    gpu = gpus()[name]
    assert gpu.name == name
    assert gpu.cuda_is_derived == (name in DERIVED)
    if gpu.cuda_is_derived:
        assert gpu.cuda_mib == int(gpu.nvml_mib * CUDA_FRACTION_OF_NVML)
    assert 0.97 * gpu.nvml_mib <= gpu.cuda_mib < gpu.nvml_mib
    assert gpu.source
    assert not gpu.is_slice


def test_the_memory_of_a_cuda_process_is_known_for_every_nvidia_gpu() -> None:
    """124 and 128 MiB on a T4 (readings.csv), and 589 to 665 on an H100 (tests/gpu/results)."""
    assert 124 <= gpus()["t4"].context_mib <= 128
    h100 = gpus()["h100"]
    assert h100.context_mib - h100.context_spread_mib <= 589
    assert h100.context_mib + h100.context_spread_mib >= 665
    for gpu in gpus().values():
        if gpu.vendor == "nvidia":
            assert 100 < gpu.context_mib < 1000
            assert 0 < gpu.context_spread_mib <= 100
            assert "context:" in gpu.source


def test_derived_memory_is_never_a_larger_part_of_a_gpu_than_measured_memory_except_on_the_t4() -> None:
    assert CUDA_FRACTION_OF_NVML == 0.98
    others = [gpu for gpu in gpus().values() if not gpu.cuda_is_derived and gpu.name not in ("t4", "t4g")]
    measured = [gpu.cuda_mib / gpu.nvml_mib for gpu in others]
    assert min(measured) >= CUDA_FRACTION_OF_NVML - 0.001


def test_gpus_name_the_drivers_that_support_them() -> None:
    bounds = {name: (gpu.min_driver, gpu.max_driver) for name, gpu in gpus().items() if gpu.min_driver + gpu.max_driver}
    assert bounds == {"v100-16gb": (0, 580), "v100-32gb": (0, 580), "rtx-pro-4500": (595, 0)}


def test_mig_needs_the_driver_that_nvidia_s_guide_names() -> None:
    """docs.nvidia.com/datacenter/tesla/mig-user-guide/620/deployment-considerations.html, read on 2026-11-22."""
    guide = {"a100-40gb": 450, "a100-80gb": 450, "h100": 525, "h200": 550, "b200": 570, "b300": 580}
    guide |= {"rtx-pro-server-6000": 575, "rtx-pro-4500": 575}
    assert {name: gpu.mig_min_driver for name, gpu in gpus().items() if gpu.mig_min_driver} == guide


def test_a_gpu_without_compute_capability_is_not_nvidias() -> None:
    assert [gpu.name for gpu in gpus().values() if gpu.compute_capability == (0, 0)] == ["radeon-pro-v520"]
    assert gpus()["b300"].compute_capability == (10, 3)


@pytest.mark.parametrize("name", instance_types())
def test_every_type_has_a_price_or_a_marked_estimate(name: str) -> None:
    price = prices.on_demand(name, "us-east-1")
    assert price.usd_per_hour > 0
    assert price.region == "us-east-1"
    assert price.note == ("estimate, from p5en.48xlarge" if name == "p5e.48xlarge" else "")


def test_all_tables_are_checked() -> None:
    assert sorted(KEYS) == TABLES


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_a_source_and_a_date(name: str) -> None:
    table = tables.read(name)
    assert table.name == name
    assert len(table.source) > 20
    assert datetime.date(2026, 1, 1) <= datetime.date.fromisoformat(table.date) <= datetime.date(2026, 11, 26)
    assert table.rows
    for row in table.rows:
        assert None not in row, "a row with more cells than the heading"
        assert all(value is not None for value in row.values()), "a row with fewer cells than the heading"


KEYS = {
    "durations": ("type",),
    "gpu_instances": ("instance_type",),
    "gpu_memory": ("gpu",),
    "gpu_prices": ("region", "instance_type"),
    "gpu_speed": ("gpu",),
    "artifacts": ("name", "version"),
    "mig_profiles": ("gpu", "profile"),
    "kubernetes_versions": ("version",),
    "model_names": ("name",),
    "models": ("model",),
    "node_pods": ("pod",),
    "offerings": ("region",),
    "quotas": ("quota",),
    "regional_prices": ("region", "instance_type"),
    "regions": ("region",),
    "retired_types": ("family",),
    "service_prices": ("region", "item"),
    "shared_speed": ("what", "setup"),
    "spot_prices": ("region", "instance_type"),
    "system_instances": ("instance_type",),
    "zones": ("zone_id",),
}


@pytest.mark.parametrize("name", TABLES)
def test_no_table_has_two_rows_for_one_key(name: str) -> None:
    keys = [tuple(row[key] for key in KEYS[name]) for row in tables.read(name).rows]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(
    ("text", "fine"),
    [
        ("# source: here: and there\n# date: 2026-01-01\na,b\n1,2\n", True),
        ("# date: 2026-01-01\n# source: here: and there\na,b\n1,2\n", True),
        ("# source: here\na,b\n1,2\n", False),
        ("# date: 2026-01-01\na,b\n1,2\n", False),
        ("# source:\n# date: 2026-01-01\na,b\n", False),
        ("a,b\n1,2\n", False),
        ("# source: here", False),
    ],
)
def test_a_table_without_source_or_date_is_refused(
    text: str, fine: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "odd.csv").write_text(text, encoding="utf-8")
    monkeypatch.setattr(tables, "files", lambda package: tmp_path)
    if fine:
        table = tables.read.__wrapped__("odd")
        assert (table.source, table.date, table.rows) == ("here: and there", "2026-01-01", ({"a": "1", "b": "2"},))
    else:
        with pytest.raises(ValueError, match=r"^odd\.csv must begin with '# source: …' and '# date: …'$"):
            tables.read.__wrapped__("odd")


def test_a_gpu_is_found_by_its_name_or_passed_through() -> None:
    assert find_gpu("t4") is gpus()["t4"]
    assert find_gpu(gpus()["l4"]) is gpus()["l4"]
    with pytest.raises(ValueError, match=r"^unknown GPU 't44'\. Did you mean t4"):
        find_gpu("t44")


def test_types_with_the_same_gpu_can_be_combined() -> None:
    assert [known.gpus for known in alike(("g4dn.xlarge", "g4dn.metal"))] == [1, 8]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("g4dn.xlrage",), r"unknown GPU instance type 'g4dn.xlrage'\. Did you mean g4dn\.xlarge"),
        (("g4dn.xlarge", "g6.xlarge"), "same GPU; found g4dn.xlarge, g6.xlarge"),
        (("g6.xlarge", "g6f.xlarge"), "same GPU"),
        ((), "same GPU; found none"),
    ],
)
def test_types_that_cannot_be_combined_are_named(names: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        alike(names)
