"""The catalogue of GPUs and instance types. Every table names its source."""

import datetime
from importlib.resources import files

import pytest

from sharing import tables
from sharing.hardware import prices
from sharing.hardware.gpus import CUDA_FRACTION_OF_NVML, alike, find_gpu, gpus, instance_types

TABLES = sorted(path.name.removesuffix(".csv") for path in files("sharing").joinpath("data").iterdir())
KEYS = {
    **dict.fromkeys(("gpu_prices", "regional_prices", "spot_prices", "system_prices"), ("region", "instance_type")),
    **{"artifacts": ("name", "version"), "mig_profiles": ("gpu", "profile"), "service_prices": ("region", "item")},
    "chart_images": ("chart", "value"),
    "spot_risk": ("region", "instance_type"),
    "hosted_prices": ("model", "provider"),
    "quantizations": ("names",),
    "shared_speed": ("what", "setup"),
    "zones": ("zone_id",),
}
"""Columns that identify a row, where the first one alone does not."""


@pytest.mark.parametrize("name", TABLES)
def test_every_table_has_a_source_a_date_and_one_row_for_each_key(name: str) -> None:
    table = tables.read(name)
    assert len(table.source) > 20
    assert datetime.date(2025, 6, 28) <= datetime.date.fromisoformat(table.date) <= datetime.date(2026, 11, 26)
    keys = [tuple(row[key] for key in KEYS.get(name, [*row][:1])) for row in table.rows]
    assert keys
    assert len(keys) == len(set(keys))
    for row in table.rows:
        assert None not in row, "a row with more cells than the heading"
        assert all(value is not None for value in row.values()), "a row with fewer cells than the heading"


@pytest.mark.parametrize(("name", "mib"), [("g6f.large", 2861), ("gr6f.4xlarge", 11444)])
def test_a_slice_of_a_gpu_counts_as_one_small_gpu(name: str, mib: int) -> None:
    known = instance_types()[name]
    assert (known.gpus, known.gpu.is_slice, known.gpu.nvml_mib, known.gpu.name) == (1, True, mib, f"l4/{mib}")
    assert known.gpu.cuda_mib == int(mib * 0.98)


def test_a_t4_has_the_measured_values() -> None:
    t4 = instance_types()["g4dn.xlarge"].gpu
    assert (t4.nvml_mib, t4.cuda_mib) == (15_360, 14_912)
    assert not t4.cuda_is_derived
    assert t4.compute_capability == (7, 5)
    assert t4.title == "T4"
    assert all(figure in t4.source for figure in ("14,912", "15,110"))


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


def test_mig_needs_the_driver_that_nvidia_s_guide_names() -> None:
    """docs.nvidia.com/datacenter/tesla/mig-user-guide/620/deployment-considerations.html, read on 2026-11-22."""
    guide = {"a100-40gb": 450, "a100-80gb": 450, "h100": 525, "h200": 550, "b200": 570, "b300": 580}
    guide |= {"rtx-pro-server-6000": 575, "rtx-pro-4500": 575}
    assert {name: gpu.mig_min_driver for name, gpu in gpus().items() if gpu.mig_min_driver} == guide


def test_every_type_has_a_price_or_a_marked_estimate() -> None:
    for name in instance_types():
        price = prices.on_demand(name, "us-east-1")
        assert (price.usd_per_hour > 0, price.region) == (True, "us-east-1"), name
        assert price.note == ("estimate, from p5en.48xlarge" if name == "p5e.48xlarge" else ""), name


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
