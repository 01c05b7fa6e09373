"""The report of the GPU tier: how it judges predictions, and what it keeps."""

import datetime
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.__main__ import parse
from tests.gpu.machine import Machine
from tests.gpu.plan import steps
from tests.gpu.progress import State, Step
from tests.gpu.report import collect, describe, keep

FIRST = Path(__file__).parent / "results" / "nvidia-h100-80gb-hbm3-2026-11-26.json"
UUID = "GPU-4404041a-04cf-1ccf-9e70-f139a9b1e23c"


@pytest.fixture
def first() -> Any:
    return json.loads(FIRST.read_text(encoding="utf-8"))


def test_a_report_compares_each_part_and_models_with_as_many_requests(first: Any) -> None:
    text = describe(first)
    # 6,349 / 6,318; and 6,318 - 3,577.56 - 2,048 - 92.51, without pinned memory of the host.
    assert "| llama2:7b | 4,096 tokens | 6,349 | 6,318 | +0.5 % |" in text
    assert "| 3,578 / 3,578 | 2,048 / 2,048 | 99 / 93 | 625 / 600 |" in text
    assert "Median error 0.5 %, worst 4.1 %, of 11 measurements." in text
    # No request of this run has the parts of its first token.
    assert "| time-slicing | llama2, alone | 1 | 2,068 | 3.38 | 55 |" in text
    assert "parts" not in text.partition("## Two servers")[2]
    # Two requests for one model: (61.4 + 153.6) / 2 tokens per second. One for each of two: 144.6.
    assert "| time-slicing | 2 | 108 | 145 | 1.35 |" in text
    assert "with both models loaded (llama-server 12,558, llama-server 6,978).\n" in text


def test_what_spoils_a_figure_is_shown_beside_it(first: Any) -> None:
    first["memory"][0]["process_mib"] = {"loaded": None, "filled": None}
    pair = first["pairs"]["mps"]
    pair["summary"] |= {"excluded": [["mistral, repeat 2", ["3 requests failed"]]], "errors": {"timeout": 3}}
    pair["idle_seconds"] = 2.5
    # As `tandem bench` reports it (tandem/bench_results/first_token.py).
    pair["summary"]["figures"][0]["first_token"] = {"waiting_ms": 12.0, "prompt_ms": 65.0, "rest_ms": 1721.3}
    pair["summary"]["warnings"] = ["llama2 alone: 96% of the time to first token is neither."]
    text = describe(first)
    # A driver that hides processes: 6,349 / (6,327 - 0).
    assert "| llama2:7b | 4,096 tokens | 6,349 | 6,327 | +0.3 % |" in text
    assert "| mps | mistral, repeat 2 | not compared: 3 requests failed |  |  |" in text
    assert "| mps | llama2, alone | 1 | 1,798 | 12 + 65 + 1,721 | 5.03 | 55 |" in text
    assert "| mps | mistral, alone | 1 | 242 | – | 6.42 | 107 |" in text
    assert "The parts of the time to the first token are means" in text
    assert "- mps: llama2 alone: 96 % of the time to first token is neither.\n" in text
    assert "3 requests failed. One model was idle for 2.5 s while the other was measured." in text


def test_a_call_keeps_numbers_a_report_and_the_servers_logs_without_the_identity_of_the_gpu(
    first: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A name that is also one of the form's own words.
    monkeypatch.setattr(socket, "gethostname", lambda: "memory")
    state = State(tmp_path / "s.json")
    state.steps = {
        "memory a": {"result": first["memory"][0]},
        "memory b": {"failed": f"no room on memory, {UUID}\nlog"},
    }
    planned = [Step(key, key, 1, lambda _: {}) for key in ("memory a", "memory b", "pair mps")]
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "pair-mps-mistral-7b.log").write_text(f"memory id={UUID} pci_id=0000:17:00.0\n")
    results, reports, today = tmp_path / "results", tmp_path / "reports", datetime.date(2026, 11, 22)
    kept = keep(state, first["machine"], planned, today, results, reports, logs)
    name = "nvidia-h100-80gb-hbm3-2026-11-22"
    assert kept == [results / f"{name}.json", reports / f"gpu-{name}.md", results / f"{name}-logs"]
    assert (kept[2] / "pair-mps-mistral-7b.log").read_text() == "(host) id=GPU-(uuid) pci_id=(bus id)\n"
    numbers = json.loads(kept[0].read_text())
    assert numbers["failed"] == {"memory b": "no room on (host), GPU-(uuid)\nlog"}
    assert len(numbers["memory"]) == 1
    assert kept[1].read_text().endswith("- memory b: failed, no room on (host), GPU-(uuid)\n- pair mps: not run yet\n")


def test_the_result_of_every_step_is_kept(first: Any, tmp_path: Path) -> None:
    planned = steps(parse([]), tmp_path, Machine(has_gpu=False))
    state = State(tmp_path / "s.json", steps={one.key: {"result": {"of": one.key}} for one in planned})
    kept = json.dumps(collect(state, first["machine"], planned, datetime.date(2026, 11, 22)))
    assert [one.key for one in planned if f'{{"of": "{one.key}"}}' not in kept] == []


def test_a_report_says_what_the_cache_of_compiled_kernels_saves(first: Any) -> None:
    assert "kernels" not in describe(first)
    slow, fast = (
        {"ready_seconds": ready, "prompt_seconds": prompt, "cache_files": 4, "cache_mib": 87.5}
        for ready, prompt in ((61.5, 7.25), (1.5, 0.25))
    )
    starts = {"empty cache": slow, "filled cache": fast}
    first["kernels"] = {"model": "llama3.2:3b", "context": 2048, "starts": starts, "seconds": 80.0}
    text = describe(first)
    assert "## Compiled kernels\n" in text
    assert "| empty cache | 61.5 | 7.2 | 87.5 |\n| filled cache | 1.5 | 0.2 | 87.5 |\n" in text
