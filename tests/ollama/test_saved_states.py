"""How many conversations the real llama-server copies to RAM, with the environment that every server gets.

It needs `llama-server` of llama.cpp on the PATH, built for the CPU. Decision 0152 has the table, measured with b10454.
"""

import random
import re
import shutil
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from sharing.fit.prompt_cache import state_mib
from sharing.models.ollama import checkpoints, server_environment
from sharing.models.served import ServedModel
from tests.gpu.engine import free_port, llama_arguments, serving, wait_until_ready
from tests.gpu.gguf_file import write_model
from tests.gpu.shapes import SHAPES, shrunk

ENGINE = shutil.which("llama-server")
RECORD = Path(__file__).parents[2] / "docs" / "decisions" / "0152-no-prompt-cache-unless-asked-for.md"
TAG = "llama2:7b"
"""Its small copy keeps 2 layers × 2 heads × 128 values of 2 bytes: 1 KiB per token."""
CONTEXT, REQUESTS, PROMPT = 2048, 10, 1500
Requests = Generator[list[int], list[int], None]
"""Prompts, each made when the tokens of the last answer are known."""
pytestmark = pytest.mark.skipif(ENGINE is None, reason="`llama-server` is not on the PATH")


@dataclass(frozen=True)
class Seen:
    """What a server did for some requests."""

    read: int
    """Tokens of all prompts that were not in their slot, so that the engine computed them."""
    log: str

    @property
    def saved(self) -> int:
        """Conversations copied to RAM. `prompt_save` writes the first line before `alloc`, which may write another."""
        skipped = self.log.count("prompt is already in the cache, skipping")
        return self.log.count("saving prompt with length") - skipped - self.log.count("exceeds cache size limit")

    @property
    def restored(self) -> int:
        """Conversations copied back."""
        return self.log.count("found better prompt with")


def small(tag: str = TAG, *, slots: int, cache: int) -> ServedModel:
    """A small copy of the model, as a stack file may serve it."""
    return ServedModel.of(shrunk(SHAPES[tag]).model, context=CONTEXT, slots=slots, prompt_cache_mib=cache)


def measure(folder: Path, served: ServedModel, requests: Requests, *, copies_idle_slots: bool = False) -> Seen:
    """Sends the requests one by one to a server with the planned environment, or without our setting for idle slots."""
    model, port, read = folder / "m.gguf", free_port(), 0
    write_model(shrunk(SHAPES[served.model.name]), model)
    environment = {key: value for key, value in server_environment(served).items() if key.startswith("LLAMA_")}
    if copies_idle_slots:
        del environment["LLAMA_ARG_CACHE_IDLE_SLOTS"]
    command = [ENGINE or "", *llama_arguments(served, model, port)]
    with serving(command, port, folder / "log", environment) as server, suppress(StopIteration):
        wait_until_ready(server, "/health", 60)
        prompt = next(requests)
        while True:
            # Ollama sends `cache_prompt`, too (v0.32.15 llm/llama_server.go).
            body = {"prompt": prompt, "n_predict": 4, "cache_prompt": True, "return_tokens": True, "ignore_eos": True}
            answer = server.ask("/completion", body, timeout=60)
            read += answer["timings"]["prompt_n"]
            prompt = requests.send(answer["tokens"])
    return Seen(read, (folder / "log").read_text(encoding="utf-8"))


def words(seed: object, count: int) -> list[int]:
    """Random tokens that are words of the small model."""
    return random.Random(str(seed)).choices(range(300, 1024), k=count)


def unrelated(count: int = PROMPT) -> Requests:
    """Prompts with nothing in common."""
    for number in range(REQUESTS):
        yield words(number, count)


def alternating() -> Requests:
    """Two conversations in turns: each request repeats the history with its answers, and adds 20 tokens."""
    histories = [words("a", PROMPT), words("b", PROMPT)]
    for turn in range(REQUESTS):
        history = histories[turn % 2]
        history += words(turn, 20)
        history += yield [*history]


def recorded() -> list[list[str]]:
    """The rows of the record's table: slots, cache, whether idle slots are copied, and what ten requests did."""
    lines = RECORD.read_text(encoding="utf-8").splitlines()
    return [line.strip("| ").split(" | ") for line in lines if re.match(r"\| \d+ \| [\d,]+ \| (yes|no) \|", line)]


@pytest.mark.parametrize("row", recorded(), ids="-".join)
def test_requests_copy_as_many_conversations_as_the_record_says(row: list[str], tmp_path: Path) -> None:
    slots, cache, idle, *expected = row
    served = small(slots=int(slots), cache=int(cache))
    one, two = (
        measure(tmp_path, served, each, copies_idle_slots=idle == "yes") for each in (unrelated(), alternating())
    )
    assert [str(one.saved), str(two.saved), str(two.restored), f"{two.read:,}"] == expected


@pytest.mark.parametrize("tag", ["llama2:7b", "gemma3:4b", "gpt-oss:20b"])
def test_a_full_conversation_takes_the_predicted_ram(tag: str, tmp_path: Path) -> None:
    served = small(tag, slots=1, cache=1024)
    log = measure(tmp_path, served, unrelated(CONTEXT - 8)).log
    # `server_prompt_cache::update` lists what the cache holds, with its checkpoints.
    found = re.findall(r"- prompt \S+: +(\d+) tokens, checkpoints: +(\d+), +([\d.]+) MiB", log)
    tokens, made, mib = max(found, key=lambda each: float(each[2]))
    assert int(tokens) >= CONTEXT - 8
    assert int(made) <= checkpoints(served)
    assert float(mib) <= state_mib(served)
