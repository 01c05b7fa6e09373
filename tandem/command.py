"""The `tandem` command. Exit codes: 0 fine, 1 refused with reasons, 2 wrong call or unreadable file."""

import argparse
import gc
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

# The rules, Pulumi and rich are imported where they are used: most of the time of a refusal is imports. The other
# commands, too: whoever presses Ctrl-C while Python imports this file sees a traceback.
if TYPE_CHECKING:
    from tandem.plan import Judged
    from tandem.report import PlanReport

FINE, REFUSED, USAGE = 0, 1, 2
INTERRUPTED = 130
"""What shells report of a program that Ctrl-C ended: 128 and the signal's number."""
EXIT_CODES = "Exit codes: 0 fine, 1 refused with reasons, 2 wrong call or unreadable file."
DEFAULT_STACK = "timeslice"
SANDBOX_VERBS = {
    "up": "create or change the stack in the emulated cloud",
    "preview": "show what `up` would do",
    "refresh": "bring Pulumi's state up to what is in the emulated cloud",
    "destroy": "delete everything, and say what is left: that must be nothing",
    "status": "compare Pulumi's state with the emulated cloud, and say how to repair what differs",
    "pulumi": "run any other command of pulumi on the stack, e.g. `-- stack output`",
    "delete": "delete one thing from the emulated cloud behind Pulumi's back, as with the AWS console",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    try:
        return _main(arguments)
    except KeyboardInterrupt:
        print("tandem: interrupted", file=sys.stderr)
        return INTERRUPTED


def _main(arguments: Sequence[str] | None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    extra: list[str] = []
    if given[:1] == ["sandbox"] and "--" in given:
        end = given.index("--")
        given, extra = given[:end], given[end + 1 :]
    parsed = _parser().parse_args(given, argparse.Namespace(given=given))
    if parsed.command == "sandbox":
        return _sandbox(parsed.verb, parsed.stack, extra or getattr(parsed, "thing", []), parsed.pace)
    if "run" in parsed:
        return int(parsed.run(parsed))
    return _plan(parsed.stack, as_json=parsed.json, live_prices=parsed.live_prices)


def entry() -> None:
    """The console script."""
    # Short-lived, and mostly imports: collecting garbage between thousands of new classes, and taking them apart in
    # the end, is a fifth of the time of a refusal.
    gc.disable()
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (`| head`) has seen enough. Nothing is left to be flushed into the closed pipe at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FINE
    gc.freeze()
    sys.exit(code)


def _parser() -> argparse.ArgumentParser:
    from tandem import modes
    from tandem.account import command as account
    from tandem.benchmark import arguments as benchmark
    from tandem.cluster import arguments as cluster
    from tandem.conversation import arguments as conversation

    parser = argparse.ArgumentParser(
        prog="tandem", description="Two language models, one cheap GPU, one `pulumi up`.", epilog=EXIT_CODES
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    planning = commands.add_parser(
        "plan",
        help="check a stack and show what it creates, costs and how long it takes",
        description="Checks a stack file and runs its whole program here: no AWS account, no Pulumi CLI, no network.",
        epilog=EXIT_CODES,
    )
    planning.add_argument(
        "stack",
        nargs="?",
        default=DEFAULT_STACK,
        metavar="STACK|FILE",
        help=f"a stack (its file is Pulumi.STACK.yaml) or a file (default: {DEFAULT_STACK})",
    )
    planning.add_argument("--json", action="store_true", help="print one JSON object instead")
    planning.add_argument(
        "--live-prices", action="store_true", help="take the prices that `tandem prices` has read from AWS"
    )
    _add_sandbox(commands)
    modes.add(commands, EXIT_CODES)
    account.add(commands)
    cluster.add(commands)
    conversation.add(commands)
    benchmark.add(commands)
    return parser


def _add_sandbox(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    sandbox = commands.add_parser(
        "sandbox",
        help="run the real pulumi against an emulated AWS and Kubernetes",
        description="Runs the `pulumi` of the PATH against an emulated cloud, which is kept in .tandem/sandbox/: "
        "no AWS account, no network, nothing to pay. What follows `--` goes to pulumi.",
        epilog=EXIT_CODES,
    )
    verbs = sandbox.add_subparsers(required=True, metavar="VERB", dest="verb")
    for verb, what in SANDBOX_VERBS.items():
        parser = verbs.add_parser(verb, help=what, description=f"{what[0].upper()}{what[1:]}.", epilog=EXIT_CODES)
        parser.add_argument(
            "stack",
            nargs=None if verb == "delete" else "?",
            default=DEFAULT_STACK,
            metavar="STACK|FILE",
            help=f"a stack (its file is Pulumi.STACK.yaml) or a file (default: {DEFAULT_STACK})",
        )
        parser.add_argument(
            "--pace",
            type=float,
            default=0.0,
            metavar="SECONDS",
            help="how long a minute of the cloud takes here (default: 0, everything is there at once)",
        )
        if verb == "delete":
            parser.add_argument("thing", nargs=2, metavar=("TYPE", "ID"), help="what `status` named")


def _sandbox(verb: str, stack: str, extra: Sequence[str], pace: float) -> int:
    from tandem import plan

    path = stack_file(stack)
    homes = [path.absolute().parent, Path.cwd(), *Path.cwd().parents]
    projects = [folder for folder in homes if (folder / "Pulumi.yaml").is_file()]
    if not projects:
        _print_line("tandem: there is no Pulumi.yaml here or above: go to the project's folder", sys.stderr)
        return USAGE
    if verb in ("up", "preview"):
        from stacks.source import UnreadableError

        try:
            if not path.is_file():
                raise UnreadableError(no_such_file(path))
            judged = plan.judge(path)
        except UnreadableError as error:
            return _unreadable(path, str(error), as_json=False)
        if judged.refused:
            _tell(path, judged)
            return REFUSED
    from tandem import sandbox

    gc.enable()
    place = sandbox.Place(plan.stack_name(path), path.absolute(), projects[0])
    return sandbox.command(verb, place, extra, pace=pace)


def _plan(stack: str, *, as_json: bool, live_prices: bool) -> int:
    from stacks.source import UnreadableError
    from tandem import plan

    path = stack_file(stack)
    try:
        if not path.is_file():
            raise UnreadableError(no_such_file(path))
        judged = plan.judge(path, live_prices=live_prices)
    except UnreadableError as error:
        return _unreadable(path, str(error), as_json=as_json)
    if as_json:
        planned = None if judged.refused else plan.run(judged)
        _print_json(plan.report(judged, planned))
        return REFUSED if judged.refused else FINE
    if judged.refused:
        _tell(path, judged)
        return REFUSED

    from tandem import show

    console = show.Output(highlight=False)
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


def no_such_file(path: Path) -> str:
    """What to say of a stack file that is not there."""
    from sharing.problems import near

    if path.is_dir():
        return f"{path} is a folder. Name a file in it."
    known = sorted(
        found.name.removeprefix("Pulumi.").removesuffix(".yaml") for found in path.parent.glob("Pulumi.*.yaml")
    )
    close = near(path.stem.removeprefix("Pulumi."), known)
    hint = f"Did you mean {' or '.join(close)}?" if close else f"Stacks there: {', '.join(known) or 'none'}."
    return f"there is no file {path}. {hint}"


def _tell(path: Path, judged: "Judged") -> None:
    """Prints mistakes and warnings, a line each."""
    from sharing.problems import told

    for line in told(path.name, "mistake", judged.reading.problems):
        _print_line(line, sys.stdout)
    for line in told(path.name, "warning", judged.reading.assessment.warnings):
        _print_line(line, sys.stdout)


def _print_line(line: str, stream: TextIO) -> None:
    """One line, which a terminal gets folded to its width. Without rich, for speed."""
    if stream.isatty():
        import shutil
        import textwrap

        width = shutil.get_terminal_size().columns
        line = textwrap.fill(line, width, subsequent_indent="    ", break_on_hyphens=False)
    print(line, file=stream)


def _unreadable(path: Path, message: str, *, as_json: bool) -> int:
    from tandem import plan
    from tandem.report import PlanReport, ProblemReport

    if as_json:
        problem = ProblemReport(path="", found="", rule=message, fix="")
        _print_json(PlanReport(stack=plan.stack_name(path), mode=None, verdict="refused", problems=[problem]))
    else:
        _print_line(f"tandem: {message}", sys.stderr)
    return USAGE


def _print_json(report: "PlanReport") -> None:
    print(json.dumps(report.as_dict(), indent=2, ensure_ascii=False, default=list))
