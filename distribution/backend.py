"""The build backend: setuptools, with the packages moved before it builds a wheel (PEP 517).

An editable installation and an sdist have the layout of the checkout.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from setuptools import build_meta  # type: ignore[import-untyped]

from distribution.layout import move

build_editable = build_meta.build_editable
build_sdist = build_meta.build_sdist
get_requires_for_build_editable = build_meta.get_requires_for_build_editable
get_requires_for_build_sdist = build_meta.get_requires_for_build_sdist
get_requires_for_build_wheel = build_meta.get_requires_for_build_wheel
prepare_metadata_for_build_editable = build_meta.prepare_metadata_for_build_editable
FILES = ("pyproject.toml", "README.md", "LICENSE")
"""Files that setuptools reads besides the packages."""

Settings = Mapping[str, Any] | None


def build_wheel(wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None) -> str:
    """Builds the wheel from a moved copy of the current folder; returns its file's name."""
    checkout, wheels = Path.cwd(), Path(wheel_directory).resolve()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        move(checkout, Path(folder))
        for name in FILES:
            shutil.copy(checkout / name, folder)
        # Metadata that was made in the checkout would name its packages.
        return str(build_meta.build_wheel(str(wheels), config_settings))
