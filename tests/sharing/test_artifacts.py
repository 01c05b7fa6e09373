"""The table of images and charts."""

import pytest

from sharing import artifacts


def test_an_image_is_named_by_version_and_digest() -> None:
    pause = "registry.k8s.io/pause:3.10@sha256:ee6521f290b2168b6e0935a181d4cff9be1ac3f505666ef0e3c98fae8199917a"
    assert artifacts.find("registry.k8s.io/pause").reference == pause


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(KeyError):
        artifacts.find("registry.k8s.io/unknown")


def test_a_gpu_node_downloads_the_measured_sizes() -> None:
    """Ollama, the device plugin and node feature discovery: 3,110 + 53 + 60 MiB (facts of 2026-11-20)."""
    assert artifacts.images_mib() == 3223
