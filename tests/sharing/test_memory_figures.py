"""The memory model against the engine's own accounting and against what users measured."""

import re
from pathlib import Path
from statistics import median

import pytest

from sharing.fit.memory import Need, compute_mib, need
from sharing.hardware.gpus import Gpu, gpus
from sharing.models.catalogue import MIB, KvType, Model, models
from sharing.models.served import ServedModel
from tests.sharing.builders import read_figures, replace

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "gpu-memory.md"
BYTES = ("weights_mib", "embedding_mib", "projector_mib", "recurrent_state_mib")


def model_of(row: dict[str, str]) -> Model:
    numbers = {key: int(value) for key, value in row.items() if value and key not in (*BYTES, *TEXTS)}
    sizes = {key.replace("_mib", "_bytes"): round(float(row[key] or 0) * MIB) for key in BYTES}
    return Model(
        name=row["model"],
        quant="",
        architecture=row["architecture"],
        encoder=row["encoder"] == "yes",
        source="tests/sharing/figures",
        **sizes,
        **numbers,
    )


TEXTS = ("model", "architecture", "encoder")
SHAPES = {row["model"]: model_of(row) for row in read_figures("shapes")}


def served(row: dict[str, str]) -> ServedModel:
    return ServedModel.of(
        SHAPES[row["model"]],
        context=int(row["context"]),
        slots=int(row["slots"]),
        kv_type=KvType(row["kv_type"]),
        batch=int(row["batch"]),
    )


def gpu_of(row: dict[str, str]) -> Gpu:
    context = int(row["context_mib"] or 0)
    return gpus().get(row["gpu"]) or replace(gpus()["t4"], name=row["gpu"], context_mib=context)


def part_of(row: dict[str, str], found: Need) -> float:
    without_context = found.total - found.cuda_context
    listed = without_context - SHAPES[row["model"]].projector_bytes / MIB
    return {"process": found.total, "buffers": without_context, "listed": listed, "kv": found.kv}[row["part"]]


def error_of(row: dict[str, str]) -> float:
    """The prediction's error as a fraction of the reading; negative if the prediction is too low."""
    return part_of(row, need(served(row), gpu_of(row))) / float(row["mib"]) - 1


def named(row: dict[str, str]) -> str:
    return f"{row['model']}-{row['gpu']}-{row['context']}x{row['slots']}-{row['part']}"


READINGS = read_figures("readings")
COUNTED = [row for row in READINGS if row["kind"] not in ("older", "unexplained")]
SAME_ENGINE = [row for row in READINGS if row["kind"] in ("pinned", "same generation")]
BUFFERS = [row for row in read_figures("engine_buffers") if served(row).effective_slots == int(row["slots"])]
"""The settings of a reading, without slots that Ollama would refuse."""


def test_caches_and_buffers_equal_the_engines_own() -> None:
    for row in BUFFERS:
        found = need(served(row), gpus()["t4"])
        assert found.kv == pytest.approx(float(row["kv_mib"]), abs=0.02), row
        assert compute_mib(served(row)) == pytest.approx(float(row["compute_mib"]), rel=0.2, abs=24), row


def test_most_buffers_of_the_engine_are_predicted_to_the_mib() -> None:
    errors = [abs(compute_mib(served(row)) - float(row["compute_mib"])) for row in BUFFERS]
    assert len(errors) > 200
    assert median(errors) < 0.1
    assert sum(error < 1 for error in errors) >= 0.7 * len(errors)


def test_every_reading_is_predicted_within_twelve_percent() -> None:
    assert [named(row) for row in COUNTED if abs(error_of(row)) > 0.12] == []


def test_readings_of_the_same_engine_are_predicted_within_five_percent() -> None:
    assert len(SAME_ENGINE) >= 30
    assert max(abs(error_of(row)) for row in SAME_ENGINE) <= 0.05
    assert median(abs(error_of(row)) for row in SAME_ENGINE) <= 0.01


def test_no_reading_of_the_same_engine_exceeds_the_need_with_its_margin() -> None:
    for row in SAME_ENGINE:
        found = need(served(row), gpu_of(row))
        assert part_of(row, found) + found.margin >= float(row["mib"]), named(row)


def test_a_reading_of_another_engine_that_is_far_off_has_a_reason() -> None:
    for row in READINGS:
        assert row["source"]
        assert bool(row["reason"]) == (abs(error_of(row)) > 0.12), f"{named(row)}: {error_of(row):+.1%}"


