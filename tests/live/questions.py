"""Questions that only a real account answers, each with its doubt, its commands and the effect of its answer."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, field_validator

from sharing import versions
from tests.live import readings
from tests.live.readings import Answer

TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


class Question(BaseModel):
    """One question."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    """Name of its answer's file."""
    text: str
    kind: Literal["open", "likely"]
    """`open`: nobody knows. `likely`: sources and reports say so, and nobody has seen it in this program."""
    doubt: str
    """Where the doubt comes from. `live-aws` with a number: the item of a review of the program against the sources of
    what it uses, 2026-11-22."""
    session: str
    step: str
    """After which step of the session it is asked."""
    ask: tuple[str, ...]
    """Shell commands; the answer is read from what they print. `<cluster>` and so on stand for values of the
    stack. None: the question is how long the step took."""
    read: str | tuple[str, ...]
    """The function of `readings` that gets everything printed, or one for each command."""
    changes: str
    """What the answer changes."""
    after_failure: bool = False
    """Also asked when the step fails."""
    provokes: bool = False
    """Asking disrupts the stack, so it takes `--provoke`. It belongs to the session's last step."""

    @field_validator("read")
    @classmethod
    def _check_read(cls, read: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for name in (read,) if isinstance(read, str) else read:
            if not hasattr(readings, name):
                raise ValueError(f"tests/live/readings.py has no function {name!r}")
        return read

    @field_validator("ask")
    @classmethod
    def _write_out(cls, ask: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(_written_out, ask))

    def commands(self, values: Mapping[str, str]) -> list[str]:
        """The commands with the stack's values; raises KeyError for a value that does not exist."""
        return [re.sub(r"<(\w+)>", lambda found: values[found[1]], command) for command in self.ask]

    def answer(self, printed: list[str]) -> Answer:
        """The facts in what the commands printed. Raises LookupError, TypeError or ValueError for another form."""
        if isinstance(self.read, str):
            return dict(getattr(readings, self.read)(*printed))
        return {
            key: value
            for name, text in zip(self.read, printed, strict=True)
            for key, value in getattr(readings, name)(text).items()
        }


def _written_out(command: str) -> str:
    """On one line, with the shared commands that it names."""
    return re.sub(r"<([A-Z_]+)>", lambda found: _written_out(COMMANDS[found[1]]), " ".join(command.split()))


COMMANDS = {**TABLE["commands"], "PROBER_IMAGE": versions.PROBER_IMAGE}
QUESTIONS = TypeAdapter(tuple[Question, ...]).validate_python(TABLE["questions"])
