"""Questions that only a real account answers, each with its doubt, its commands and the effect of its answer."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, TypeAdapter, field_validator

from sharing import versions

TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


class Question(BaseModel):
    """One question."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    """Name of its answer's file."""
    text: str
    doubt: str = ""
    """Where the doubt comes from, besides the sources of what the program uses."""
    session: str
    step: str
    """After which step of the session it is asked."""
    ask: tuple[str, ...]
    """Shell commands; what they print is the answer. `<cluster>` and so on stand for values of the
    stack. None: the question is how long the step took."""
    changes: str
    """What the answer changes."""
    after_failure: bool = False
    """Also asked when the step fails."""
    provokes: bool = False
    """Asking disrupts the stack, so it takes `--provoke`. It belongs to the session's last step."""

    @field_validator("ask")
    @classmethod
    def _write_out(cls, ask: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(_written_out, ask))

    def commands(self, values: Mapping[str, str]) -> list[str]:
        """The commands with the stack's values; raises KeyError for a value that does not exist."""
        return [re.sub(r"<(\w+)>", lambda found: values[found[1]], command) for command in self.ask]


def _written_out(command: str) -> str:
    """On one line, with the shared commands that it names."""
    return re.sub(r"<([A-Z_]+)>", lambda found: _written_out(COMMANDS[found[1]]), " ".join(command.split()))


COMMANDS = {**TABLE["commands"], "PROBER_IMAGE": versions.PROBER_IMAGE}
QUESTIONS = TypeAdapter(tuple[Question, ...]).validate_python(TABLE["questions"])
