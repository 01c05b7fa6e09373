"""The conversation as a Markdown file, written as it arrives, so that nothing is lost however it ends."""

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sharing.printable import one_line, printable
from tandem.chat.talk import Speaker, Turn
from tandem.deployed.ollama import Piece
from tandem.markdown import as_code, in_markdown
from tandem.terminal import FAILED, CallError


class TranscriptError(CallError):
    """The file cannot grow; its content stays."""

    exit_code = FAILED


def usual_name(now: datetime.datetime) -> Path:
    """The default file name."""
    return Path(f"chat-{now:%Y%m%d-%H%M%S}.md")


class Transcript:
    """An open file. Every piece is on the disk before the next one is requested."""

    def __init__(self, path: Path) -> None:
        """Raises `OSError`, also if the file already exists."""
        self.path = path
        # Without a buffer: on a full disk, closing the file has nothing left to write.
        self._file = path.open("xb", buffering=0)
        self._turn = 0

    def close(self) -> None:
        """Ends the file."""
        self._file.close()

    def head(
        self,
        speakers: Sequence[Speaker],
        versions: Sequence[str],
        opening: str,
        system: str | None,
        options: Mapping[str, Any],
    ) -> None:
        """The models, the versions of their servers, and the prompt."""
        names = " and ".join(in_markdown(speaker.label) for speaker in speakers)
        ends = [(speaker.server.endpoint, version) for speaker, version in zip(speakers, versions, strict=True)]
        lines = [
            *(
                f"- {in_markdown(end.id)}: {as_code(end.model)} at {one_line(end.url)}, Ollama {in_markdown(version)}"
                for end, version in ends
            ),
            *(f"- {name}: {value}" for name, value in options.items()),
        ]
        self._write(f"# {names}\n\n" + "\n".join(lines) + "\n")
        if system:
            self._write(f"\nSystem prompt of both:\n\n{_quoted(system)}\n")
        self._write(f"\nPrompt:\n\n{_quoted(opening)}\n")

    def add(self, turn: Turn, piece: Piece) -> None:
        """A piece of an answer, without reasoning."""
        if turn.number != self._turn:
            self._turn = turn.number
            self._write(f"\n## {turn.number}. {in_markdown(turn.speaker.label)}\n\n> ")
        if piece.text:
            # Quoted, so that a model's text is neither a heading of ours nor HTML.
            self._write(printable(piece.text).replace("\n", "\n> ").replace("<", "&lt;"))
        if piece.done_reason:
            self._write("\n\n*truncated at --max-tokens*\n" if piece.done_reason == "length" else "\n")

    def note(self, text: str) -> None:
        """Why it ended early."""
        self._write(f"\n\n*{in_markdown(text)}*\n")

    def _write(self, text: str) -> None:
        """Raises `TranscriptError` if the disk is full or missing."""
        rest = text.encode()
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            why = f"Cannot continue {self.path} ({error.strerror})"
            raise TranscriptError(f"{why}. Free disk space, or choose another file with `--transcript`.") from None


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in printable(text).splitlines())
