"""The catalogue of types for system nodes."""

from sharing import tables
from sharing.hardware.gpus import instance_types
from sharing.hardware.system_instances import SystemType, system_types


def test_a_type_has_the_values_of_its_row() -> None:
    assert system_types()["t4g.medium"] == SystemType(
        name="t4g.medium", vcpu=2, memory_mib=4096, allocatable_mib=3187, arch="arm64", max_pods=17, usd_per_hour=0.0336
    )


def test_every_row_is_a_type_without_a_gpu() -> None:
    assert list(system_types()) == [row["instance_type"] for row in tables.read("system_instances").rows]
    assert not system_types().keys() & instance_types().keys()
    assert {one.arch for one in system_types().values()} == {"amd64", "arm64"}
