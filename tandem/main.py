"""The entry point of the `tandem` command."""

# Import only modules that Python itself loads at startup: Ctrl-C during any other import would show a traceback.
import codecs
import gc
import io
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tandem.arguments import Parser

GROUPS = {
    "Plan": {
        "init": ("init", "Create a stack file from a few questions"),
        "plan": ("plan", "Check a stack; show its resources, cost, and startup time"),
        "choose": ("choose", "Find the cheapest setups for your models"),
        "modes": ("modes", "Compare sharing modes and prices across instance types"),
        "models": ("models", "List the known models, or describe another from its file"),
        "gpus": ("gpus", "List GPU instance types with memory and prices"),
        "prices": ("prices", "Read today's prices from AWS, for `tandem plan --live-prices`"),
        "quota": ("quota", "Check AWS quotas and instance availability before `pulumi up`"),
        "doctor": ("doctor", "Check machine, account and cluster before `pulumi up`"),
    },
    "Operate": {
        "verify": ("verify", "Check a deployed stack: GPU shares, pods, and models"),
        "park": ("parking", "Remove the GPU nodes of a stack with the section `park` now, or later"),
        "wake": ("parking", "Bring back the GPU nodes of a parked stack"),
        "watch": ("watch", "Live view of models, GPUs, and pods"),
        "open": ("ui", "Open the web page of a stack in the browser"),
        "metrics": ("metrics", "Print or serve the models' metrics for Prometheus"),
        "leftovers": ("leftovers", "Find (and delete) what `pulumi destroy` left behind"),
    },
    "Measure": {
        "chat": ("chat", "Let the two models talk to each other"),
        "bench": ("bench", "Measure the models alone and together"),
        "report": ("report", "Turn benchmark results into a report (Markdown and HTML)"),
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
SUBSTITUTES = {"×": "x", "–": "-", "→": ">", "·": "-", "±": "+-", "…": "...", "✓": "ok", "█": "#", "▓": "=", "░": "."}
"""Replacements for characters that an encoding lacks; of equal width where columns follow."""
QUICK = ("plan", "choose", "modes", "models", "gpus")
"""Commands that end before garbage collection is worth its time."""


def main(arguments: "Sequence[str] | None" = None) -> int:
    """Runs the command; returns its exit code."""
    try:
        return _answer(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        from tandem.terminal import INTERRUPTED, note

        note("Interrupted.")
        return INTERRUPTED


def entry() -> None:
    """The console script."""
    # Most of the time is spent on imports: collecting garbage among thousands of new classes, and freeing them at the
    # end, takes a fifth of the time that it takes to refuse a stack.
    gc.disable()
    sys.unraisablehook = _heard_again
    codecs.register_error("tandem", _substitute)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Prints `x` instead of `×` if the locale or a pipe has an encoding other than UTF-8.
            stream.reconfigure(errors="tandem")
    end_on_signals()
    if "_ARGCOMPLETE" in os.environ:
        _suggest()
    try:
        code = main()
        sys.stdout.flush()
    except KeyboardInterrupt:
        # A second Ctrl-C, while the first was being handled.
        code = 130
    except BrokenPipeError:
        # The reader (`| head`) has seen enough.
        _flush_nothing_more()
        code = 0
    except OSError as error:
        import errno

        from tandem.terminal import complain

        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        _flush_nothing_more()
        place = error.filename or "the output"
        complain(f"{place} cannot be written ({error.strerror}). Free some space.")
        code = 1
    import signal

    # Only the cleanup of threads and modules is left, where Ctrl-C would only print tracebacks.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    sys.exit(code)


def _substitute(error: UnicodeError) -> "tuple[str, int]":
    """Replaces characters that the encoding of the output lacks."""
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    return "".join(SUBSTITUTES.get(character, "?") for character in lacking), error.end


def _suggest() -> None:
    """Prints completions: the shell passes the command line in environment variables, as for argcomplete."""
    from tandem.completion.suggestions import suggest

    line = os.environ.get("COMP_LINE", "")[: int(os.environ.get("COMP_POINT") or 0)]
    suggest(parser(_called(line.split()[1:])))


def end_on_signals() -> None:
    """Lets SIGTERM and SIGHUP exit the command as Ctrl-C does, so that it removes its private files first."""
    import signal

    def leave(number: int, frame: object) -> None:
        # A second one must not interrupt what the first has begun.
        signal.signal(number, lambda number, frame: None)
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        # Under `nohup`, SIGHUP must stay ignored.
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, leave)


def _flush_nothing_more() -> None:
    """Discards what is left in the output buffer: otherwise Python would fail to write it again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _heard_again(lost: "sys.UnraisableHookArgs") -> None:
    """Repeats a Ctrl-C that Python would lose.

    Python only prints a KeyboardInterrupt that is raised in a destructor or in the callback of a lock (each import has
    one). So it is raised again a moment later.
    """
    if lost.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(lost)
        return
    import _thread
    import time

    def interrupt() -> None:
        time.sleep(0.02)
        _thread.interrupt_main()

    _thread.start_new_thread(interrupt, ())


def _answer(given: list[str]) -> int:
    import argparse

    from tandem import terminal

    while given[:1] == ["help"]:
        given = [*given[1:], "--help"]
    if given[:1] in (["-V"], ["--version"]):
        from tandem.installation import version

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
    if called not in QUICK:
        gc.enable()
    checkout = ("distribution/layout.py", "tandem/main.py")
    if all(map(os.path.isfile, checkout)) and not os.path.samefile(checkout[1], __file__):
        terminal.warn(
            f"this is the copy in {os.path.dirname(__file__)}: what you change in this checkout has no effect on it. "
            "Run `python -m pip install --no-build-isolation -e .` here."
        )

    def run() -> int:
        parser(called).parse_args(given or ["--help"], parsed)
        return int(parsed.run(parsed))

    code = terminal.answer(run, parsed)
    if code or not parsed.then:
        return code
    code = _answer(parsed.then)
    for line in parsed.last:
        terminal.print_line(line, sys.stdout)
    return code


def _called(given: "Sequence[str]") -> str:
    """The command among the arguments; empty if there is none."""
    name = next((word for word in given if not word.startswith("-")), "")
    return name if name in COMMANDS else ""


def parser(called: str = "") -> "Parser":
    """The parser for the arguments of the command `called`; of other commands, it only knows the names.

    No package of another command is imported.
    """
    from tandem.arguments import Parser, shorten_usage

    root = Parser(prog="tandem")
    commands = root.add_subparsers(metavar="COMMAND", dest="command")
    root.usage = "tandem COMMAND [OPTIONS]"
    root.overview = _overview
    if called:
        import importlib

        root.hint = "Write options after the command."
        importlib.import_module(f"tandem.{COMMANDS[called][0]}.command").add(commands)
    else:
        root.add_argument("-V", "--version", action="store_true")
        for name, (_, purpose) in COMMANDS.items():
            commands.add_parser(name, help=purpose)
    shorten_usage(root)
    return root


def _overview() -> str:
    """The help of `tandem` itself: argparse cannot group commands."""
    import shutil
    import textwrap

    width = max(shutil.get_terminal_size().columns - 2, 40)
    lines = textwrap.wrap("Run two LLMs on one affordable GPU with a single `pulumi up`.", width)
    lines += ["", "usage: tandem COMMAND [OPTIONS]"]
    options = {"-h, --help": "show this help", "-V, --version": "show the version"}
    entries = {title: {name: what for name, (_, what) in group.items()} for title, group in GROUPS.items()}
    for title, group in (entries | {"Options": options}).items():
        lines += ["", f"{title}:"]
        for name, what in group.items():
            lines += textwrap.wrap(what, width, initial_indent=f"  {name:<15}", subsequent_indent=" " * 17)
    end = "Run `tandem help COMMAND` for the arguments and exit codes of a command."
    return "\n".join([*lines, "", *textwrap.wrap(end, width), ""])
