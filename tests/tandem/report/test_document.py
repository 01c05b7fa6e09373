"""What a report says about results that never ran. `--regen` writes `tests/golden/reports`."""

from dataclasses import replace
from typing import Any

import pytest

from tandem.bench_results.result import Memory, Result
from tandem.bench_results.summary import Goals
from tests.conftest import Golden
from tests.tandem.bench_results.test_equal_load import measured
from tests.tandem.report.reader import read
from tests.tandem.report.test_figures import printed
from tests.tandem.results import PLAN, SPILLED, exclusive, failed, mps, paced, result, run, session, timed


def test_a_whole_report_is_its_golden(golden: Golden) -> None:
    """Several loads, also open ones, in one repeat, with goals, the parts of the first token, and an excluded run."""
    first, second = timed(printed("mps", 1.0, 0.5754), 40.0), printed("exclusive", 0.05, 1.1)
    for each in (first, second):
        words, levels = [64, 512, 2048], [1, 2]
        each.load = replace(each.load, prompt_words=words, concurrency=levels, rates=[0.5], requests=200, repeats=2)
    planned: Any = PLAN
    two_pools: Any = {"pools": [*PLAN["pools"], {"nodes": 2, "gpu": {"name": "t4"}}], "models": []}
    first.plan, second.plan, first.complete = planned, two_pools, False
    first.runs.append(run(["a"], [failed("a"), *first.runs[0].rows], repeat=4, memory=SPILLED))
    golden("reports/whole.txt", "\n".join(read(first, second, goals=Goals(120.0, 50.0)).lines) + "\n")


def test_the_headline_has_percentages_first_and_the_range_of_the_repeats() -> None:
    dedicated = measured("exclusive", {1.0: 50.0, 2.0: 100.0}, {1.0: 50.0})
    report = read(measured("mps", {}, {1.0: [30.0, 25.0, 40.0]}, usd_per_hour=0.36), dedicated)
    assert report.lines[2:4] == [
        # Two models at 30 make 60 of 100; 0.36 / 3600 / 60 * 1e6.
        "- mps: 60% (50% to 80%) of the dedicated GPU, 60.0 (50.0 to 80.0) tokens/s combined. Of its own GPU, each "
        "model keeps: llama2:7b 60% (50% to 80%), mistral:7b 60% (50% to 80%). $1.67 (1.25 to 2.00) per million output "
        "tokens.",
        "- exclusive: 100% of the dedicated GPU on each of 2 GPUs, 100.0 tokens/s combined. Of its own GPU, each model "
        "keeps: llama2:7b 100%, mistral:7b 100%.",
    ]
    of_gpu = [row.split(" | ")[:4] for row in report.below("Cost of sharing, at equal load")[1:3]]
    assert of_gpu == [
        ["| 64 words, 1 at a time", "1", "exclusive (2 GPUs)", "100%"],
        ["| 64 words, 2 at a time", "1", "mps", "60% (50% to 80%)"],
    ]


# tests/tandem/bench_results/test_comparison.py tests the intervals.
VERDICTS: dict[str, tuple[dict[str, tuple[tuple[float, ...], float]], list[str]]] = {
    "noise": (
        {"one": ((40.0, 44.0, 36.0), 0.36), "other": ((41.0, 37.0, 42.5), 0.36), "faster": ((30.0, 30.2, 29.9), 0.36)},
        [
            "No difference beyond run-to-run variation between faster and one: faster costs 75% (48% to 117%) as much",
            "No difference beyond run-to-run variation between faster and other: faster costs 75% (54% to 103%) as",
            "No difference beyond run-to-run variation between one and other: one costs 99% (70% to 141%) as much as",
        ],
    ),
    "a difference": (
        {"half": ((30.0, 30.2, 29.9), 0.36), "twice": ((30.0, 30.2, 29.9), 0.72)},
        ["half is cheaper than twice: half costs 50% (49% to 51%) as much as twice."],
    ),
    "wild repeats": (
        {"wild": ((20.0, 4000.0, 50.0), 0.36), "calm": ((20.0, 20.0, 20.1), 0.36)},
        ["No difference beyond run-to-run variation between calm and wild: calm costs 13% (0% to over 1,000%) as"],
    ),
    "a single repeat": (
        {"a": ((20.0,), 0.36), "b": ((40.0, 41.0), 0.36)},
        ["a and b cannot be ranked: a single repeat does not show the run-to-run variation. Measure each target at"],
    ),
    "no price": ({"a": ((20.0, 21.0), 0.0), "b": ((40.0, 41.0), 0.36)}, []),
}


@pytest.mark.parametrize(("targets", "verdicts"), VERDICTS.values(), ids=VERDICTS)
def test_a_target_is_only_called_cheaper_if_the_repeats_show_it(
    targets: dict[str, tuple[tuple[float, ...], float]], verdicts: list[str]
) -> None:
    results = [paced(label, pace, usd_per_hour=usd or None) for label, (pace, usd) in targets.items()]
    lines = read(*results).lines
    said = lines[2 + len(targets) + 1 : lines.index("## Cost of sharing, at equal load")]
    assert [line.startswith(f"- {verdict}") for line, verdict in zip(said, verdicts, strict=True)] == [True] * len(said)


def test_without_prices_there_is_no_cost() -> None:
    report = read(mps(usd_per_hour=None), exclusive(usd_per_hour=None))
    assert "per million output tokens" not in report.text
    assert "| not given |" in "\n".join(report.below("Setup"))
    assert all("| – | " in row for row in report.below("Cost of sharing, at equal load")[1:3])


