"""The measurement of memory: files, servers that must be on the GPU, and incomplete files of an earlier call."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.gpu.memory import Files, check_all_on_gpu
from tests.gpu.progress import FailedError
from tests.gpu.readings import read_load


def test_a_model_with_all_layers_on_the_gpu_is_measured() -> None:
    check_all_on_gpu(read_load(["load_tensors: offloaded 29/29 layers to GPU"]), "m.log")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["load_tensors: offloaded 12/29 layers to GPU"], "12 of 29 layers on the GPU: see m.log"),
        # Without a GPU, the engine does not write that line.
        (["load_tensors:   CPU_Mapped model buffer size =     2.59 MiB"], "0 of . layers on the GPU"),
    ],
    ids=["some", "none"],
)
def test_a_model_that_the_cpu_serves_is_not_measured(lines: list[str], said: str) -> None:
    with pytest.raises(FailedError, match=said):
        check_all_on_gpu(read_load(lines), "m.log")


def test_old_model_files_make_room_for_new_ones(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for written, name in enumerate(("a", "b")):
        (tmp_path / f"{name}.gguf").touch()
        os.utime(tmp_path / f"{name}.gguf", (written, written))

    def usage(_: Path) -> SimpleNamespace:
        """4 GiB free with two files, 6 with one, 8 with none."""
        return SimpleNamespace(free=(8 - 2 * len(list(tmp_path.glob("*.gguf")))) * 2**30)

    monkeypatch.setattr(shutil, "disk_usage", usage)
    Files(tmp_path).make_room(2 * 2**30)
    assert [file.name for file in tmp_path.iterdir()] == ["b.gguf"]
    with pytest.raises(FailedError, match="the disk has 6 GiB free; 13 are needed"):
        Files(tmp_path).make_room(10 * 2**30, keep=tmp_path / "b.gguf")
