"""chat, bench and report against two real Ollama servers, each with a stand-in for its engine and its GPU."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tandem.bench_results.result_file import read
from tandem.bench_results.summary import summary
from tandem.main import main
from tests.command import Printed
from tests.ollama.test_model_start import OWN, on_a_gpu

BENCH = ("--prompt-words", "8", "--output-tokens", "16", "--concurrency", "2", "--rate", "50", "--requests", "3")


@pytest.fixture
def urls(tmp_path: Path) -> Iterator[list[str]]:
    """The arguments that name two servers, both running."""
    printed = []
    with ExitStack() as running:
        for name in "ab":
            (tmp_path / name).mkdir()
            server = running.enter_context(on_a_gpu(tmp_path / name, "full", 14900))
            printed += ["--url", f"{name}=http://{server.environment['OLLAMA_HOST']}"]
        yield printed


def test_two_models_talk(urls: list[str], tmp_path: Path, capsys: Printed) -> None:
    transcript = tmp_path / "t.md"
    assert main(["chat", *urls, "--turns", "4", "--max-tokens", "12", "--transcript", str(transcript)]) == 0
    shown = capsys.readouterr().out
    assert shown.count("w0 w1 w2 ") == 4
    text = transcript.read_text()
    assert f"- a: `{OWN}` at http://127.0.0.1:" in text
    assert f"## 4. {OWN} (b)\n\n> w0 w1 " in text


def test_a_benchmark_and_its_report(urls: list[str], tmp_path: Path, capsys: Printed) -> None:
    path = tmp_path / "r.json"
    assert main(["bench", *urls, *BENCH, "-o", str(path), "--usd-per-hour", "0.46", "--label", "stand-in"]) == 0
    found = read(path)
    assert found.complete
    assert len(found.runs) == 3 * 3 * 2
    for run in found.runs:
        for endpoint in run.endpoints:
            before, after = run.memory_start[endpoint], run.memory_end[endpoint]
            assert before is not None
            assert before == after
            assert before.size_vram == before.size > 0
        for row in run.rows:
            if row.counted:
                assert row.error is None
                assert row.tokens == len(row.arrivals_us) == 16
                assert row.prompt_tokens > 8
                assert row.server.total_ns > 0
    # Two at a time have one slot, so one of them waits for 16 tokens of 2 ms.
    closed = [one.first_token for one in summary(found).figures if one.workload.loop == "closed"]
    assert [bool(part and part.waiting_ms > 10 and part.rest_ms > 0) for part in closed] == [True] * 4
    assert main(["report", str(path), "-o", str(tmp_path / "report")]) == 0
    text = (tmp_path / "report" / "report.html").read_text()
    assert "<h2>Time to first token</h2>" in text
    assert "<strong>stand-in</strong>: " in text
    assert " tokens/s combined. " in text
    assert "per million output tokens" in text
    assert text.count("<svg") == 2
