"""The conversation on a screen: a colour for each model, words kept whole; plain text without a terminal."""

import re
import sys

from rich.cells import cell_len
from rich.console import Console

from sharing.printable import printable
from tandem.chat.talk import Turn
from tandem.deployed.ollama import Piece
from tandem.terminal import in_markup, print_line

COLOURS = ("cyan", "magenta")
LONG_WORD = 24
"""Cells from which a word is shown before it is complete: some languages put no spaces."""
WORDS = re.compile(r"\n|[^\S\n]+|\S+")


class Screen:
    """Shows pieces as they arrive."""

    def __init__(self, console: Console, *, named: bool = True, cut: str = "truncated at --max-tokens") -> None:
        """`named`: each turn has its speaker's name and colour. Without, a pipe gets the model's text alone.

        `cut` says why an answer is not complete.
        """
        self._console, self._named, self._cut = console, named, cut
        self._turn = 0
        self._column = 0
        self._word = ""

    def add(self, turn: Turn, piece: Piece) -> None:
        """Shows a piece; a new turn begins with its speaker's name."""
        if turn.number != self._turn:
            self.end_line()
            self._turn, self._thinks = turn.number, False
            self._style = COLOURS[(turn.number - 1) % len(COLOURS)] if self._named else ""
            gap = "\n" if turn.number > 1 else ""
            if self._named:
                self._console.print(f"{gap}[bold {self._style}]{in_markup(turn.speaker.label)}[/]")
        if piece.thinking and not self._thinks:
            self._thinks = True
            self._note("thinking")
        text = printable(piece.text)
        if not turn.text.strip():
            return
        if turn.text.strip() == piece.text.strip():
            text = text.lstrip()
        self._flow(text)
        if piece.done_reason:
            self.end_line()
            if piece.done_reason == "length":
                self._note(self._cut)

    def end_line(self) -> None:
        """Shows held-back text and starts a new line, unless the cursor is at the start of one."""
        self._put(self._word)
        self._word = ""
        if self._column:
            self._console.print()
            self._column = 0

    def _note(self, text: str) -> None:
        """A word of ours."""
        if self._named or self._console.is_terminal:
            self._console.print(f"[dim]({in_markup(text)})[/]")
        else:
            print_line(f"({text})", sys.stderr)

    def _flow(self, text: str) -> None:
        if not self._console.is_terminal:
            self._print(text)
            self._column = 0 if text.endswith("\n") else 1
            return
        for part in WORDS.findall(text):
            if part.isspace():
                self._put(self._word)
                self._word = ""
                self._space(part)
            else:
                self._word += part
                if cell_len(self._word) >= LONG_WORD:
                    self._put(self._word)
                    self._word = ""

    def _space(self, space: str) -> None:
        if space == "\n" or self._column + 1 >= self._console.width:
            self._console.print()
            self._column = 0
        elif self._column:
            self._print(" ")
            self._column += 1

    def _put(self, word: str) -> None:
        if not word:
            return
        wide = cell_len(word)
        if self._console.is_terminal and self._column and self._column + wide > self._console.width:
            self._console.print()
            self._column = 0
        self._print(word)
        self._column += wide

    def _print(self, text: str) -> None:
        self._console.print(text, end="", style=self._style, markup=False, soft_wrap=True)
        self._console.file.flush()
