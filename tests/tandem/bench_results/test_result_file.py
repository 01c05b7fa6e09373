"""The file of a result: complete or refused."""

import os
from pathlib import Path

import pytest

from tandem.bench_results import result_file
from tandem.bench_results.result_file import NotWrittenError, ResultError, read, write
from tests.tandem.results import shared


def test_a_result_is_read_back_unchanged_and_every_truncation_is_noticed(tmp_path: Path) -> None:
    result = shared("mps", (20.0, 40.0), (40.0, 60.0))
    path = tmp_path / "r.json"
    write(result, path)
    assert read(path) == result
    assert os.listdir(tmp_path) == ["r.json"]
    text = path.read_text()
    for size in range(0, len(text) - 2, len(text) // 12):
        path.write_text(text[:size])
        with pytest.raises(ResultError, match=r"r\.json is not complete JSON"):
            read(path)


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
