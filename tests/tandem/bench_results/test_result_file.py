"""The file of a result: complete or refused."""

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tandem.bench_results import result_file
from tandem.bench_results.result_file import NotWrittenError, ResultError, read, validated, write
from tests.tandem.results import result, run, shared, steady


def test_a_result_is_read_back_unchanged_and_every_truncation_is_noticed(tmp_path: Path) -> None:
    whole = shared("mps", (20.0, 40.0), (40.0, 60.0))
    path = tmp_path / "r.json"
    write(whole, path)
    assert read(path) == whole
    assert os.listdir(tmp_path) == ["r.json"]
    text = path.read_text()
    for size in range(0, len(text) - 2, len(text) // 12):
        path.write_text(text[:size])
        with pytest.raises(ResultError, match=r"r\.json is not complete JSON"):
            read(path)


def test_runs_that_differ_in_anything_of_their_load_are_different(tmp_path: Path) -> None:
    one = run(["a"], steady("a", 1.0, 1.0))
    loads: list[dict[str, Any]] = [
        {"repeat": 2},
        {"endpoints": ["b"]},
        {"prompt_words": 8},
        {"loop": "open"},
        {"level": 8},
    ]
    for changes in loads:
        other = replace(one, rows=[], **changes)
        assert validated(asdict(result("x", [one, other])), tmp_path).runs == [one, other]
    with pytest.raises(ResultError, match=r"is damaged \(runs\.1: the same as an earlier run\)"):
        validated(asdict(result("x", [one, replace(one, rows=[])])), tmp_path)


def test_a_file_that_is_too_large_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.json"
    write(shared("mps", (20.0, 40.0), (40.0, 60.0)), path)
    monkeypatch.setattr(result_file, "MOST_BYTES", path.stat().st_size)
    read(path)
    path.write_bytes(bytes(2 * 2**20 + 1))
    monkeypatch.setattr(result_file, "MOST_BYTES", 2 * 2**20)
    with pytest.raises(ResultError, match=r"r\.json has more than 2 MiB\. Choose the result of a benchmark\."):
        read(path)


def test_a_result_that_cannot_be_written_leaves_the_folder_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.mkdir()
    with pytest.raises(NotWrittenError, match="Is a directory"):
        write(shared("mps", (20.0, 40.0), (40.0, 60.0)), path)
    assert os.listdir(tmp_path) == ["r.json"]
