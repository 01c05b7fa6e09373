"""Records `docs/assets/recording.svg`: a plan, then the real `pulumi` in the sandbox. `make recording` runs it.

It needs `pulumi` on the PATH. Pauses are shortened, nothing is edited. The commands are those of the README. `destroy`
is not among them: after it, Pulumi warns of the provider's version in pulumi-eks (decision 0147).
"""

import fcntl
import itertools
import os
import pty
import shutil
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, tostring

import pyte
import yaml

ROOT = Path(__file__).resolve().parent.parent
SVG = ROOT / "docs" / "assets" / "recording.svg"
STACK = "timeslice"
COMMANDS = (f"tandem plan {STACK}", f"tandem sandbox up {STACK}", f"tandem sandbox status {STACK}")
COLUMNS, ROWS = 130, 24
"""In a narrower terminal, Pulumi cuts names or times."""
MOST_PAUSE, READ, TYPED, FRAME = 0.2, 3.0, 0.05, 0.2
"""Seconds: the longest pause within a command, the pause after it, one typed letter, and the shortest frame."""
CELL, LINE, MARGIN = 8.4, 18, 12
"""Pixels: width of a letter of 14 px, height of a line, and the border."""
INK, GROUND = "#e6edf3", "#0d1117"
COLOURS = {"red": "#ff7b72", "green": "#56d364", "brown": "#e3b341", "blue": "#79c0ff", "magenta": "#d2a8ff"} | {
    "cyan": "#56d4dd",
    "white": INK,
    "default": INK,
    "black": "#8b949e",
}
Cell = tuple[str, str, bool]
"""A letter, its colour, and whether it is bold."""
Frame = tuple[tuple[Cell, ...], ...]


def main() -> int:
    """Writes the picture; returns the exit code."""
    if not shutil.which("pulumi"):
        print("error: pulumi is not on the PATH. Install it, and run this again.", file=sys.stderr)
        return 1
    SVG.write_text(draw(list(film())), encoding="utf-8")
    return 0


def film() -> Iterator[tuple[float, Frame]]:
    """Each frame of the terminal, with the second at which it appears."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.Stream(screen)
    now = shown = 0.0
    with tempfile.TemporaryDirectory() as folder:
        project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text(encoding="utf-8"))
        Path(folder, "Pulumi.yaml").write_text(yaml.safe_dump({**project, "main": str(ROOT)}), encoding="utf-8")
        shutil.copy(ROOT / f"Pulumi.{STACK}.yaml", folder)
        for pause, text in itertools.chain.from_iterable(scene(command, Path(folder)) for command in COMMANDS):
            now += pause
            if pause >= FRAME or now - shown >= FRAME:
                yield shown + FRAME, snapshot(screen)
                shown = now
            stream.feed(text)
    yield now, snapshot(screen)
    yield now + READ, snapshot(screen)


def scene(command: str, folder: Path) -> Iterator[tuple[float, str]]:
    """A command as it is typed, and its output: pauses, each with the text after it."""
    yield 0.0, "\x1b[32m$\x1b[0m "
    yield READ / 4, command[0]
    for letter in command[1:]:
        yield TYPED, letter
    yield MOST_PAUSE, "\r\n"
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
        env["PATH"] = os.pathsep.join((str(Path(sys.prefix) / "bin"), env["PATH"]))
        os.execvpe("sh", ["sh", "-c", command], env)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    before = time.monotonic()
    while read := _read(terminal):
        after = time.monotonic()
        yield min(after - before, MOST_PAUSE), read.decode(errors="replace")
        before = after
    os.waitpid(child, 0)
    yield READ, "\r\n"


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux raises this when the other end has closed
        return b""


def snapshot(screen: pyte.Screen) -> Frame:
    """The lines that the terminal shows."""
    return tuple(
        tuple((cell.data, cell.fg, cell.bold) for cell in (screen.buffer[row][column] for column in range(COLUMNS)))
        for row in range(ROWS)
    )


def draw(frames: list[tuple[float, Frame]]) -> str:
    """The frames side by side as one strip, which moves to the left in steps; equal lines are drawn once."""
    changed = [one for one, after in itertools.pairwise(frames) if one[1] != after[1]] + [frames[-1]]
    width, height = round(COLUMNS * CELL + 2 * MARGIN), ROWS * LINE + 2 * MARGIN
    picture = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {width} {height}", "role": "img"})
    SubElement(picture, "title").text = f"A terminal that runs {', '.join(COMMANDS)}"
    SubElement(picture, "style").text = _style([second for second, _ in changed], frames[-1][0], width)
    SubElement(picture, "rect", {"width": str(width), "height": str(height), "rx": "8", "fill": GROUND})
    lines = SubElement(picture, "defs")
    film = SubElement(picture, "g", {"class": "film"})
    known: dict[tuple[Cell, ...], str] = {}
    for number, (_, frame) in enumerate(changed):
        place = SubElement(film, "g", {"transform": f"translate({number * width + MARGIN} {MARGIN})"})
        for row, cells in enumerate(frame):
            if any(letter.strip() for letter, _, _ in cells):
                if cells not in known:
                    known[cells] = f"l{len(known)}"
                    _line(SubElement(lines, "text", {"id": known[cells]}), cells)
                SubElement(place, "use", {"href": f"#{known[cells]}", "y": str((row + 1) * LINE - 4)})
    return tostring(picture, encoding="unicode") + "\n"


def _line(text: Element, cells: tuple[Cell, ...]) -> None:
    column = 0
    for (colour, bold), run in itertools.groupby(cells, key=lambda cell: cell[1:]):
        letters = "".join(letter for letter, _, _ in run)
        if letters.strip():
            fill = COLOURS.get(colour.removeprefix("bright"), f"#{colour}")
            look = {"x": f"{column * CELL:.1f}", "fill": fill} | ({"font-weight": "bold"} if bold else {})
            SubElement(
                text, "tspan", {**look, "textLength": f"{len(letters.rstrip()) * CELL:.1f}"}
            ).text = letters.rstrip()
        column += len(letters)


def _held(seconds: list[float], end: float) -> int:
    """The first frame that stays for the pause after a command."""
    lengths = [after - before for before, after in itertools.pairwise([*seconds, end])]
    return next(number for number, length in enumerate(lengths) if length >= READ - FRAME)


def _style(seconds: list[float], end: float, width: int) -> str:
    first = _held(seconds, end)
    steps = "".join(
        f"{100 * second / end:.2f}%{{transform:translateX(-{number * width}px)}}"
        for number, second in enumerate([0.0, *seconds[1:]])
    )
    last = (len(seconds) - 1) * width
    return (
        "text{font:14px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;white-space:pre}"
        f"@keyframes film{{{steps}100%{{transform:translateX(-{last}px)}}}}"
        # The film begins where the first command is done: an empty terminal shows a reader nothing. A viewer that does
        # not move the picture shows that frame, too.
        f".film{{transform:translateX(-{first * width}px);"
        f"animation:film {end:.1f}s steps(1,end) {-seconds[first]:.2f}s infinite}}"
        f"@media (prefers-reduced-motion:reduce){{.film{{animation:none;transform:translateX(-{last}px)}}}}"
    )


if __name__ == "__main__":
    sys.exit(main())
