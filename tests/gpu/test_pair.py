"""Two servers, measured with a stand-in for `tandem bench`."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.gpu import pair as pairs
from tests.gpu.engine import Server
from tests.gpu.machine import Machine
from tests.gpu.memory import Files
from tests.gpu.pair import Pair
from tests.gpu.progress import Clock
from tests.gpu.shapes import SHAPES


def test_each_step_keeps_its_own_file_of_requests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    @contextmanager
    def serving(*_: object) -> Iterator[Server]:
        yield Server(subprocess.Popen(["true"]), 1, tmp_path / "log")

    def bench(command: list[str], *_: object, **__: object) -> "subprocess.CompletedProcess[str]":
        if "-o" in command:
            Path(command[command.index("-o") + 1]).write_text(json.dumps({"runs": []}), encoding="utf-8")
        return subprocess.CompletedProcess(command, 0, json.dumps({"sharing": []}), "")

    monkeypatch.setattr(Pair, "_serving", lambda *given: serving(*given))
    monkeypatch.setattr(pairs, "_run", bench)
    (tmp_path / "ollama").touch()
    pair = Pair(
        tmp_path / "ollama",
        tmp_path / "none",
        tmp_path,
        tmp_path,
        Files(tmp_path),
        Machine(has_gpu=False),
        None,
        ["--repeats", "1"],
    )
    (tmp_path / "none").mkdir()
    names = ("time-slicing", "time-slicing again")
    found: list[Any] = [pair.run(name, [SHAPES["llama2:7b"]], 0, Clock(60)) for name in names]
    assert [one["mode"] for one in found] == ["time-slicing", "time-slicing"]
    kept = sorted(file.name for file in tmp_path.glob("bench-*"))
    assert kept == ["bench-time-slicing-again.json", "bench-time-slicing.json"]
