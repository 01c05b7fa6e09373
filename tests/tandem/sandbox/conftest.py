"""Fixtures for all tests of `tandem sandbox`."""

from pathlib import Path

import pytest

from tandem.sandbox import processes


@pytest.fixture(autouse=True)
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Only processes that a test links here can be found and ended, so a bug ends no others."""
    folder = tmp_path / "proc"
    folder.mkdir()
    monkeypatch.setattr(processes, "PROC", folder)
    return folder