def test_a_report_without_comparable_runs_says_why() -> None:
    places: dict[str, Memory | None] = {"a": SPILLED, "b": SPILLED}
    runs = [replace(each, memory_start=places, memory_end=places) for each in mps().runs]
    report = read(mps(runs=runs))
    assert report.lines[1] == 'No comparable runs. See "Excluded runs" below.'
    reasons = report.below("Excluded runs")
    assert reasons[0] == "mps: 9 of 9 runs excluded."
    spilled = "was partly on the CPU: 75% of its 4,096 MiB was on the GPU"
    names = "; ".join(f"llama2:7b, 64 words, 4 at a time, repeat {number}" for number in (1, 2, 3))
    assert reasons[1] == f"- llama2:7b {spilled} ({names})"
    both = "llama2:7b + mistral:7b, 64 words, 4 at a time, repeat"
    assert reasons[3] == f"- llama2:7b {spilled}; mistral:7b {spilled} ({both} 1; {both} 2; {both} 3)"
    assert "## All figures" not in report.lines


def test_many_runs_of_one_reason_are_counted() -> None:
    runs = [run(["a"], [failed("a")], repeat=number) for number in range(1, 6)]
    assert read(result("x", runs)).below("Excluded runs")[1].endswith(", repeat 3; and 2 more runs)")


def alone() -> Result:
    """One model, three failed requests, a reload, and a repeat whose memory nobody saw."""
    first, *_ = mps().runs
    larger: dict[str, Memory | None] = {"a": Memory(size=5 * 2**30, size_vram=5 * 2**30, context_length=4096)}
    errors = [failed(), failed(), replace(failed(), error="timeout")]
    again = replace(first, rows=[*errors, *first.rows], memory_end=larger)
    return result("x", [again, run(["a"], first.rows, repeat=2, memory=None)], plan=PLAN)


def test_models_that_ran_only_alone_have_figures_and_no_cost_of_sharing() -> None:
    report = read(alone())
    assert report.lines[1].startswith("Models never ran together.")
    assert "## Cost of sharing, at equal load" not in report.lines
    assert report.below("All figures")[-1].startswith("| x | llama2:7b alone | 100 / 100 / 100 | 20.0 / 20.0 / 20.0 |")
    assert report.below("All figures")[-1].endswith("| 3 of 7 ")


def test_planned_memory_stands_beside_what_was_loaded() -> None:
    rows = read(alone()).below("Planned vs. actual memory")[2:]
    assert rows == [
        "| x | llama2:7b | 5,193 | 7,680 | 4,096 to 5,120 | 4,096 to 5,120 ",
        "| x | mistral:7b | 4,947 | the rest of the GPU | not recorded | not recorded ",
    ]  # fmt: skip


def caveats(*results: Result) -> str:
    return "\n".join(read(*results).below("Caveats"))


def test_the_caveats_name_what_makes_figures_doubtful() -> None:
    said = caveats(alone())
    for caveat in (
        "x: 1 of 2 runs excluded (see above).",
        "x: failed requests (excluded from latency figures): 2 × 503: server busy; 1 × timeout.",
        "x: 1 of 1 row have fewer than 3 repeats.",
        "x: the memory of llama2:7b changed during a run: it was reloaded.",
        "With 12 requests, p99 is essentially the maximum.",
    ):
        assert f"- {caveat}" in said
    assert "- mps: stopped before its last run.\n" in caveats(mps(complete=False))
    assert "stopped" not in caveats(mps())
    assert "over 100% of a model's own GPU" in caveats(measured("fast", {1.0: 50.0}, {1.0: 50.3}))
    assert "over 100%" not in caveats(measured("even", {1.0: 50.0}, {1.0: 50.2}))


@pytest.mark.parametrize(("mode", "is_named"), [("timeslice", False), ("exclusive", False), ("mps", True), ("x", True)])
def test_models_alone_with_a_part_of_the_gpu_are_a_caveat(mode: str, is_named: bool) -> None:
    alone = {1.0: 50.0, 2.0: 100.0}
    measurement = measured(mode, alone, {1.0: 30.0})
    assert ("it is compared with its own models alone" in caveats(measurement)) is is_named
    assert "compared with its own" not in caveats(measurement, measured("exclusive", alone, {}))


def test_the_caveats_name_what_differs_between_the_targets() -> None:
    differs = ("Ollama's version", "The quantization", "The model file", "The client's machine")
    for what, of_servers, of_machine in (
        (differs[0], {"ollama": "0.35"}, {}),
        (differs[1], {"quantization": "Q8_0"}, {}),
        (differs[2], {"digest": "e"}, {}),
        (differs[3], {}, {"cpus": 64}),
        (differs[3], {}, {"processor": "Epyc"}),
        ("", {}, {"python": "3.13"}),
    ):
        other = exclusive()
        first, second = other.servers
        servers, machine = [first, replace(second, **of_servers)], replace(other.session.machine, **of_machine)
        other.sessions = [session("exclusive", servers=servers, machine=machine)]
        said = caveats(mps(), other)
        assert [each for each in differs if f"- {each} differs between the targets." in said] == [what] * bool(what)


def test_a_first_token_with_another_reason_than_the_prompt_is_a_caveat_of_its_target() -> None:
    """It takes 100 ms alone and 150 together: in one result far longer than the prompt, in one not."""
    slow, healthy = timed(mps(), 40.0), timed(exclusive(), 100.0)
    said = caveats(slow, healthy)
    assert "- mps: llama2:7b together, 64 words, 4 at a time: 73% of the time to first token (110 of 150 ms)" in said
    assert "- exclusive: " not in said
    assert "Waiting: the part of the first token" in "\n".join(read(slow).below("Glossary"))
    assert "Waiting" not in "\n".join(read(mps()).below("Glossary"))
