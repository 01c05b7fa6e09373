"""The `tandem` command. Exit codes: 0 fine, 1 refused with reasons, 2 wrong call or unreadable file."""

import argparse
import difflib
import gc
import json
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from sharing.problems import told
from stacks.source import UnreadableError
from tandem import plan
from tandem.report import PlanReport, ProblemReport

FINE, REFUSED, USAGE = 0, 1, 2
DEFAULT_STACK = "timeslice"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    parsed = _parser().parse_args(arguments)
    # Short-lived, and mostly imports: collecting garbage between thousands of new classes costs a fifth of the time.
    gc.disable()
    try:
        return _plan(parsed.stack, as_json=parsed.json)
    except BrokenPipeError:
        sys.stderr.close()
        return FINE


def entry() -> None:
    """The console script."""
    sys.exit(main())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tandem", description="Two language models, one cheap GPU, one `pulumi up`.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    planning = commands.add_parser(
        "plan",
        help="check a stack and show what it creates, costs and how long it takes",
        description="Checks a stack file and runs its whole program here: no AWS account, no Pulumi CLI, no network.",
        epilog="Exit codes: 0 fine, 1 refused with reasons, 2 wrong call or unreadable file.",
    )
    planning.add_argument(
        "stack",
        nargs="?",
        default=DEFAULT_STACK,
        metavar="STACK|FILE",
        help=f"a stack (its file is Pulumi.STACK.yaml) or a file (default: {DEFAULT_STACK})",
    )
    planning.add_argument("--json", action="store_true", help="print one JSON object instead")
    return parser


def _plan(stack: str, *, as_json: bool) -> int:
    path = stack_file(stack)
    try:
        if not path.is_file():
            raise UnreadableError(_no_such_file(stack, path))
        judged = plan.judge(path)
    except UnreadableError as error:
        return _unreadable(path, str(error), as_json=as_json)
    if as_json:
        planned = None if judged.refused else plan.run(judged)
        _print_json(plan.report(judged, planned))
        return REFUSED if judged.refused else FINE
    if judged.refused:
        _tell(path, judged)
        return REFUSED

    from rich.console import Console

    from tandem import show

    console = Console(highlight=False)
    show.headline(console, path.name, judged)
    _tell(path, judged)
    show.rules(console, judged)
    sys.stdout.flush()
    with console.status("running the program in this process …"):
        planned = plan.run(judged)
    show.resources(console, planned)
    return FINE


def stack_file(stack: str) -> Path:
    """The file that `stack` means: itself when it looks like one, else `Pulumi.<stack>.yaml` here or above."""
    if "/" in stack or stack.endswith((".yaml", ".yml")):
        return Path(stack)
    name = f"Pulumi.{stack}.yaml"
    here = Path.cwd()
    homes = [folder for folder in (here, *here.parents) if (folder / "Pulumi.yaml").is_file()]
    return (homes[0] if homes else here) / name


def _no_such_file(stack: str, path: Path) -> str:
    known = sorted(
        found.name.removeprefix("Pulumi.").removesuffix(".yaml") for found in path.parent.glob("Pulumi.*.yaml")
    )
    close = difflib.get_close_matches(stack, known)
    hint = f"Did you mean {' or '.join(close)}?" if close else f"Stacks here: {', '.join(known) or 'none'}."
    return f"there is no file {path.name}. {hint}"


def _tell(path: Path, judged: plan.Judged) -> None:
    """Prints mistakes and warnings: a line each, folded to the width of a terminal. Without rich, for speed."""
    lines = told(path.name, "mistake", judged.reading.problems)
    lines += told(path.name, "warning", judged.reading.assessment.warnings)
    for line in lines:
        print(textwrap.fill(line, _width(), subsequent_indent="    ", break_long_words=False) if _width() else line)


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 0


def _unreadable(path: Path, message: str, *, as_json: bool) -> int:
    if as_json:
        problem = ProblemReport(path="", found="", rule=message, fix="")
        _print_json(PlanReport(stack=plan.stack_name(path), mode=None, verdict="refused", problems=[problem]))
    else:
        print(f"tandem: {message}", file=sys.stderr)
    return USAGE


def _print_json(report: PlanReport) -> None:
    print(json.dumps(report.as_dict(), indent=2, ensure_ascii=False, default=list))
