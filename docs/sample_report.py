"""A sample of the report that `tandem report` writes, from results that nobody measured."""

from dataclasses import replace
from random import Random

from tandem.bench_results.result import Load, Machine, Memory, Result, Row, Run, Server, ServerTimes, Session
from tandem.bench_results.summary import summary
from tandem.report.document import document

MODELS = {"synthetic-a:7b": 14.0, "synthetic-b:7b": 18.0}
"""Milliseconds between tokens alone, one request at a time. Made up, like every number below."""
MODES = {"timeslice": (2.1, 0.06, 0.38), "mps": (1.7, 0.05, 0.38), "exclusive": (1.0, 0.01, 0.61)}
"""The slowdown together, the relative difference of repeats, and dollars per hour."""
WORDS, LEVELS, REPEATS, REQUESTS, TOKENS = (64, 512), (1.0, 2.0, 4.0), 3, 8, 64
NOTE = (
    "<blockquote><p><strong>Synthetic.</strong> Nobody measured these numbers: <code>docs/sample_report.py</code> made "
    "them up, as a sample of a report.</p></blockquote>"
)


def page() -> str:
    """The report."""
    results = [_result(mode) for mode in MODES]
    return document(results, [summary(result) for result in results], note=NOTE)


def _result(mode: str) -> Result:
    slower, noise, usd = MODES[mode]
    chance = Random(mode)
    load = Load(
        prompt_words=[*WORDS], output_tokens=TOKENS, concurrency=[int(level) for level in LEVELS], rates=[],
        requests=REQUESTS, warmup=1, repeats=REPEATS, seed=1, temperature=0.0, timeout_s=300.0,
    )  # fmt: skip
    servers = [
        Server(
            id=model, url="", model=model, ollama="synthetic", digest="", family="", parameter_size="7B",
            quantization="Q4_0",
        )
        for model in MODELS
    ]  # fmt: skip
    machine = Machine(system="synthetic", processor="synthetic", cpus=1, python="synthetic")
    session = Session(
        begun="2026-11-23T00:00:00", command=["python", "docs/generate.py"], versions={"tandem": "synthetic"},
        machine=machine, salt="", servers=servers,
    )  # fmt: skip
    runs = []
    for words in WORDS:
        for level in LEVELS:
            for repeat in range(1, REPEATS + 1):
                pace = (1 + words / 4000) * (0.8 + level / 5) * (1 + chance.uniform(-noise, noise))
                alone = [_run([model], pace, words, level, repeat, chance) for model in MODELS]
                runs += [*alone, _run([*MODELS], pace * slower, words, level, repeat, chance)]
    return Result(
        label=mode, complete=True, ended="2026-11-23T01:00:00", load=load, sessions=[session],
        usd_per_hour=usd, runs=runs,
    )  # fmt: skip


def _run(models: list[str], pace: float, words: int, level: float, repeat: int, chance: Random) -> Run:
    places: dict[str, Memory | None] = dict.fromkeys(models, Memory(size=1, size_vram=1, context_length=2048))
    rows = [
        replace(row, sent_us=number // int(level) * row.arrivals_us[-1])
        for model in models
        for number, row in enumerate(_row(model, pace * chance.uniform(1, 1.1), words) for _ in range(REQUESTS))
    ]
    return Run(
        repeat=repeat, endpoints=models, prompt_words=words, loop="closed", level=level, seconds=60.0,
        memory_start=places, memory_end=places, client_cpu_s=0.1, rows=rows,
    )  # fmt: skip


def _row(model: str, pace: float, words: int) -> Row:
    first, gap = round(words * pace * 400), round(MODELS[model] * pace * 1000)
    return Row(
        endpoint=model, counted=True, scheduled_us=None, sent_us=0, tokens=TOKENS, prompt_tokens=words,
        arrivals_us=[first + gap * number for number in range(TOKENS)], done_reason="length", error=None,
        server=ServerTimes(
            total_ns=(first + gap * TOKENS) * 1000, load_ns=0, prompt_eval_ns=first * 900, eval_ns=gap * TOKENS * 1000,
        ),
    )  # fmt: skip
