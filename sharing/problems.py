"""How a mistake or a doubt is told: where it stands, what was found, the rule, the way out."""

import difflib
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong (or, as a warning, unwise) in a stack file."""

    path: str
    """Where, in the file's own words, e.g. `gpu-nodes.instance-types[0]`."""
    found: str
    """What stands there; empty when nothing does."""
    rule: str
    """What must hold, e.g. `must be at least 2`."""
    fix: str
    """What to write instead."""
    judged: bool = True
    """False for a warning in place of a verdict, where data is missing; `--strict` refuses it."""

    def __str__(self) -> str:
        got = f" (got {self.found})" if self.found else ""
        return f"{self.path}: {self.rule}{got}. {self.fix}".rstrip()


def told(name: str, kind: str, problems: Sequence[Problem]) -> list[str]:
    """The problems as lines under a heading, e.g. `Pulumi.dev.yaml has 2 mistakes:`; nothing when there are none."""
    if not problems:
        return []
    count = f"{len(problems)} {kind}{'s' if len(problems) != 1 else ''}"
    return [f"{name} has {count}:", *(f"  {problem}" for problem in problems)]


def foreign_letters(text: str) -> str:
    """Names the letters of `text` that only look like ASCII, e.g. `U+0456 CYRILLIC SMALL LETTER ...`; else empty."""
    letters = [char for char in dict.fromkeys(text) if not char.isascii()]
    return ", ".join(f"U+{ord(char):04X} {unicodedata.name(char, 'UNNAMED')}" for char in letters[:3])


def near(word: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The known words that `word` was probably meant to be, best first."""
    names = list(known)
    folded = {name.lower(): name for name in names}
    plain = unicodedata.normalize("NFKC", word).strip().lower().replace("_", "-")
    if plain in folded:
        return [folded[plain]]
    found = difflib.get_close_matches(plain, list(folded), n=most, cutoff=0.6)
    stems = [name for name in folded if plain and name.split(":")[0] == plain.split(":")[0] and name not in found]
    return [folded[name] for name in (found + stems)[:most]]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A sentence that leads from an unknown word to the known ones, and tells look-alike letters."""
    names = list(known)
    close = near(word, names)
    letters = foreign_letters(word)
    strange = f"It is written with {letters}. " if letters else ""
    if close:
        return f"{strange}Did you mean {' or '.join(close)}?"
    listed = names if len(names) <= 12 else [*names[:12], "…"]
    return f"{strange}Known: {', '.join(listed)}."
