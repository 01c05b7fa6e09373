"""Speakers in turn: two models, or one and you. A model sees itself as the assistant and the other as the user."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tandem.deployed.ollama import Ollama, OllamaError, Piece


@dataclass(slots=True)
class Speaker:
    """One side of the conversation."""

    server: Ollama
    label: str
    """Its name on the screen."""
    messages: list[dict[str, str]] = field(default_factory=list)
    """The conversation as this model sees it: its own turns are the assistant's, the other's are the user's."""

    @property
    def id(self) -> str:
        """The name of the endpoint."""
        return self.server.endpoint.id

    def start(self, system: str | None) -> "Speaker":
        """The speaker with a system prompt, if there is one."""
        if system:
            self.messages.append({"role": "system", "content": system})
        return self

    def hears(self, text: str) -> None:
        """Adds the other side's text."""
        self.messages.append({"role": "user", "content": text})

    def answers(self, options: Mapping[str, Any]) -> Iterator[Piece]:
        """The answer, as it arrives. Remembered once complete, without its reasoning.

        Raises `OllamaError` if it stops early or is empty: nobody could reply.
        """
        said = ""
        for piece in self.server.chat(self.messages, options):
            said += piece.text
            yield piece
        if not said.strip():
            raise OllamaError(self.server.endpoint, "gave an empty answer", "Try another prompt or model.")
        self.says(said)

    def says(self, text: str) -> None:
        """Adds its own text."""
        self.messages.append({"role": "assistant", "content": text.strip()})


@dataclass(slots=True)
class Turn:
    """One speaker's answer."""

    number: int
    """From 1."""
    speaker: Speaker
    text: str = ""
    thinking: str = ""
    done_reason: str | None = None
    """None while the answer is incomplete."""


def talk(
    first: Speaker, second: Speaker, opening: str, turns: int, options: Mapping[str, Any]
) -> Iterator[tuple[Turn, Piece]]:
    """Lets the two talk for this many turns; yields each piece with its turn, which already contains it."""
    speaker, listener = first, second
    speaker.hears(opening)
    for number in range(1, turns + 1):
        turn = Turn(number, speaker)
        for piece in speaker.answers(options):
            turn.text += piece.text
            turn.thinking += piece.thinking
            turn.done_reason = piece.done_reason
            yield turn, piece
        listener.hears(turn.text.strip())
        speaker, listener = listener, speaker
