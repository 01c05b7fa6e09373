"""`tandem report`: reads results, rejects those that cannot be compared, and writes one HTML page."""

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from tandem.arguments import Commands, add_command, amount
from tandem.bench_results.equal_load import compare_costs, equal_load
from tandem.bench_results.foreign.load_point import LoadPoint
from tandem.bench_results.foreign.reading import load_points
from tandem.bench_results.result import Result, Run
from tandem.bench_results.result_file import ResultError, parsed, validated
from tandem.bench_results.summary import FIGURES_VERSION, Goals, Summary, summary
from tandem.report.document import document
from tandem.report.other_tools import page_of_other_tools
from tandem.terminal import FAILED, FINE, CallError, complain, in_words, print_json, print_line

FOLDER, PAGE = "report", "report.html"


def add(commands: Commands) -> None:
    """Adds the command to those of `tandem`."""
    parser = add_command(
        commands,
        "report",
        _run,
        description="Turn one benchmark result, or several of the same load, into one page with figures, "
        "FOLDER/report.html. It needs no other file and no network. Results of AIPerf, guidellm, inference-perf and "
        "`vllm bench serve` are recognized, and get a table of their own.",
        exit_codes={0: "the report was written", 1: "no runs can be compared"},
        json="print the figures as one JSON object; write nothing",
    )
    parser.add_argument("results", nargs="+", metavar="RESULT.json", help="a result of `tandem bench` or another tool")
    parser.add_argument(
        "-o", "--output", default=FOLDER, metavar="FOLDER", help=f"where to write the report (default: {FOLDER})"
    )
    for name, what in {"ttft": "time to first token", "itl": "inter-token latency"}.items():
        help = f"longest {what} that counts as good, in milliseconds (pass both goals to see goodput)"
        parser.add_argument(f"--{name}-goal", type=amount, metavar="MS", help=help)


def _run(arguments: argparse.Namespace) -> int:
    """Writes the report, or prints its figures; returns the exit code."""
    results, others = together([Path(name) for name in arguments.results])
    goals = _goals(arguments)
    missing = _missing(others)
    if arguments.json:
        summaries = [summary(result, goals) for result in results]
        _print(summaries, others, missing)
    else:
        results = [name_models(result) for result in results]
        summaries = [summary(result, goals) for result in results]
        text = document(results, summaries, goals, others=others) if results else page_of_other_tools(others)
        print_line(str(_write(text, Path(arguments.output))), sys.stdout)
        for warning in missing:
            complain(f"warning: {warning}")
    if results and not any(summary.figures for summary in summaries):
        complain('no run can be compared. Read why under "Excluded runs" in the report.')
        return FAILED
    return FINE


def _missing(others: Sequence[LoadPoint]) -> list[str]:
    """What the files of other tools lack: one warning for all of them."""
    files = list(dict.fromkeys(point.file for point in others if point.lacks_p95))
    if not files:
        return []
    has = "has" if len(files) == 1 else "have"
    return [f"{in_words(files)} {has} no p95 of the first token. Measure with `--metric-percentiles 50,95,99`."]


def _print(summaries: Sequence[Summary], others: Sequence[LoadPoint], missing: Sequence[str]) -> None:
    pairs = [{**asdict(pair), "decided": pair.decided} for pair in (compare_costs(summaries) if summaries else [])]
    warnings = [f"{each.label}: {each.first_token_warning}" for each in summaries if each.first_token_warning]
    print_json(
        {
            "schema_version": FIGURES_VERSION,
            "equal_load": [asdict(row) for row in equal_load(summaries)],
            "results": [each.as_dict() for each in summaries],
            "comparisons": pairs,
            "other_tools": [asdict(point) for point in others],
            "warnings": [*warnings, *missing],
        }
    )


def _write(text: str, folder: Path) -> Path:
    page = folder / PAGE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        page.write_text(text, encoding="utf-8")
    except FileExistsError:
        raise CallError(f"{folder} is a file. Name a folder with -o.") from None
    except OSError as error:
        raise CallError(
            f"cannot write {error.filename or folder}: {error.strerror}. Name another folder with -o."
        ) from error
    return page


def together(paths: Sequence[Path]) -> tuple[list[Result], list[LoadPoint]]:
    """Our results, each under a label of its own, and the figures of other tools.

    Raises `ResultError`, with all reasons, where a file cannot be read or our results do not compare.
    """
    errors = [f"{path} is given twice. Name each result once." for path, often in Counter(paths).items() if often > 1]
    results: dict[Path, Result] = {}
    others: list[LoadPoint] = []
    for path in paths:
        try:
            content = parsed(path)
            found = load_points(content, path)
            if found is None:
                results[path] = validated(content, path)
            else:
                others += found
        except ResultError as error:
            errors.append(str(error))
    if errors:
        raise ResultError("\n".join(errors))
    return _comparable(results), others


def _comparable(results: Mapping[Path, Result]) -> list[Result]:
    paths = list(results)
    errors = [
        f"{path} and {paths[0]} cannot be compared: {why}"
        for path in paths[1:]
        for why in _differences(results[paths[0]], results[path])
    ]
    if errors:
        raise ResultError("\n".join(errors))
    often = Counter(result.label for result in results.values())
    names = [path.stem for path in paths]
    if len(set(names)) < len(names):
        names = [str(path) for path in paths]
    return [
        replace(result, label=f"{result.label} ({name})") if often[result.label] > 1 else result
        for name, result in zip(names, results.values(), strict=True)
    ]


def _differences(first: Result, other: Result) -> list[str]:
    """What makes two results of different resources; empty when only the target differs."""
    here, there = asdict(first.load), asdict(other.load)
    differences = [f"{name} is {there[name]} there and {here[name]} here" for name in here if here[name] != there[name]]
    models_here, models_there = ({server.id: server.model for server in each.servers} for each in (first, other))
    if models_here != models_there:
        differences.append(f"the models are {_named(models_there)} there and {_named(models_here)} here")
    return differences


def _named(models: dict[str, str]) -> str:
    return ", ".join(f"{id} ({model})" for id, model in sorted(models.items()))


def _goals(parsed: argparse.Namespace) -> Goals | None:
    if parsed.ttft_goal is None and parsed.itl_goal is None:
        return None
    if parsed.ttft_goal is None or parsed.itl_goal is None:
        raise CallError("goodput needs both goals: --ttft-goal MS and --itl-goal MS")
    return Goals(parsed.ttft_goal, parsed.itl_goal)


def name_models(result: Result) -> Result:
    """The result with models where it has the ids of servers, which mean nothing to a reader."""
    tags = Counter(server.model for server in result.servers)
    names = {
        server.id: server.model if tags[server.model] == 1 else f"{server.model} ({server.id})"
        for server in result.servers
    }

    def rename(run: Run) -> Run:
        return replace(
            run,
            endpoints=[names[id] for id in run.endpoints],
            memory_start={names.get(id, id): memory for id, memory in run.memory_start.items()},
            memory_end={names.get(id, id): memory for id, memory in run.memory_end.items()},
            rows=[replace(row, endpoint=names[row.endpoint]) for row in run.rows],
        )

    plan = result.plan
    if plan:
        models = [model | {"id": names.get(model["id"], model["id"])} for model in plan["models"]]
        plan = plan | {"models": models}
    return replace(
        result,
        sessions=[replace(result.session, servers=[replace(server, id=names[server.id]) for server in result.servers])],
        runs=[rename(run) for run in result.runs],
        plan=plan,
    )
