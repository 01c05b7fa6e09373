"""The pinned versions work, alone and together. A bump that breaks this fails here."""

import pytest

from sharing import artifacts, versions

OLDEST_KARPENTER = {"1.34": (1, 6), "1.35": (1, 9), "1.36": (1, 13)}
"""First Karpenter for a Kubernetes version. Source: karpenter-provider-aws v1.14.1, upgrading/compatibility.md."""


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.removeprefix("v").split("."))


def test_no_image_is_of_amazon_linux_2() -> None:
    # The EKS AMIs of Amazon Linux 2 ended on 2025-11-26.
    for types in (versions.GPU_AMI_TYPES, versions.SYSTEM_AMI_TYPES):
        assert all(ami_type.startswith("AL2023_") for ami_type in types.values())


def test_the_device_plugin_runs_mps_and_leaves_gds_off() -> None:
    # Since 0.18 its MPS daemon runs with the host's PIDs (k8s-device-plugin#1045); 0.19.0 to 0.19.2 turn GDS, GDRCopy
    # and MOFED on by default (#1837).
    plugin = numbers(versions.DEVICE_PLUGIN_CHART)
    assert plugin >= (0, 18)
    assert not (0, 19, 0) <= plugin <= (0, 19, 2)


def test_the_gpu_operator_contains_a_device_plugin_like_ours() -> None:
    # The first with plugin 0.20, which knows `sharedDevicesAllocationPolicy` and names all profiles.
    assert numbers(versions.GPU_OPERATOR_CHART) >= (26, 7)


@pytest.mark.parametrize("kubernetes", OLDEST_KARPENTER)
def test_every_pinned_kubernetes_has_karpenter_its_kubelet_and_its_add_ons(kubernetes: str) -> None:
    assert numbers(versions.KARPENTER_CHART) >= OLDEST_KARPENTER[kubernetes]
    assert versions.ami_release(kubernetes).startswith(kubernetes)
    add_ons = (versions.VPC_CNI, versions.KUBE_PROXY, versions.COREDNS, versions.EBS_CSI_DRIVER)
    assert all(kubernetes in table for table in (*add_ons, versions.POD_IDENTITY_AGENT))


def test_an_image_is_named_by_version_and_digest() -> None:
    pause = "registry.k8s.io/pause:3.10@sha256:ee6521f290b2168b6e0935a181d4cff9be1ac3f505666ef0e3c98fae8199917a"
    assert artifacts.find("registry.k8s.io/pause").reference == pause
