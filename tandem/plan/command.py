"""`tandem plan`: its arguments and what it prints."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sharing.aws.partitions import HOME_REGION
from sharing.printable import counted
from tandem.arguments import DEFAULT_STACK, REFUSED, WAYS, Commands, add_command, add_measured
from tandem.lookup import existing
from tandem.plan.graph_file import graph_file, write_graph
from tandem.plan.model_arguments import add_options, read_models
from tandem.terminal import (
    FAILED,
    FINE,
    USAGE,
    CallError,
    complain,
    in_words,
    open_console,
    print_json,
    print_line,
    print_problems,
    say,
    status,
)

if TYPE_CHECKING:
    from sharing.hardware.prices import Book
    from sharing.speed.measured import Measurement
    from stacks.stack_file.judge import Judged, Plan
    from stacks.stack_file.yaml import Source
    from tandem.plan.cheapest import Found
    from tandem.plan.switch import Switches

NOTHING_STOPPED = "Nothing was stopped: the running stack is as it was."


def add(commands: Commands) -> None:
    """Adds the command to those of `tandem`."""
    parser = add_command(
        commands,
        "plan",
        _run,
        description="Check a stack file and plan the whole stack here; or, for models without a file, plan the "
        "cheapest stack. Needs no AWS account, no Pulumi CLI and no network.",
        exit_codes={1: f"{REFUSED}, no setup fits the models or, with --strict, warnings"},
        usage="%(prog)s [OPTIONS] [STACK|FILE|MODEL ...]",
    )
    parser.add_argument(
        "stack",
        nargs="?",
        metavar="STACK|FILE|MODEL",
        help="a stack (its file is Pulumi.STACK.yaml), a stack file, or a model such as qwen3:8b "
        f"(default: the stack {DEFAULT_STACK})",
    )
    parser.add_argument(
        "others", nargs="*", metavar="STACK|FILE|MODEL", help="more models; or more stacks, to compare side by side"
    )
    add_options(parser)
    parser.add_argument(
        "--compare",
        metavar="MODES",
        help=f"compare sharing modes of the stack, e.g. timeslice,mps; of {', '.join(WAYS)}",
    )
    parser.add_argument("--live-prices", action="store_true", help="use the prices that `tandem prices` has cached")
    add_measured(parser)
    parser.add_argument(
        "--strict",
        action="store_true",
        help="fail on warnings and on what cannot be judged, such as a budget without prices (exit code 1)",
    )
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="also show memory, cost, quotas and startup in full"
    )
    parser.add_argument("--resources", action="store_true", help="also list the resources as a tree")
    parser.add_argument(
        "--graph",
        type=graph_file,
        metavar="FILE",
        help="also write the resources and the startup path as a graph: .svg, or Mermaid in .mmd or .md",
    )
    parser.add_argument(
        "--format",
        choices=("text", "github"),
        default="text",
        help="github: workflow commands, no screen",
    )
    against = parser.add_mutually_exclusive_group()
    against.add_argument(
        "--running",
        action="store_true",
        help="also show what would change in the deployed stack (reads its Pulumi outputs)",
    )
    against.add_argument(
        "--outputs",
        type=Path,
        metavar="FILE",
        help="like --running, but read the outputs from FILE (`pulumi stack output --json`)",
    )


def _run(parsed: argparse.Namespace) -> int:
    from stacks.stack_file.errors import UnreadableError
    from stacks.stack_file.judge import judge_file
    from tandem.plan.github import annotate, annotate_error

    is_up = parsed.running or parsed.outputs is not None
    if parsed.json and parsed.format != "text":
        raise CallError("--json and --format github exclude each other. Pass one of them.")
    if models := read_models(parsed):
        return _plan_models(parsed, models)
    parsed.stack = parsed.stack or DEFAULT_STACK
    if parsed.others or parsed.compare is not None:
        return _compare(parsed)
    try:
        path = existing(parsed.stack)
        find_prices, measured = _live_prices if parsed.live_prices else None, _measured(parsed)
        judged = judge_file(path, find_prices=find_prices, strict=parsed.strict, measured=measured)
    except (CallError, UnreadableError) as error:
        if parsed.format != "github":
            raise
        annotate_error(str(error))
        return USAGE
    if measured:
        _warn_of_unused([judged])
    if parsed.format == "github":
        annotate(judged, path)
        return FAILED if judged.refused else FINE
    switch = _switched(judged.plan(), path, parsed.outputs) if is_up and not judged.refused else None
    return _answer(parsed, judged, switch)


def _plan_models(parsed: argparse.Namespace, models: list[str]) -> int:
    """Plans the cheapest setup for models, without a file."""
    from tandem.plan.cheapest import find_cheapest
    from tandem.search.new_stack_file import shown

    target = _target(parsed) if parsed.write is not None or parsed.force else None
    book = _live_prices(parsed.region or HOME_REGION) if parsed.live_prices else None
    found = find_cheapest(parsed, models, book, _measured(parsed))
    if parsed.measured:
        _warn_of_unused([found.judged])
    if target and not found.judged.refused:
        found = found.write(target)
        if not parsed.json:  # at once: what follows may fail or be interrupted
            print_line(f"Wrote {shown(target)}.", sys.stdout)
    if found.lowered:
        print_line(found.lowered, sys.stderr if parsed.json else sys.stdout)
    return _answer(parsed, found.judged, found=found)


def _target(parsed: argparse.Namespace) -> Path | None:
    from tandem.search import new_stack_file

    return new_stack_file.find_target(parsed)


def _answer(
    parsed: argparse.Namespace, judged: "Judged", switch: "Switches | None" = None, found: "Found | None" = None
) -> int:
    """Shows the plan or the errors, to people or to programs; returns the exit code."""
    if parsed.json:
        from tandem.dry_run.program import run
        from tandem.plan_json.report import report

        planned = None if judged.refused else run(judged.plan())
        if planned and parsed.graph:
            write_graph(parsed.graph, planned, judged.plan().stack)
        print_json(report(judged, planned, switch, found).model_dump())
        return FAILED if _fails(judged, strict=parsed.strict) else FINE
    if judged.refused:
        print_problems(judged, parsed.stack, all_warnings=parsed.verbose)
        if parsed.running or parsed.outputs is not None:
            print_line(NOTHING_STOPPED, sys.stdout)
        return FAILED
    _show(judged, switch, parsed, found)
    if not _fails(judged, strict=parsed.strict):
        return FINE
    complain(f"--strict refuses this plan: it has {counted(len(judged.warnings), 'warning')}.")
    return FAILED


def _fails(judged: "Judged", *, strict: bool) -> bool:
    return judged.refused or (strict and bool(judged.warnings))


def _compare(parsed: argparse.Namespace) -> int:
    """Shows plans side by side; fails if a stack is refused, or if no mode is accepted."""
    if parsed.others and parsed.compare is not None:
        raise CallError("a comparison takes several stacks, or one with --compare. Leave out --compare.")
    if unused := _not_compared(parsed):
        raise CallError(f"a comparison shows no plan in full. Leave out {in_words(unused)}.")

    from stacks.stack_file.judge import judge
    from tandem.plan import compare

    names = compare.read_modes(parsed.compare) if parsed.compare is not None else []
    compared = {*names, *(name.partition("-")[0] for name in names)}
    measured = _measured(parsed)

    def judged(source: "Source", name: str) -> "Judged":
        book = _live_prices(source.region) if parsed.live_prices else None
        return judge(source, name, book=book, strict=parsed.strict, compared_modes=compared, measured=measured)

    paths = [existing(stack) for stack in (parsed.stack, *parsed.others)]
    with status("Planning"):
        options = compare.compare_modes(paths[0], names, judged) if names else compare.compare_stacks(paths, judged)
    if measured:
        _warn_of_unused([option.judged for option in options])
    if parsed.json:
        print_json(compare.as_dict(options))
    else:
        modes = counted(len(options), "sharing mode")
        title = f"{paths[0].name} in {modes}" if names else counted(len(options), "stack")
        compare.show(open_console(), title, options)
    failing = [_fails(option.judged, strict=parsed.strict) for option in options]
    return FAILED if (all if names else any)(failing) else FINE


def _not_compared(parsed: argparse.Namespace) -> list[str]:
    """The options of the call that a comparison does not support."""
    used = {
        "--running": parsed.running,
        "--outputs": parsed.outputs is not None,
        "--graph": parsed.graph is not None,
        "--verbose": parsed.verbose,
        "--resources": parsed.resources,
        "--format": parsed.format != "text",
    }
    return [option for option, is_used in used.items() if is_used]


def _measured(parsed: argparse.Namespace) -> "tuple[Measurement, ...]":
    if not parsed.measured:
        return ()
    from tandem.bench_results.measurements import read_measured

    return read_measured(parsed.measured)


def _warn_of_unused(every: "Sequence[Judged]") -> None:
    from tandem.bench_results.measurements import warn_of_unused

    warn_of_unused([judged.decided for judged in every if judged.decided])


def _live_prices(region: object) -> "Book | None":
    from tandem import price_cache

    return price_cache.of_region(region)


def _switched(plan: "Plan", file: Path, outputs: Path | None) -> "Switches":
    """The changes to the running stack if `plan` is deployed.

    The running stack is read from the file `outputs`, or from Pulumi's outputs of the stack of `file`. Raises
    `tandem.deployed.endpoints.NotConnectedError` if there are none.
    """
    from tandem.deployed import outputs as running
    from tandem.plan.switch import switches

    runs = running.of_file(outputs, plan.stack) if outputs else running.of_stack(plan.stack, file)
    limits = {
        fit.served.id: fit.placement.share_mib
        for fit in plan.verdict.fits
        if fit.placement.shares.own_limits and fit.placement.share_mib is not None
    }
    return switches(plan.config, runs, proof=plan.config.proof, limits=limits)


def _show(
    judged: "Judged", switch: "Switches | None", parsed: argparse.Namespace, found: "Found | None" = None
) -> None:
    plan = judged.plan()

    from tandem.dry_run.program import run
    from tandem.plan import screen

    console = open_console()
    has_file = found is None or found.written is not None
    with status(f"Planning {judged.name if has_file else 'the models'}"):
        planned = run(plan)
    more = f"{'' if parsed.resources else ' See --resources.'}{'' if parsed.verbose else ' Details: -v.'}"
    for line in found.head if found else ():
        say(console, line)
    screen.show(console, plan, planned, is_up=switch is not None, more=more, named=has_file)
    if parsed.verbose:
        from tandem.plan import details

        details.show(console, plan, planned)
    if parsed.resources:
        from tandem.plan import details

        details.show_resources(console, planned.graph)
    if switch:
        from tandem.plan import switch_screen

        switch_screen.show(console, switch)
    if parsed.graph:
        write_graph(parsed.graph, planned, plan.stack)
        console.print()
        print_line(f"Wrote {parsed.graph}", sys.stdout)
    if judged.warnings:
        console.print()
    print_problems(judged, parsed.stack)
    if found:
        if found.beside and not has_file:
            say(console, found.beside)
        say(console, found.foot, fold=False)
