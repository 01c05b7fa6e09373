"""Makes text from outside safe to show: file names, tags, errors, metadata, and answers of servers.

A terminal obeys the control characters of ECMA-48: C0 (U+0000 to U+001F), DEL, and C1 (U+0080 to U+009F). Bidirectional
controls (Unicode UAX #9) show text in another order than it has; line and paragraph separators (U+2028, U+2029) end a
line for some readers. No encoder of UTF-8 takes a lone surrogate, and no XML document U+FFFE or U+FFFF (XML 1.0, 2.2).
U+FEFF has no width, and at the start of a text it is a byte order mark (Unicode core specification, 23.8).
"""

import json
import re

UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]"
)
"""All of the above except line feeds and tabs, which the output of a command needs."""
URL = re.compile(r"[a-z][a-z0-9+.-]*:/+\S+?(?=[)'\"`.,;:]*(?:\s|$))", re.IGNORECASE)
"""A URL in a text (RFC 3986, 3.1), without the punctuation that follows it; also one that a path has made `http:/`."""
MOST_QUOTED = 500
"""Characters of another program's words in a message."""


def printable(text: bytes | str) -> str:
    """The text without `UNPRINTABLE`."""
    return UNPRINTABLE.sub("", text.decode(errors="replace") if isinstance(text, bytes) else text)


def one_line(text: bytes | str) -> str:
    """The printable text as one line, without characters of no width; one space replaces a run of white space."""
    shown = text.decode(errors="replace") if isinstance(text, bytes) else text
    spaced = printable(" ".join(shown.split()))
    return " ".join("".join(char if char.isprintable() else " " for char in spaced).split())


def quoted(said: object) -> str:
    """What another program or a server said, as one short line."""
    return one_line(str(said))[:MOST_QUOTED]


def visible(text: str) -> str:
    """The text as a message quotes a wrong value: `?` replaces each character that is not printable."""
    return "".join(char if char.isprintable() else "?" for char in text)


def without_secrets(text: str) -> str:
    """The text with each URL in it as `address` shows it."""
    return URL.sub(lambda match: address(match[0]), text) if ":/" in text else text


def address(text: str) -> str:
    """An address, right or wrong, without a user, a password or a query, which may hold a token.

    A password with `/`, `?` or `#` in it is not valid there (RFC 3986, 3.2.1), but users write such ones. So everything
    up to the last `@` is hidden.
    """
    hidden = re.sub(r"^(.*?:/+)?.*@", r"\1…@", text, flags=re.DOTALL)
    return re.sub(r"(\?.|#[^?]*=).*", lambda match: f"{match[0][0]}…", hidden, flags=re.DOTALL)


def as_json(value: object, *, indent: int | None = None) -> str:
    """JSON that a terminal shows as it is: `UNPRINTABLE` is escaped, so a program reads the same value."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, default=list)
    return UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def counted(number: int, noun: str) -> str:
    """E.g. `1 minute` or `2 minutes`."""
    return f"{number} {noun}{'s' * (number != 1)}"