def test_the_one_unexplained_reading_of_the_same_engine_is_in_the_documentation() -> None:
    page = PAGE.read_text(encoding="utf-8")
    (row,) = [row for row in READINGS if row["kind"] == "unexplained"]
    assert f"{int(row['mib']):,} MiB for `llama3.2:3b` on an RTX 5080" in page


def said_of(page: Path) -> str:
    return " ".join(page.read_text(encoding="utf-8").split())


@pytest.mark.parametrize("name", ["all-minilm-22m", "gemma3-12b+vision", "gemma3-27b+vision"])
def test_the_margin_is_that_of_the_documentation(name: str) -> None:
    usual = re.search(r"The margin is (\d+) % of it, at least (\d+) and at most (\d+) MiB\.", said_of(PAGE))
    of_pictures = re.search(r"the buffers of a projector, by (\d+) MiB", said_of(PAGE))
    assert usual
    assert of_pictures
    part, least, most = map(int, usual.groups())
    found = need(ServedModel.of(SHAPES[name], context=512, slots=1), gpus()["t4"])
    more = gpus()["t4"].context_spread_mib + int(of_pictures[1]) * name.endswith("+vision")
    assert found.margin == min(max(part / 100 * found.total, least), most) + more


@pytest.mark.parametrize(
    ("architecture", "sentence"),
    [
        ("gemma3", "its weights and about {:.0f} MiB of buffers."),
        *((name, "Qwen3-VL takes {:.0f} MiB,") for name in ("qwen3vl", "qwen3vlmoe")),
        ("qwen25vl", "Qwen2.5-VL {:.0f} MiB because"),
    ],
)
def test_the_buffers_of_a_projector_are_those_of_the_documentation(architecture: str, sentence: str) -> None:
    model = replace(SHAPES["gemma3-4b+vision"], architecture=architecture)
    found = need(ServedModel.of(model, context=512, slots=1), gpus()["t4"])
    assert sentence.format(found.projector - model.projector_bytes / MIB) in said_of(PAGE)


def test_layers_without_a_gate_take_a_third() -> None:
    """jina-embeddings-v3 has the layers of bge-m3: both are XLM-RoBERTa."""
    bge, jina = (
        compute_mib(ServedModel.of(replace(SHAPES["bge-m3"], architecture=name), context=512, slots=1))
        for name in ("bert", "jina-bert-v3")
    )
    assert bge == jina


def test_an_unknown_width_is_estimated_from_the_size_of_a_layer() -> None:
    known = models()["llama3.1:8b"]
    unknown = replace(known, width=0, feed_forward=0)
    first_layer = replace(unknown, layers=1, weights_bytes=known.weights_bytes // 32)
    with_width, without, of_first = (
        compute_mib(ServedModel.of(model, context=4096, slots=1)) for model in (known, unknown, first_layer)
    )
    assert without == pytest.approx(with_width, rel=0.2)
    assert of_first == pytest.approx(without), "a layer of the same size"


def test_the_worked_example_of_the_documentation_is_right() -> None:
    page = PAGE.read_text(encoding="utf-8")
    lines = (line.strip().strip("|").split("|") for line in page.splitlines() if line.startswith("|"))
    cells = {line[0].strip(" *"): line[-1].strip(" *").replace(",", "") for line in lines}
    asked = ServedModel.of(SHAPES["llama3.2-3b"], context=4096, slots=1)
    found = need(asked, gpus()["t4"])
    parts = {
        "weights": found.weights,
        "KV cache": found.kv,
        "buffers of the layers": compute_mib(asked),
        "scratch space": found.compute - compute_mib(asked),
        "CUDA": found.cuda_context,
        "total": found.total,
        "margin": found.margin,
    }
    assert {part: float(cells[part]) for part in parts} == pytest.approx(parts, abs=0.5)
    assert f"{len(COUNTED)} readings" in page
    seen = {row["model"].removesuffix("+vision") for row in SAME_ENGINE}
    assert f"{len(seen)} models and {len({row['gpu'] for row in SAME_ENGINE} - {'none'})} GPUs" in page
    errors = [abs(error_of(row)) for row in COUNTED]
    assert f"The median error is {median(errors):.1%}, the largest {max(errors):.0%}.".replace("%", " %") in page
