"""The `tandem` command: where it begins and ends."""

# No more than what Python itself has at hand: whoever presses Ctrl-C while this file is imported sees a traceback.
import codecs
import gc
import io
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

COMMANDS = {
    "init": ("init", "create a stack file: answer a few questions, pick one of the cheapest setups"),
    "plan": ("plan", "check a stack and show what it creates, costs and how long it takes"),
    "choose": ("choose", "show the cheapest setups that hold your models, and write the best one as a stack file"),
    "doctor": ("doctor", "before up: check what would stop it on this machine, in the account and in the cluster"),
    "sandbox": ("sandbox", "run the real pulumi against an emulated AWS and Kubernetes"),
    "modes": ("modes", "show which way of sharing goes on which instance type, and what it costs"),
    "models": ("models", "list the models of the catalogue, or describe one that it lacks"),
    "gpus": ("gpus", "list the GPU instance types, their memory and their prices"),
    "leftovers": ("account", "after destroy: find what is left in the account, and what it costs"),
    "quota": ("account", "before up: check the account's quotas, and that its zones have the instance types"),
    "prices": ("account", "read today's prices from AWS, for `tandem plan --live-prices`"),
    "verify": ("verify", "after up: prove that the shares are real and that every model is whole on its GPU"),
    "watch": ("watch", "see live what the models, the GPUs and the pods do"),
    "chat": ("chat", "let the two models talk to each other"),
    "bench": ("bench", "measure the models alone and together"),
    "report": ("report", "report what `bench` measured, in Markdown and HTML"),
}
"""The commands in the order of `--help`: the room of each, and what it does."""
SUBSTITUTES = {"×": "x", "–": "-", "→": ">", "·": "-", "±": "+-", "…": "...", "✓": "ok", "█": "#", "▓": "=", "░": "."}
"""What is shown in place of characters that an encoding lacks; as wide, where columns stand behind it."""
QUICK = ("plan", "choose", "modes", "models", "gpus")
"""Commands that end before garbage could matter."""


def main(arguments: "Sequence[str] | None" = None) -> int:
    """Runs the command; returns its exit code."""
    try:
        return _answer(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        from tandem.terminal import INTERRUPTED

        print("tandem: interrupted", file=sys.stderr)
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


def end_on_signals() -> None:
    """SIGTERM and SIGHUP end the command from within, as Ctrl-C does: private files are removed on the way out."""
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

    passed_on: list[str] = []
    if given[:1] == ["sandbox"] and "--" in given:
        end = given.index("--")
        given, passed_on = given[:end], given[end + 1 :]
    called = given[0] if given and given[0] in COMMANDS else ""
    parsed = argparse.Namespace(given=given, passed_on=passed_on, json="--json" in given, command=called, then=[])
    if called not in QUICK:
        gc.enable()
    checkout = ("distribution/layout.py", "tandem/command.py")
    if all(map(os.path.isfile, checkout)) and not os.path.samefile(checkout[1], __file__):
        terminal.complain(
            f"warning: this is the copy in {os.path.dirname(__file__)}: what you change in this checkout has no effect "
            "on it. Run `python -m pip install --no-build-isolation -e .` here."
        )

    def run() -> int:
        _parser(called).parse_args(given, parsed)
        return int(parsed.run(parsed))

    code = terminal.answer(run, parsed)
    return _answer(parsed.then) if parsed.then and not code else code


def _parser(called: str = "") -> "argparse.ArgumentParser":
    """Reads the arguments of the command that is called: no other room is imported. Of all, it knows the names."""
    from tandem.terminal import EXIT_CODES, Parser

    parser = Parser(
        prog="tandem", description="Two language models, one cheap GPU, one `pulumi up`.", epilog=EXIT_CODES
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    if called:
        import importlib

        importlib.import_module(f"tandem.{COMMANDS[called][0]}.command").add(commands)
    else:
        for name, (_, help) in COMMANDS.items():
            commands.add_parser(name, help=help)
    return parser
