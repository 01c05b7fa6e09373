"""Errors and warnings about a stack file: where, which value, which rule, and the fix."""

import difflib
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sharing.printable import counted, one_line, printable

ITEM = re.compile(r"(.*)\[(\d{1,9})\](.*)", re.DOTALL)
"""A path with an item of a list in it."""
MOST_SHOWN = 200
"""Characters of a value or a path in a message: more than the path of a valid tag has."""
SUBJECT = "{found} {rule}"
"""The sentence of a rule whose subject is the value, e.g. `'g6.xlarge' is listed twice`."""
OBJECT = "{rule} {found}"
"""E.g. `unknown mode 'mpss'`."""
LIMIT = "{rule}, not {found}"
"""E.g. `must be at least 2, not 1`."""
ASIDE = "{rule}; found {found}"
"""The sentence of a rule about something else, e.g. `every model needs a share; found 5 models`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The position of a value in a file, or else its origin."""

    file: str = ""
    line: int = 0
    """From 1; 0 for a value that is in no file."""
    column: int = 0
    origin: str = ""
    """E.g. `default`; empty for a value that is in a file."""


@dataclass(frozen=True, slots=True)
class Problem:
    """An error in a stack file, or as a warning something that is allowed but unwise."""

    path: str
    """Path of the key, e.g. `gpu-nodes.instance-types[0]`."""
    found: str
    """The value there; empty when there is none."""
    rule: str
    """The rule that the value breaks, e.g. `must be at least 2`."""
    fix: str
    """The fix, as sentences."""
    wording: str = SUBJECT
    """How the rule and the value make a sentence: one of the forms above. Without a value, the rule is the sentence."""
    judged: bool = True
    """False for a warning in place of a verdict, where data is missing; `--strict` refuses it."""
    place: Position | None = field(default=None, compare=False)
    """None if it was not looked up, or if there is no value."""

    @property
    def sentence(self) -> str:
        """The rule and the value that breaks it, e.g. `unknown mode 'mpss'`."""
        return self.wording.format(rule=self.rule, found=_clip(self.found)) if self.found else self.rule

    @property
    def message(self) -> str:
        """The problem in one line, without its place in a file."""
        origin = f" ({self.place.origin})" if self.place and self.place.origin else ""
        return printable(f"{_clip(self.path)}{origin}: {self.sentence}. {self.fix}").replace("\n", " ").rstrip()

    def is_within(self, places: Iterable[str]) -> bool:
        """Whether its path is one of `places`, or a part of one: `sharing.mode` is a part of `sharing`."""
        return any(self.path == place or self.path.startswith((f"{place}.", f"{place}[")) for place in places)

    def as_dict(self) -> dict[str, Any]:
        """The problem for programs; `docs/plan.schema.json` describes its fields."""
        fields = asdict(self)
        del fields["wording"]
        return fields

    def __str__(self) -> str:
        if self.place and self.place.line:
            return f"{one_line(self.place.file)}:{self.place.line}:{self.place.column}  {self.message}"
        return self.message


def _clip(text: str) -> str:
    """A message names a long value by its beginning and its end."""
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 20]}…{text[-10:]}"


def group(problems: Iterable[Problem]) -> list[Problem]:
    """One problem for all items of a list that have the same problem, with their paths abbreviated."""
    alike: dict[Problem, list[str]] = {}
    for problem in dict.fromkeys(problems):
        before, _, after = _around_number(problem.path)
        alike.setdefault(replace(problem, path=f"{before}[]{after}"), []).append(problem.path)
    return [replace(problem, path=abbreviate(paths)) for problem, paths in alike.items()]


def abbreviate(paths: Iterable[str]) -> str:
    """The paths with the numbers of a list in one bracket, e.g. `models[0-2,5].name`."""
    numbers: dict[tuple[str, str], list[int]] = {}
    for path in paths:
        before, number, after = _around_number(path)
        numbers.setdefault((before, after), []).extend([] if number is None else [number])
    return ", ".join(
        f"{before}[{runs(its_numbers)}]{after}" if its_numbers else before
        for (before, after), its_numbers in numbers.items()
    )


def _around_number(path: str) -> tuple[str, int | None, str]:
    """The path before its last number, that number, and the rest; None if it names no item of a list."""
    item = ITEM.fullmatch(path)
    return (item[1], int(item[2]), item[3]) if item else (path, None, "")


def runs(numbers: Iterable[int], names: Sequence[str] = ()) -> str:
    """A list of numbers and ranges, e.g. `0-2,5`; with names, e.g. `MON-WED,SAT`."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][-1] + 1:
            found[-1].append(number)
        else:
            found.append([number])
    ends = [[run[0], run[-1]] if len(run) > 1 else run for run in found]
    return ",".join("-".join(names[end] if names else f"{end}" for end in pair) for pair in ends)


def in_quotes(text: str) -> str:
    """The fix for a number or a truth value where text is needed."""
    return f'Put it in quotes: "{text}".'


def format_errors(name: str, problems: Sequence[Problem]) -> list[str]:
    """The problems as lines under a heading, e.g. `error: Pulumi.dev.yaml has 2 errors`; nothing when there are none.

    The same problem of many models is one line.
    """
    if not problems:
        return []
    lines = group(problems)
    return [f"error: {one_line(name)} has {counted(len(lines), 'error')}", *(f"  {problem}" for problem in lines)]


def place_in_file(problem: Problem) -> tuple[bool, int, int]:
    """Sort key for the order of the file; problems without a position come last."""
    place = problem.place or Position()
    return not place.line, place.line, place.column


def foreign_letters(text: str) -> str:
    """Names the letters of `text` that only look like ASCII, e.g. `U+0456 CYRILLIC SMALL LETTER ...`; else empty."""
    letters = [char for char in dict.fromkeys(text) if not char.isascii()]
    return ", ".join(f"U+{ord(char):04X} {unicodedata.name(char, 'UNNAMED')}" for char in letters[:3])


def near(word: str, known: Iterable[str]) -> list[str]:
    """The known words that `word` was probably meant to be, three at most, best first."""
    names = list(known)
    folded = {name.lower(): name for name in names}
    plain = unicodedata.normalize("NFKC", word).strip().lower().replace("_", "-")
    if plain in folded:
        return [folded[plain]]
    close = difflib.get_close_matches(plain, list(folded))
    stems = [name for name in folded if plain and name.split(":")[0] == plain.split(":")[0] and name not in close]
    return [folded[name] for name in (close + stems)[:3]]


def ask_for(names: Iterable[str]) -> str:
    """The question whether one of these names was meant; there is at least one."""
    *others, last = names
    return f"Did you mean {', '.join(others)}{' or ' if others else ''}{last}?"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Suggests known words for an unknown one, and names look-alike letters."""
    names = list(known)
    close = near(word, names)
    letters = foreign_letters(word)
    strange = f"It contains {letters}. " if letters else ""
    if close:
        return f"{strange}{ask_for(close)}"
    listed = names if len(names) <= 12 else [*names[:12], "…"]
    return f"{strange}Known: {', '.join(listed)}."
