"""What all commands print, and how: exit codes, errors, the console, JSON. No other module prints."""

import os
import re
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TextIO

from sharing.printable import as_json, counted, one_line, printable, without_secrets

# rich, the rules and YAML are imported where they are used: most of the time of an answer is imports.
if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from sharing.speed.estimate import Estimate
    from stacks.stack_file.judge import Judged

FINE, FAILED, USAGE = 0, 1, 2
"""Success; a failed check of a file, a stack or a model; a usage error, or unreadable input."""
INTERRUPTED = 130
"""What shells report of a program that Ctrl-C ended: 128 and the signal's number."""
SCHEMA_VERSION = 2
"""Of an error as JSON: `docs/reference/exit-codes.md`."""
KEPT_SPACE = "\N{NO-BREAK SPACE}"
"""A space at which no line ends."""
MOST_SHOWN = 60
"""Characters of a name that cannot be used, in a message."""
TRAILING = re.compile(" +(?=\n)")
COLOURS = {"error": 31, "warning": 33, "hint": 36}
"""What a message begins with, and the colour of that on a terminal (ECMA-48, select graphic rendition)."""
PATIENCE_SECONDS = 5.0
"""Time without output after which a command in a pipe says what it does."""


class CallError(Exception):
    """What keeps a command from its work: a line with the fix, or several."""

    exit_code: ClassVar[int] = USAGE


class InputEndedError(CallError):
    """The user ended the input at a question (Ctrl-D), so there is nobody to ask again."""


class UsageError(CallError):
    """Arguments that a command does not understand."""

    def __init__(self, message: str, usage: str) -> None:
        super().__init__(message)
        self.usage = usage
        """Lines that say what it does understand."""


def refuse(message: str, *, as_json: bool, code: int = USAGE, usage: str = "") -> int:
    """Says what keeps a command from its work, to people or to programs; returns the exit code."""
    if as_json:
        print_json({"schema_version": SCHEMA_VERSION, "error": without_secrets(message), "problems": []}, compact=True)
        return code
    complain(message)
    if usage:
        print(f"\n{usage}", file=sys.stderr)
    return code


def print_refusal(judged: "Judged", stack: str, *, as_json: bool) -> None:
    """The errors in a stack file, to people or to programs. `stack` is how the user named the file."""
    if as_json:
        problems = [problem.as_dict() for problem in judged.problems]
        error = without_secrets(f"{judged.name} has errors")
        print_json({"schema_version": SCHEMA_VERSION, "error": error, "problems": problems}, compact=True)
    else:
        print_problems(judged, stack)


def print_problems(judged: "Judged", stack: str, *, all_warnings: bool = False) -> None:
    """Prints the errors in a stack file or else its warnings, a line each: errors must not drown in warnings.

    `stack` is how the user named the file.
    """
    import shlex

    from sharing.problems import group

    warnings = group(judged.warnings)
    for line in judged.refusal:
        print_line(line, sys.stdout)
    if judged.refused and warnings and not all_warnings:
        every = f"tandem plan {shlex.quote(stack)} --verbose"
        print_line(f"hint: `{every}` also shows {counted(len(warnings), 'warning')}.", sys.stdout)
        return
    for warning in warnings:
        print_line(f"warning: {warning}", sys.stdout)


def short(name: str) -> str:
    """A name in a message: in one line, of 60 characters. Secrets go first: the end of a password may be cut off."""
    shown = one_line(without_secrets(name))
    return f"{shown[:MOST_SHOWN]}…" if len(shown) > MOST_SHOWN else shown


def complain(message: str) -> None:
    """Says on stderr what went wrong: each line is an error, unless it is indented, a warning or a hint."""
    for line in without_secrets(message).splitlines():
        print_line(line if line.startswith(("  ", "warning: ", "hint: ")) else f"error: {line}", sys.stderr)


def print_line(line: str, stream: TextIO, *, end: str = "\n", fold: bool = True) -> None:
    """One line, printable, which a terminal gets folded to its width and in colour. Without rich, for speed."""
    line = printable(line).replace("\n", " ")
    if stream.isatty() and fold:
        import shutil

        line = folded(line, shutil.get_terminal_size().columns, 4)
        kind = line.partition(":")[0]
        if kind in COLOURS and not os.environ.get("NO_COLOR"):
            line = f"\x1b[1;{COLOURS[kind]}m{kind}:\x1b[0m{line.removeprefix(f'{kind}:')}"
    print(line, file=stream, end=end, flush=True)


def print_json(report: object, *, compact: bool = False) -> None:
    """An object of `--json`; `compact` in one line, for those who read a line at a time. It is there at once."""
    print(as_json(report, indent=None if compact else 2), flush=True)


def open_console(*, stderr: bool = False, **options: Any) -> "Console":
    """The console of all commands: text from outside cannot steer the terminal, whatever prints it."""
    return _console_class()(stderr=stderr, highlight=False, **options)


