"""The files that users share: those of the project are right, and a wrong one gets a line for each error."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from catalogue import community, speed
from sharing.speed.community import Community

H100 = Path(__file__).parent / "h100.json"
"""Times between tokens of docs/benchmarks/gpu-nvidia-h100-80gb-hbm3-2026-11-26.md: 3.38 ms alone, 5.98 ms together.

The first token is made up, and the report has no digest: so it is not in the folder.
"""
FIGURE = "models/0/figures/0"
ALONE: dict[str, Any] = json.loads(H100.read_text())["models"][0]["figures"][0]


def changed(path: str, value: object) -> dict[str, Any]:
    """The file with another value there; with `...`, without that key."""
    document: dict[str, Any] = json.loads(H100.read_text())
    *parents, last = (int(key) if key.isdigit() else key for key in path.split("/"))
    inner: Any = document
    for key in parents:
        inner = inner[key]
    if value is ...:
        del inner[last]
    else:
        inner[last] = value
    return document


def test_the_files_of_the_folder_are_right() -> None:
    assert [line for path in community.FOLDER.glob("*.json") for line in community.errors(path)] == []
    assert (community.FOLDER / "README.md").is_file()
    assert community.errors(H100) == []


@pytest.mark.parametrize(
    ("path", "value", "error"),
    [
        # Each token reads 3.75 GB, and the data sheet of the H100 says 3,350 GB/s: 893 tokens/s at the very most.
        (
            f"{FIGURE}/tokens_per_s",
            {"value": 1000.0, "low": 990.0, "high": 1001.0},
            "models.0.figures.0.tokens_per_s: 1,001 is more than the 982.3 that 3,350 GB/s allow with 3.75",
        ),
        # Of four requests together.
        (
            "models/0/figures/1",
            {**ALONE, "at_once": 4, "total_tokens_per_s": {"value": 3920.0, "low": 3910.0, "high": 3940.0}},
            "models.0.figures.1.total_tokens_per_s: 3,940 is more than the 3,929 that 3,350 GB/s allow",
        ),
        # In seconds.
        (f"{FIGURE}/first_token_ms", {"value": 0.03, "low": 0.02, "high": 0.04}, "first_token_ms: 0.02 is less than"),
        (f"{FIGURE}/tokens_per_s", {"value": 5, "low": 6, "high": 7}, "must be above 0 and in this order"),
        (f"{FIGURE}/tokens_per_s", {"value": -5, "low": -6, "high": 7}, "must be above 0 and in this order"),
        (f"{FIGURE}/tokens_per_s", "295.9 tokens/s", "models.0.figures.0.tokens_per_s"),
        (f"{FIGURE}/ms_per_token", 3.38, "models.0.figures.0.ms_per_token: Extra inputs are not permitted"),
        (f"{FIGURE}/tokens_per_s", ..., "models.0.figures.0.tokens_per_s: Field required"),
        ("models/0/gpu", "h10", "models.0.gpu: 'h10' is unknown. Did you mean "),
        ("models/0/gpu", "h100/8", "models.0.gpu: 'h100/8' is unknown. Did you mean "),
        ("models/0/gpu", "radeon-pro-v520", "models.0.gpu: 'radeon-pro-v520' is unknown. "),
        ("models/0/name", "llama2:7", "models.0.name: 'llama2:7' is not in the catalogue. Did you mean llama2:7b"),
        ("models/0/quantization", "Q8_0", "models.0.quantization: 'Q8_0' is not that of llama2:7b, Q4_0"),
        (
            "models/0/mode",
            "shared",
            "models.0.mode: Input should be 'exclusive', 'timeslice', 'mps', 'mps-per-model' or 'mig'",
        ),
        ("schema_version", 2, "schema_version: Input should be 1"),
        # What could name a person or a machine.
        *(
            (path, value, f"{path.replace('/', '.')}: String should match pattern")
            for path, value in (
                *(("date", "on 2026-11-26"), ("driver", "580 of build-7"), ("engine", "ollama of build-7")),
                *(
                    ("models/0/digest", "build-7"),
                    ("models/0/quantization", "Q4_0 of me"),
                    ("models/0/profile", "Build-7"),
                ),
            )
        ),
        ("models", [], "models: List should have at least 1 item"),
        ("models/0/figures", [], "models.0.figures: List should have at least 1 item"),
        ("machine", "build-7", "machine: Extra inputs are not permitted"),
    ],
)
def test_a_wrong_file_gets_one_line(path: str, value: object, error: str, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text(json.dumps(changed(path, value)))
    [line] = community.errors(file)
    assert line.startswith(f"{file}: ")
    assert error in line


@pytest.mark.parametrize(
    ("path", "least", "most"),
    [(f"{FIGURE}/at_once", 1, 2**20), (f"{FIGURE}/prompt_tokens", 0, 2**20), ("models/0/threads_percent", 1, 100)],
)
def test_a_number_has_bounds(path: str, least: int, most: int) -> None:
    for value in (least, most):
        Community.model_validate(changed(path, value))
    for value in (least - 1, most + 1):
        with pytest.raises(ValueError, match=r"should be (less|greater) than or equal"):
            Community.model_validate(changed(path, value))


def test_a_missing_file_gets_one_line(tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    assert community.errors(file) == [f"{file} cannot be read: No such file or directory."]


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00"])
def test_a_file_that_is_cut_gets_one_line(text: str, tmp_path: Path) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    [line] = community.errors(file)
    assert line.startswith(f"{file}: file: ")


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder with the file of the H100."""
    monkeypatch.setattr(community, "FOLDER", tmp_path)
    (tmp_path / "h100.json").write_bytes(H100.read_bytes())
    for cached in (community.files, speed.readings):
        cached.cache_clear()
    yield tmp_path
    for cached in (community.files, speed.readings):
        cached.cache_clear()


def test_what_decodes_alone_joins_the_readings(shared: Path) -> None:
    """By hand: 3,825,065,984 bytes of weights without 73,728,000 of the embedding, and 524,288 per token of context."""
    [reading] = [each for each in speed.readings() if each.source == "docs/benchmarks/community/h100.json"]
    assert (reading.chip.name, reading.what, reading.tokens_per_s, reading.year) == ("h100", "decode", 295.9, "2026")
    assert reading.read_bytes == 3825065984 - 73728000 + 524288 * (90 + 128 / 2)
    assert (reading.layers, reading.has_experts) == (32, False)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("models/0/mode", "mps"),
        ("models/0/mode", "mps-per-model"),
        ("models/0/profile", "3g.40gb"),
        ("models/0/gpu", "l4/4"),
        (f"{FIGURE}/at_once", 2),
    ],
)
def test_a_part_of_a_gpu_joins_no_fit(path: str, value: object) -> None:
    assert [*community.alone(Community.model_validate(changed(path, value)))] == []


def test_the_only_client_of_mps_has_the_entire_gpu() -> None:
    document = changed("models/0/mode", "mps")
    document["models"][0]["sharers"] = 1
    assert len([*community.alone(Community.model_validate(document))]) == 1
