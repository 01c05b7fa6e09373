"""The `tandem` command: where it begins and ends."""

# No more than what Python itself has at hand: whoever presses Ctrl-C while this file is imported sees a traceback.
import gc
import io
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


def main(arguments: "Sequence[str] | None" = None) -> int:
    """Runs the command; returns its exit code."""
    try:
        return _answer(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        from tandem.calling import INTERRUPTED

        print("tandem: interrupted", file=sys.stderr)
        return INTERRUPTED


def entry() -> None:
    """The console script."""
    # Short-lived, and mostly imports: collecting garbage between thousands of new classes, and taking them apart in
    # the end, is a fifth of the time of a refusal.
    gc.disable()
    sys.unraisablehook = _heard_again
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A `?` in place of a `×`, where the locale or a pipe has another encoding than UTF-8.
            stream.reconfigure(errors="replace")
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

        from tandem.calling import complain

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

    from tandem import calling

    passed_on: list[str] = []
    if given[:1] == ["sandbox"] and "--" in given:
        end = given.index("--")
        given, passed_on = given[:end], given[end + 1 :]
    parsed = _parser().parse_args(given, argparse.Namespace(given=given, passed_on=passed_on, json=False))
    return calling.answer(parsed)


def _parser() -> "argparse.ArgumentParser":
    from tandem import choose, gpus, modes, plan_command
    from tandem.account import command as account
    from tandem.benchmark import arguments as benchmark
    from tandem.calling import EXIT_CODES, Parser
    from tandem.cluster import arguments as cluster
    from tandem.conversation import arguments as conversation
    from tandem.doctor import arguments as doctor
    from tandem.models import arguments as models
    from tandem.sandbox import arguments as sandbox

    parser = Parser(
        prog="tandem", description="Two language models, one cheap GPU, one `pulumi up`.", epilog=EXIT_CODES
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for room in (plan_command, choose, doctor, sandbox, modes, models, gpus, account, cluster, conversation, benchmark):
        room.add(commands)
    return parser