@cache
def _console_class() -> "type[Console]":
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class Output(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
            """Printable text without trailing blanks. Rich keeps colours and cursor moves in other fields."""
            blanks: list[Segment] = []
            for segment in super().render(renderable, options):
                text = segment.text if segment.control else TRAILING.sub("", printable(segment.text))
                if segment.control or text.strip(" "):
                    yield from blanks if not text.startswith("\n") else ()
                    blanks = []
                    shown = text.rstrip(" ") if not segment.control else text
                    yield segment._replace(text=shown)
                    if shown != text:
                        blanks.append(segment._replace(text=text[len(shown) :]))
                else:
                    blanks.append(segment._replace(text=text))
            yield from blanks

        def on_broken_pipe(self) -> None:
            """Leaves a closed pipe to the command: rich, which calls this in its `except`, would exit with 1."""
            raise

    return Output


@contextmanager
def status(text: str) -> Iterator[None]:
    """Says on stderr what is going on while the block runs: in place on a terminal, else a line every few seconds."""
    text = without_secrets(text)
    console = open_console(stderr=True)
    if console.is_terminal:
        with console.status(f"{in_markup(text)} …"):
            yield
        return
    is_over = threading.Event()

    def repeat() -> None:
        seconds = 0.0
        while not is_over.wait(PATIENCE_SECONDS):
            seconds += PATIENCE_SECONDS
            print_line(f"{text} … ({seconds:.0f} s so far)", sys.stderr)

    # Ctrl-C just after the start must not leave the program waiting for it.
    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@contextmanager
def progress(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Says what is being waited for: in place on a terminal, else a line for each new resource."""
    from rich.text import Text

    console = open_console(stderr=True)
    if quiet:
        yield lambda text: None
    elif console.is_terminal:
        with console.status("") as status:
            yield lambda text: status.update(Text(text))
    else:
        yield _new_lines()


def _new_lines() -> Callable[[str], None]:
    printed: set[str] = set()

    def tell(text: str) -> None:
        if text not in printed:
            printed.add(text)
            print_line(text, sys.stderr)

    return tell


def in_markup(text: str) -> str:
    """Text from outside as a part of a line in rich's markup: it ends no line or row, and has no markup of its own."""
    from rich.markup import escape

    return escape(one_line(text))


def new_table(title: str) -> "Table":
    """An empty table in the style of all commands."""
    from rich import box
    from rich.table import Table

    return Table(title=title or None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)


def say(console: "Console", text: str, style: str = "", *, word: str = "", hang: int = 2, fold: bool = True) -> None:
    """One line on the console, in the style; with a `word`, only its first occurrence.

    It is folded to the width of the console, and later lines begin `hang` columns further in. An error, a warning or a
    hint has a style of its own, and a pipe gets it whole.
    """
    from rich.text import Text

    kind = text.lstrip().partition(":")[0]
    lead = len(text) - len(text.lstrip(" "))
    if kind in COLOURS:
        word, style, fold = f"{kind}:", f"bold color({COLOURS[kind] - 30})", console.is_terminal
        text = " " * lead + one_line(text.strip())
    shown = Text(folded(text, console.width, lead + hang) if fold else text.rstrip(), style="" if word else style)
    if word in shown.plain:
        start = shown.plain.index(word)
        shown.stylize(style, start, start + len(word))
    console.print(shown, soft_wrap=True)


def say_about(console: "Console", lead: str, text: str, style: str = "bold") -> None:
    """One line on the console that begins with what it is about: the `lead`, which alone has the style."""
    say(console, f"{lead}{text}", style, word=lead.strip())


def print_rows(
    console: "Console",
    rows: Sequence[Sequence[str]],
    right: Collection[int] = (),
) -> None:
    """Rows in columns; those in `right` hold numbers, which are never cut. The last column is text, and is folded."""
    *widths, text = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room = sum(width + 2 for width in widths)
    fits = 2 + room + min(text, 24) <= console.width
    for *cells, last in rows:
        padded = [f"{cell:{'>' if at in right else '<'}{widths[at]}}" for at, cell in enumerate(cells)]
        before = f"  {'  '.join(padded)}"
        if fits:
            say(console, f"{before}  {last}", hang=room)
        else:
            say(console, before)
            if last:
                say(console, f"    {last}")


def in_range(estimate: "Estimate", digits: int = 0) -> str:
    """A forecast with its range: `38 (30–47)`."""
    return f"{estimate.value:,.{digits}f} ({estimate.low:,.{digits}f}–{estimate.high:,.{digits}f})"


def folded(text: str, width: int, indent: int) -> str:
    """The text in lines of that width; those after the first are indented by that many columns.

    `KEPT_SPACE` stands for a space at which no line ends.
    """
    import textwrap

    lines = textwrap.fill(
        printable(text), width, subsequent_indent=" " * indent, break_on_hyphens=False, break_long_words=False
    )
    return lines.replace(KEPT_SPACE, " ")


def hint_at_left_out(console: "Console", left_out: Sequence[str]) -> None:
    """Names the columns for which the terminal is too narrow."""
    if left_out:
        say(console, f"hint: a wider terminal also shows {in_words(left_out)}")


def in_words(items: Sequence[object]) -> str:
    """E.g. `a, b and c`; there is at least one."""
    *others, last = map(str, items)
    return f"{', '.join(others)} and {last}" if others else last
