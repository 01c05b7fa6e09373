"""What a conversation takes in the prompt cache, against the measurements of decision 0152.

`rules.yaml` has the warnings, and `tests/ollama/test_saved_states.py` the engine itself.
"""

from math import ceil
from pathlib import Path

import pytest

from sharing.fit.prompt_cache import copies_seconds, enough_mib, read_seconds, state_mib
from sharing.hardware.gpus import gpus
from tests.sharing.builders import served

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "explanation/host-memory.md"


@pytest.mark.real_world(
    behaviour="On an H100, a conversation of 749 tokens with llama2:7b takes 375 MiB, and 0.28 s to copy",
    source="llama.cpp b10454 with CUDA on an H100, 2026-11-26 (decision 0152)",
)
def test_a_copy_takes_the_measured_time_on_an_h100() -> None:
    # The cells of a slot are a multiple of 256.
    assert 375 <= state_mib(served(context=749)) <= 375 * 768 / 749 + 1
    # 32 layers, K and V, 4,096 values of 2 bytes; and twice 20 bytes (llama-kv-cache.cpp, state_write_meta).
    assert state_mib(served(context=768)) == 768 * (32 * 2 * 4096 * 2 + 2 * 20) / 2**20
    assert copies_seconds(served(context=768)) / 2 == pytest.approx(0.28, abs=0.02)


@pytest.mark.real_world(
    behaviour="On an H100, a prompt of 621 tokens takes llama2:7b 65 ms, and mistral:7b 71 ms",
    source="llama.cpp b10454 with CUDA on an H100, 2026-11-26 (decision 0152)",
)
@pytest.mark.parametrize(("tag", "seconds"), [("llama2:7b", 0.065), ("mistral:7b", 0.071)])
def test_a_prompt_takes_the_measured_time_on_an_h100(tag: str, seconds: float) -> None:
    h100 = gpus()["h100"]
    found = read_seconds(served(tag, context=621), h100, 1)
    assert found == pytest.approx(seconds, rel=0.08)
    assert read_seconds(served(tag, context=621), h100, 0.5) == pytest.approx(2 * (found or 0))


@pytest.mark.parametrize("tag", ["llama2:7b", "mistral:7b", "gemma3:4b", "gpt-oss:20b"])
def test_the_size_to_write_holds_two_conversations_and_no_third(tag: str) -> None:
    asked = served(tag, context=4096)
    assert 2 * state_mib(asked) <= enough_mib(asked) < 2 * state_mib(asked) + 64
    assert enough_mib(asked) % 64 == 0


@pytest.mark.parametrize("tag", ["llama2:7b", "mistral:7b"])
def test_the_table_of_the_page_is_right(tag: str) -> None:
    asked = served(tag, context=4096)
    reads = (read_seconds(asked, gpus()[gpu], 1) for gpu in ("h100", "a100-80gb", "l40s", "t4"))
    times = " | ".join(f"{each:.1f} s" for each in (copies_seconds(asked), *reads))
    assert f"| `{tag}` | {ceil(2 * state_mib(asked)):,} MiB | {times} |" in PAGE.read_text(encoding="utf-8")
