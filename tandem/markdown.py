"""Text from outside in Markdown: it stays text, and one line, wherever it stands.

CommonMark 0.31.2, 2.4: a backslash before ASCII punctuation makes it literal. GitHub's dialect adds tables, `~`, `$`,
and links for bare addresses (`www.`, `https://`, `name@host`).
"""

import re

from sharing.printable import one_line

MARKS = re.compile(
    r"[\\`*\[\]<>|~#$&@]"
    r"|(?<![a-zA-Z0-9])_|_(?![a-zA-Z0-9])"
    r"|^[-+=]"
    r"|(?<=:)/(?=/)|(?<=www)\.",
    re.IGNORECASE,
)
NUMBER = re.compile(r"^(\d+)([.)])(?=\s|$)")
"""The start of a numbered list."""


def in_markdown(text: str) -> str:
    """The text in one line, with everything escaped that Markdown would obey."""
    return NUMBER.sub(r"\1\\\2", MARKS.sub(r"\\\g<0>", one_line(text)))


def as_code(text: str) -> str:
    """The text as a code span, in which Markdown obeys nothing but the backtick."""
    return f"`{one_line(text).replace('`', chr(39))}`"
