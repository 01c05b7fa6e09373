"""`tandem report`: reads results, rejects those that cannot be compared, writes Markdown, HTML and figures."""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from tandem.arguments import Commands, add_command, amount
from tandem.bench_results.result import Result, Run
from tandem.bench_results.result_file import ResultError, read
from tandem.bench_results.summary import Goals, Summary, compare_costs, summary
from tandem.report.document import document
from tandem.report.figures import draw
from tandem.terminal import FAILED, FINE, CallError, complain, print_json, print_line

FOLDER, DOCUMENT = "report", "README.md"


def add(commands: Commands) -> None:
    """Adds the command to those of `tandem`."""
    parser = add_command(
        commands,
        "report",
        _run,
        description="Turn one benchmark result, or several of the same load, into FOLDER/README.md with figures "
        "(SVG), and into one page, FOLDER/report.html.",
        exit_codes={0: "the report was written", 1: "no runs can be compared"},
        json="print the figures as one JSON object; write nothing",
    )
    parser.add_argument("results", nargs="+", metavar="RESULT.json", help="a result of `tandem bench`")
    parser.add_argument(
        "-o", "--output", default=FOLDER, metavar="FOLDER", help=f"where to write the report (default: {FOLDER})"
    )
    for name, what in {"ttft": "time to first token", "itl": "inter-token latency"}.items():
        help = f"longest {what} that counts as good, in milliseconds (pass both goals to see goodput)"
        parser.add_argument(f"--{name}-goal", type=amount, metavar="MS", help=help)


def _run(parsed: argparse.Namespace) -> int:
    """Writes the report, or prints its figures; returns the exit code."""
    results = together([Path(name) for name in parsed.results])
    goals = _goals(parsed)
    if parsed.json:
        shown = [summary(result, goals) for result in results]
        compared = [{**asdict(one), "decided": one.decided} for one in compare_costs(shown)]
        warnings = [f"{one.label}: {one.first_token_warning}" for one in shown if one.first_token_warning]
        print_json({"results": [one.as_dict() for one in shown], "comparisons": compared, "warnings": warnings})
    else:
        results = [name_models(result) for result in results]
        shown = [summary(result, goals) for result in results]
        folder = Path(parsed.output)
        if folder.is_file():
            raise CallError(f"{folder} is a file. Name a folder with -o.")
        try:
            written = _write(results, shown, folder, goals)
        except OSError as error:
            raise CallError(
                f"cannot write {error.filename or folder}: {error.strerror}. Name another folder with -o."
            ) from error
        for path in written:
            print_line(str(path), sys.stdout)
    if not any(one.figures for one in shown):
        complain('no run can be compared. Read why under "Excluded runs" in the report.')
        return FAILED
    return FINE


def together(paths: Sequence[Path]) -> list[Result]:
    """The results, each under a label of its own; raises `ResultError`, with all reasons, where they do not compare."""
    errors = [f"{path} is given twice. Name each result once." for path, often in Counter(paths).items() if often > 1]
    results = []
    for path in paths:
        try:
            results.append(read(path))
        except ResultError as error:
            errors.append(str(error))
    if errors:
        raise ResultError("\n".join(errors))
    for path, result in zip(paths[1:], results[1:], strict=True):
        errors += [f"{path} and {paths[0]} cannot be compared: {why}" for why in _differences(results[0], result)]
    if errors:
        raise ResultError("\n".join(errors))
    often = Counter(result.label for result in results)
    names = [path.stem for path in paths]
    if len(set(names)) < len(names):
        names = [str(path) for path in paths]
    return [
        replace(result, label=f"{result.label} ({name})") if often[result.label] > 1 else result
        for name, result in zip(names, results, strict=True)
    ]


def _differences(first: Result, other: Result) -> list[str]:
    """What makes two results of different resources; empty when only the target differs."""
    one, two = asdict(first.load), asdict(other.load)
    shown = [f"{name} is {two[name]} there and {one[name]} here" for name in one if one[name] != two[name]]
    models = [{server.id: server.model for server in result.servers} for result in (first, other)]
    if models[0] != models[1]:
        shown.append(f"the models are {_named(models[1])} there and {_named(models[0])} here")
    return shown


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
    names = {one.id: one.model if tags[one.model] == 1 else f"{one.model} ({one.id})" for one in result.servers}

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
        sessions=[
            replace(session, servers=[replace(server, id=names[server.id]) for server in session.servers])
            for session in result.sessions
        ],
        runs=[rename(run) for run in result.runs],
        plan=plan,
    )


def _write(results: Sequence[Result], shown: Sequence[Summary], folder: Path, goals: Goals | None) -> list[Path]:
    from tandem.report.page import FILE, page

    figures = draw(shown)
    text = document(results, shown, figures, goals)
    files = {DOCUMENT: text, FILE: page(text, figures)} | {figure.file: figure.drawing for figure in figures}
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(content, encoding="utf-8")
    return [folder / name for name in files]
