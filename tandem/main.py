"""The entry point of the `tandem` command: it imports only the command that is called."""

import argparse
import errno
import gc
import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence

from tandem import terminal
from tandem.arguments import Parser
from tandem.installation import missing, version

GROUPS = {
    "Plan": {
        "init": ("init", "Create a stack file from a few questions"),
        "plan": ("plan", "Check a stack; show its resources, cost, and startup time"),
        "choose": ("choose", "Find the cheapest setups for your models"),
        "modes": ("modes", "Compare sharing modes and prices across instance types"),
        "models": ("models", "List the known models, or describe another from its file"),
        "images": ("images", "List images and charts; copy them to a private registry"),
        "gpus": ("gpus", "List GPU instance types with memory and prices"),
        "prices": ("prices", "Read today's prices from AWS, for `tandem plan --live-prices`"),
        "quota": ("quota", "Check AWS quotas and instance availability before `pulumi up`"),
        "doctor": ("doctor", "Check machine, account and cluster before `pulumi up`"),
    },
    "Use": {
        "run": ("chat", "Talk to a model of a stack; wake a parked one"),
        "env": ("env", "Point `ollama` and OpenAI clients at a stack's models"),
        "open": ("ui", "Open the web page of a stack in the browser"),
        "chat": ("chat", "Let the two models talk to each other"),
    },
    "Operate": {
        "verify": ("verify", "Check a deployed stack: GPU shares, pods, and models"),
        "park": ("parking", "Remove the GPU nodes of a stack with the section `park`"),
        "wake": ("parking", "Bring back the GPU nodes of a parked stack"),
        "watch": ("watch", "Live view of models, GPUs, and pods"),
        "metrics": ("metrics", "Print or serve the models' metrics for Prometheus"),
        "leftovers": ("leftovers", "Find (and delete) what `pulumi destroy` left behind"),
    },
    "Measure": {
        "bench": ("bench", "Measure the models alone and together"),
        "report": ("report", "Turn benchmark results into one HTML page"),
    },
    "Try": {
        "sandbox": ("sandbox", "Run the real `pulumi` against an emulated AWS, free of charge"),
    },
    "Shell": {
        "completion": ("completion", "Print code that completes commands in bash, zsh or fish"),
    },
}
"""The commands as `--help` groups them: the package of each, and what it does."""
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}
MOST_UNCHECKED = 1_000_000
"""New objects until Python looks for garbage. Imports alone make thousands of classes, and none is garbage."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    try:
        return _answer(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        terminal.print_line("Interrupted.", sys.stderr)
        return terminal.INTERRUPTED


def entry() -> None:
    """The console script."""
    gc.set_threshold(MOST_UNCHECKED)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Prints `?` for a character that the encoding of the locale or of a pipe lacks.
            stream.reconfigure(errors="replace")
    end_on_signals()
    if "_ARGCOMPLETE" in os.environ:
        _suggest()
    code = terminal.FINE
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader (`| head`) has seen enough, which is fine unless the command has returned another code.
        _flush_nothing_more()
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _flush_nothing_more()
        place = error.filename or "the output"
        terminal.complain(f"{place} cannot be written ({error.strerror}). Free some space.")
        code = code or terminal.FAILED
    # Freeing every object at the end would take a sixth of the time that it takes to refuse a stack.
    gc.freeze()
    sys.exit(code)


def end_on_signals() -> None:
    """Lets SIGTERM and SIGHUP exit the command as Ctrl-C does, so that it removes its private files first."""

    def leave(number: int, frame: object) -> None:
        # A second one must not interrupt what the first has begun.
        signal.signal(number, signal.SIG_IGN)
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        # Under `nohup`, SIGHUP must stay ignored.
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, leave)


def _suggest() -> None:
    """Prints completions: the shell passes the command line in environment variables, as for argcomplete."""
    from tandem.completion.suggestions import suggest

    line = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])]
    suggest(parser(_called(line.split()[1:])))


def _flush_nothing_more() -> None:
    """Discards what is left in the output buffer: otherwise Python would fail to write it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _answer(given: list[str]) -> int:
    while given[:1] == ["help"]:
        given = [*given[1:], "--help"]
    if given[:1] in (["-V"], ["--version"]):
        terminal.print_line(f"tandem {version()}", sys.stdout)
        return terminal.FINE
    passed_on: list[str] = []
    if given[:1] == ["sandbox"] and "--" in given:
        end = given.index("--")
        given, passed_on = given[:end], given[end + 1 :]
    called = _called(given)
    parsed = argparse.Namespace(
        given=given, passed_on=passed_on, json="--json" in given, command=called, then=[], last=[]
    )
    _warn_of_copy()
    code = _run(parsed)
    if code or not parsed.then:
        return code
    code = _answer(parsed.then)
    for line in parsed.last:
        terminal.print_line(line, sys.stdout)
    return code


def _run(parsed: argparse.Namespace) -> int:
    """Runs the command, and says what keeps it from its work; returns its exit code."""
    try:
        parser(parsed.command).parse_args(parsed.given or ["--help"], parsed)
        return int(parsed.run(parsed))
    except ModuleNotFoundError as error:
        return terminal.refuse(missing(error, parsed.command), as_json=parsed.json)
    except terminal.UsageError as error:
        return terminal.refuse(str(error), as_json=parsed.json, usage=error.usage)
    except terminal.CallError as error:
        return terminal.refuse(str(error), as_json=parsed.json, code=error.exit_code)
    except Exception as error:
        from stacks.stack_file.errors import UnreadableError
        from stacks.stack_file.judge import RefusedError  # which `--help` does without

        if isinstance(error, UnreadableError):
            return terminal.refuse(str(error), as_json=parsed.json)
        if isinstance(error, RefusedError):
            terminal.print_refusal(error.judged, parsed.stack, as_json=parsed.json)
            return terminal.FAILED
        raise


def _warn_of_copy() -> None:
    """Says that a change of the checkout in this folder has no effect on the command, which is a copy elsewhere."""
    checkout = ("distribution/layout.py", "tandem/main.py")
    if all(map(os.path.isfile, checkout)) and not os.path.samefile(checkout[1], __file__):
        terminal.complain(
            f"warning: this is the copy in {os.path.dirname(__file__)}: what you change in this checkout has no effect "
            "on it. Run `pip install -e .` here."
        )


def _called(given: Sequence[str]) -> str:
    """The command among the arguments; empty if there is none."""
    name = next((word for word in given if not word.startswith("-")), "")
    return name if name in COMMANDS else ""


def parser(called: str = "") -> Parser:
    """The parser for the arguments of the command `called`; of other commands, it only knows the names."""
    root = Parser(
        prog="tandem",
        description="Run two LLMs on one affordable GPU with a single `pulumi up`. `tandem help COMMAND` prints the "
        "arguments and exit codes of a command.",
    )
    commands = root.add_subparsers(dest="command", help=argparse.SUPPRESS)
    root.usage = "tandem COMMAND [OPTIONS]"
    if called:
        root.option_hint = "Write options after the command."
        importlib.import_module(f"tandem.{COMMANDS[called][0]}.command").add(commands)
    else:
        root.add_argument("-V", "--version", action="store_true", help="show the version and exit")
        root.tables = {title: {name: what for name, (_, what) in group.items()} for title, group in GROUPS.items()}
        for name in COMMANDS:
            commands.add_parser(name)
    return root
