"""The report of the GPU tier: how it judges predictions, and what it keeps."""

import datetime
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.progress import State, Step
from tests.gpu.report import describe, keep

FIRST = Path(__file__).parent / "results" / "nvidia-h100-80gb-hbm3-2026-11-26.json"
UUID = "GPU-4404041a-04cf-1ccf-9e70-f139a9b1e23c"


@pytest.fixture
def first() -> Any:
    return json.loads(FIRST.read_text(encoding="utf-8"))


def test_a_report_compares_each_part_with_its_prediction(first: Any) -> None:
    text = describe(first)
    # 6,349 / 6,318; and 6,318 - 3,577.56 - 2,048 - 92.51, without pinned memory of the host.
    assert "| llama2:7b | 4,096 tokens | 6,349 | 6,318 | +0.5 % |" in text
    assert "| 3,578 / 3,578 | 2,048 / 2,048 | 99 / 93 | 625 / 600 |" in text
    assert "Median error 0.5 %, worst 4.1 %, of 11 measurements." in text
    assert "| time-slicing | llama2, alone | 1 | 2,068 | 3.38 | 55 |" in text
    assert "with both models loaded (llama-server 12,558, llama-server 6,978).\n" in text


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
