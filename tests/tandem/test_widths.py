"""Screens at other widths than those of the goldens: nothing is cut, and no line is too wide."""

import contextlib
import io
import re
import sys
from collections.abc import Callable, Iterator

import pytest

from tandem.terminal import open_console
from tandem.watch import screen as watch
from tests.command import Screen, on_screen
from tests.tandem.shown import LOOKS, SHOWN, bench, chat, look, prices, runs

WIDTHS = (60, 80)
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOURS = re.compile(r"\x1b\[[0-9;]*(?<![0-9])[39][0-7](?![0-9])[0-9;]*m")
NUMBERS = re.compile(r"(?<!\S)[$]?\d[\d,.]*(?!\S)")
COMMANDS = (
    "choose llama2:7b mistral:7b",
    "choose qwen2.5:32b --context 32768 --slots 64",
    "choose llama2:7b --region any --capacity spot",
    "modes --type g4dn.xlarge",
    "plan --compare timeslice,mps,exclusive,mig",
    "modes --provisioner node-group",
    "modes --all",
    "gpus --filter g4dn",
    "models --filter mistral",
)


def looks() -> None:
    """What `watch` shows, at the width of the terminal."""
    console = open_console()
    for one in LOOKS:
        console.print(watch.render(one, ["12:00:00 pod moved"], console.width))


ON_TERMINALS = [looks, *(show for show in SHOWN if show not in (runs, look))]
COLOURED = [show for show in ON_TERMINALS if show not in (prices, bench)]


def lines(text: str) -> Iterator[str]:
    """The output for people, without the JSON objects that the tables' tests also print."""
    inside = False
    for line in ESCAPES.sub("", text).replace("\r", "\n").split("\n"):
        inside = inside or line == "{"
        if not inside:
            yield line
        inside = inside and line != "}"


def shown(show: Callable[[], None], out: io.StringIO) -> str:
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        show()
        sys.stdout.flush()
    return out.getvalue()


def too_wide(text: str, width: int) -> list[str]:
    """Lines that a terminal would break: but for commands to copy, and words that are longer than it is wide."""
    return [
        line
        for line in lines(text)
        if len(line) > width and not line.startswith("  aws ") and all(len(word) < width for word in line.split())
    ]


@pytest.fixture(params=ON_TERMINALS, ids=lambda show: show.__name__)
def at_width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], str]:
    monkeypatch.setenv("TERM", "xterm-256color")

    def at(width: int) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        return shown(request.param, Screen())

    at.__name__ = request.param.__name__
    return at


@pytest.mark.parametrize("width", WIDTHS)
def test_no_line_is_wider_than_the_terminal_and_none_ends_with_blanks(
    at_width: Callable[[int], str], width: int
) -> None:
    text = at_width(width)
    assert too_wide(text, width) == []
    # A conversation is printed word by word.
    assert [line for line in lines(text) if line != line.rstrip()] == [] or at_width.__name__ == chat.__name__


def test_every_number_of_a_wide_screen_is_whole_on_a_narrow_one(at_width: Callable[[int], str]) -> None:
    wide, narrow = ("\n".join(lines(at_width(width))) for width in (200, 60))
    assert set(NUMBERS.findall(wide)) <= set(NUMBERS.findall(narrow))
    assert not re.search(r"\d…|…\d", narrow)


@pytest.mark.parametrize("show", SHOWN, ids=lambda show: show.__name__)
def test_a_pipe_gets_no_colour_and_one_line_for_each_message(
    show: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    text = shown(show, io.StringIO())
    assert "\x1b" not in text.replace("\x1b[31mred", "")
    assert not re.search(r"^(error|warning|hint): .*\n  \S", "\n".join(lines(text)), re.MULTILINE)


@pytest.mark.parametrize("show", COLOURED, ids=lambda show: show.__name__)
def test_no_color_takes_the_colours_away(show: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    assert COLOURS.search(shown(show, Screen())), "otherwise the next line proves nothing"
    monkeypatch.setenv("NO_COLOR", "1")
    assert not COLOURS.search(shown(show, Screen()))


@pytest.mark.slow
def test_rows_as_wide_as_the_terminal_are_whole() -> None:
    wide, exact, narrow = (set(lines(on_screen("plan", "timeslice", columns=each)[1])) for each in (200, 68, 67))
    rows = {line for line in wide if re.search(r"500-token prompt$|\) s$", line)}
    assert (len(rows), max(map(len, rows))) == (3, 68)
    assert rows <= exact
    assert not rows & narrow, "its last column has no room for the whole head"


@pytest.mark.slow
@pytest.mark.parametrize("call", COMMANDS)
@pytest.mark.parametrize("width", WIDTHS)
def test_a_command_fits_the_terminal(call: str, width: int) -> None:
    _, text = on_screen(*call.split(), columns=width)
    assert "Traceback" not in text
    assert too_wide(text, width) == []
    assert not re.search(r"\d…|…\d", text)
    assert [line for line in lines(text) if line != line.rstrip()] == []
