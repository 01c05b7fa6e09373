"""What keeps a stack file from becoming a plan. Imports nothing, so that every command can afford to know it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stacks.stack_file.judge import Judged


class UnreadableError(Exception):
    """The file cannot be read as YAML at all; the message says why and what to do."""


class RefusedError(Exception):
    """A stack that must not be created: the message has every reason."""

    def __init__(self, judged: "Judged") -> None:
        from sharing.problems import told

        super().__init__("\n".join(told(judged.name, "mistake", judged.problems)))
        self.judged = judged
