"""What all tests of `tandem sandbox` stand on."""

from pathlib import Path

import pytest

from tandem.sandbox import processes


@pytest.fixture(autouse=True)
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The processes that can be found, and ended: none but those that a test links here. A fault ends no others."""
    folder = tmp_path / "proc"
    folder.mkdir()
    monkeypatch.setattr(processes, "PROC", folder)
    return folder
