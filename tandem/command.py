"""The `tandem` command: where it begins and ends."""

# No more than what Python itself has available: anyone who presses Ctrl-C while this file is imported sees a traceback.
import codecs
import gc
import io
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tandem.parser import Parser

GROUPS = {
    "Plan": {
        "init": ("init", "Create a stack file from a few questions"),
        "plan": ("plan", "Check a stack; show its resources, cost, and startup time"),
        "choose": ("choose", "Find the cheapest setups for your models"),
        "modes": ("modes", "Compare sharing modes and prices across instance types"),
        "models": ("models", "List the known models, or describe another from its file"),
        "gpus": ("gpus", "List GPU instance types with memory and prices"),
        "prices": ("account", "Read today's prices from AWS, for `tandem plan --live-prices`"),
        "quota": ("account", "Check AWS quotas and instance availability before `pulumi up`"),
        "doctor": ("doctor", "Check machine, account and cluster before `pulumi up`"),
    },
    "Operate": {
        "verify": ("verify", "Check a deployed stack: GPU shares, pods, and models"),
        "watch": ("watch", "Live view of models, GPUs, and pods"),
        "leftovers": ("account", "Find (and delete) what `pulumi destroy` left behind"),
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
"""The commands as `--help` groups them: the room of each, and what it does."""
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}
SUBSTITUTES = {"×": "x", "–": "-", "→": ">", "·": "-", "±": "+-", "…": "...", "✓": "ok", "█": "#", "▓": "=", "░": "."}
"""What is shown in place of characters that an encoding lacks; as wide, where columns stand behind it."""
QUICK = ("plan", "choose", "modes", "models", "gpus")
"""Commands that end before garbage could matter."""


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
    # Short-lived, and mostly imports: collecting garbage between thousands of new classes, and taking them apart in
    # the end, is a fifth of the time of a refusal.
    gc.disable()
    sys.unraisablehook = _heard_again
    codecs.register_error("tandem", _substitute)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # An `x` in place of a `×`, where the locale or a pipe has another encoding than UTF-8.
            stream.reconfigure(errors="tandem")
    end_on_signals()
    if "_ARGCOMPLETE" in os.environ:
        _suggest()
    try:
        code = main()
        sys.stdout.flush()
    except KeyboardInterrupt:
        # The second Ctrl-C, while the first was being answered.
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

    # What is left is to take threads and modules apart, which a Ctrl-C would only fill with tracebacks.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()
    sys.exit(code)


def _substitute(error: UnicodeError) -> "tuple[str, int]":
    """What stands for characters that the encoding of the output lacks."""
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    return "".join(SUBSTITUTES.get(character, "?") for character in lacking), error.end


def _suggest() -> None:
    """Answers the Tab key: the shell has put the line into the environment, as argcomplete says."""
    from tandem.completion.suggestions import suggest

    line = os.environ.get("COMP_LINE", "")[: int(os.environ.get("COMP_POINT") or 0)]
    suggest(parser(_called(line.split()[1:])))


def end_on_signals() -> None:
    """SIGTERM and SIGHUP end the command from within, as Ctrl-C does: private files are removed on the fix."""
    import signal

    def leave(number: int, frame: object) -> None:
        # A second one must not interrupt what the first has begun.
        signal.signal(number, lambda number, frame: None)
        sys.exit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        # `nohup` ignores SIGHUP, and means it.
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, leave)


def _flush_nothing_more() -> None:
    """What is left in the buffer of the output goes nowhere, where Python's exit would fail to write it again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _heard_again(lost: "sys.UnraisableHookArgs") -> None:
    """Ctrl-C in the middle of a destructor or of the callback of a lock (each import has one) is printed and dropped
    by Python. Here it comes again when that has ended."""
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
        from tandem.extras import version

        terminal.print_line(f"tandem {version()}", sys.stdout)
        return terminal.FINE
    passed_on: list[str] = []
    if given[:1] == ["sandbox"] and "--" in given:
        end = given.index("--")
        given, passed_on = given[:end], given[end + 1 :]
    called = _called(given)
    parsed = argparse.Namespace(
        given=given, passed_on=passed_on, json="--json" in given, command=called, then=[], last=""
    )
    if called not in QUICK:
        gc.enable()
    checkout = ("distribution/layout.py", "tandem/command.py")
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
    terminal.print_line("", sys.stdout)
    terminal.print_line(parsed.last, sys.stdout)
    return code


def _called(given: "Sequence[str]") -> str:
    """The command among the words of a call; empty where none of ours is."""
    name = next((word for word in given if not word.startswith("-")), "")
    return name if name in COMMANDS else ""


def parser(called: str = "") -> "Parser":
    """Reads the arguments of the command that is called: no other room is imported. Of all, it knows the names."""
    from tandem.parser import Parser, shorten_usage

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
