"""What all commands have in common: exit codes, the stack that is meant, and how they tell what stops them."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TextIO, TypeAlias

from sharing.printable import as_json, printable
from tandem.extras import missing

# The rules and YAML are imported where they are used: most of the time of an answer is imports.
if TYPE_CHECKING:
    from stacks.stack_file.judge import Judged, Plan

FINE, FAILED, USAGE = 0, 1, 2
"""All is well; what was looked at is not as it must be: a file, a promise, a model; a wrong call, or no way in."""
INTERRUPTED = 130
"""What shells report of a program that Ctrl-C ended: 128 and the signal's number."""
EXIT_CODES = "Exit codes: 0 fine, 1 refused with reasons, 2 wrong call or unreadable file."
DEFAULT_STACK = "timeslice"
SCHEMA_VERSION = 1
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""What `add_subparsers` returns; argparse has no public name for it."""


class CallError(Exception):
    """What keeps a command from its work: a line with the way out, or several."""

    exit_code: ClassVar[int] = USAGE


class Parser(argparse.ArgumentParser):
    """Reads the arguments of commands; what it says of them is printable."""

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Ends the command: `error` ends here too."""
        super().exit(status, printable(message) if message else None)


def add_command(
    commands: Commands, name: str, run: Callable[[argparse.Namespace], int], *, help: str, description: str
) -> argparse.ArgumentParser:
    """A command that answers people or, with `--json`, programs. A command with other exit codes says so by itself."""
    parser = commands.add_parser(name, help=help, description=description, epilog=EXIT_CODES)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead")
    parser.set_defaults(run=run)
    return parser


def add_stack(parser: argparse.ArgumentParser, *, default: bool = True) -> None:
    """The argument that says which stack is meant."""
    parser.add_argument(
        "stack",
        nargs="?" if default else None,
        default=DEFAULT_STACK,
        metavar="STACK|FILE",
        help="a stack (its file is Pulumi.STACK.yaml) or a file" + (f" (default: {DEFAULT_STACK})" if default else ""),
    )


def stack_file(stack: str) -> Path:
    """The file that `stack` means: itself when it looks like one, else `Pulumi.<stack>.yaml` here or above."""
    if "/" in stack or stack.endswith((".yaml", ".yml")):
        return Path(stack)
    name = f"Pulumi.{stack}.yaml"
    here = Path.cwd()
    homes = [folder for folder in (here, *here.parents) if (folder / "Pulumi.yaml").is_file()]
    return (homes[0] if homes else here) / name


def existing(stack: str) -> Path:
    """The file that `stack` means; raises `CallError`, with the nearest names, where it is not there."""
    path = stack_file(stack)
    if path.is_file():
        return path
    if path.is_dir():
        raise CallError(f"{path} is a folder. Name a file in it.")

    from sharing.problems import near

    known = sorted(
        found.name.removeprefix("Pulumi.").removesuffix(".yaml") for found in path.parent.glob("Pulumi.*.yaml")
    )
    close = near(path.stem.removeprefix("Pulumi."), known)
    hint = f"Did you mean {' or '.join(close)}?" if close else f"Stacks there: {', '.join(known) or 'none'}."
    raise CallError(f"there is no file {path}. {hint}")


def accepted(stack: str) -> "Plan":
    """The plan of a stack that is accepted; raises what `existing` raises, `RefusedError` and `UnreadableError`."""
    path = existing(stack)

    from stacks.stack_file.judge import judge_file

    return judge_file(path).plan()


def answer(parsed: argparse.Namespace) -> int:
    """Runs the command that was called, and tells what keeps it from its work; returns its exit code."""
    from stacks.stack_file.errors import RefusedError, UnreadableError

    try:
        return int(parsed.run(parsed))
    except RefusedError as refusal:
        if parsed.json:
            problems = [str(problem) for problem in refusal.judged.problems]
            print_error(f"{refusal.judged.name} has mistakes", problems=problems)
        else:
            tell(refusal.judged)
        return FAILED
    except ModuleNotFoundError as error:
        return _stopped(missing(error, parsed.command), parsed)
    except CallError as error:
        return _stopped(str(error), parsed, error.exit_code)
    except UnreadableError as error:
        return _stopped(str(error), parsed)


def _stopped(message: str, parsed: argparse.Namespace, code: int = USAGE) -> int:
    if parsed.json:
        print_error(message)
    else:
        complain(message)
    return code


def tell(judged: "Judged") -> None:
    """Prints the mistakes in a stack file and what is unwise in it, a line each."""
    from sharing.problems import told

    for line in told(judged.name, "mistake", judged.problems):
        print_line(line, sys.stdout)
    for line in told(judged.name, "warning", judged.assessment.warnings):
        print_line(line, sys.stdout)


def complain(message: str) -> None:
    """Says on stderr what went wrong, each line of it with the program's name."""
    for line in message.splitlines():
        print_line(f"tandem: {line}", sys.stderr)


def print_line(line: str, stream: TextIO, *, end: str = "\n") -> None:
    """One line, printable, which a terminal gets folded to its width. Without rich, for speed."""
    line = printable(line).replace("\n", " ")
    if stream.isatty():
        import shutil
        import textwrap

        width = shutil.get_terminal_size().columns
        line = textwrap.fill(line, width, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False)
    print(line, file=stream, end=end, flush=True)


def print_json(report: object) -> None:
    """The one object of `--json`."""
    print(as_json(report, indent=2))


def print_error(message: str, **more: Any) -> None:
    """What `--json` prints instead. One line, for those who read a line at a time."""
    print_json_line({"schema_version": SCHEMA_VERSION, "error": message, **more})


def print_json_line(report: object) -> None:
    """An object for those who read a line at a time; it is there at once."""
    print(as_json(report), flush=True)
