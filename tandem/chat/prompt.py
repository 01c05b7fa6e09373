"""Reads what you write to a model: one message at a time, with the history of your earlier ones."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tandem.lookup import state_folder
from tandem.terminal import CallError, print_line

QUOTES = '"""'
"""Around a message of several lines, as in `ollama run`."""
LEAVE, HELP, CLEAR = "/bye", ("/?", "/help"), "/clear"
LINES = (
    ("/bye, Ctrl-D", "leave"),
    ("/clear", "forget the conversation"),
    ("/?", "show this help"),
    ("Ctrl-C", "stop the answer"),
    (QUOTES, "begin and end a message of several lines"),
)


def read_messages(forget: Callable[[], None]) -> Iterator[str]:
    """Each message, until the user leaves. `forget` is called for `/clear`."""
    while True:
        try:
            text = _read_message()
        except EOFError:
            print_line("", sys.stderr)
            return
        except KeyboardInterrupt:
            print_line("", sys.stderr)
            print_line("Leave with /bye or Ctrl-D.", sys.stderr)
            continue
        if text == LEAVE:
            return
        if text in HELP:
            for word, what in LINES:
                print_line(f"  {word:<14}{what}", sys.stderr)
        elif text == CLEAR:
            forget()
            print_line("The conversation is forgotten.", sys.stderr)
        elif text.startswith("/") and " " not in text:
            print_line(f"unknown command {text}. Write /? for help.", sys.stderr)
        elif text:
            yield text


def _read_message() -> str:
    line = input(">>> ")
    if not line.lstrip().startswith(QUOTES):
        return line.strip()
    lines = [line.lstrip().removeprefix(QUOTES)]
    while not lines[-1].rstrip().endswith(QUOTES):
        lines.append(input("... "))
    return "\n".join([*lines[:-1], lines[-1].rstrip().removesuffix(QUOTES)]).strip()


@contextmanager
def history() -> Iterator[None]:
    """Arrow keys and Ctrl-R find earlier messages while the block runs, also those of earlier sessions."""
    try:
        import readline

        path = state_folder() / "history"
    except (ImportError, CallError):  # a Python that was built without it, or nowhere to keep it
        yield
        return
    with suppress(OSError):
        readline.read_history_file(path)
    try:
        yield
    finally:
        _write(path, readline.write_history_file)


def _write(path: Path, write: Callable[[Path], None]) -> None:
    """A history that cannot be kept is no reason to fail."""
    with suppress(OSError):
        # It may hold what nobody else should read. libedit restricts the file only after it has opened it.
        path.touch(mode=0o600)
        write(path)
