"""Finds the old words in a folder: `python -m tests.english FOLDER...` prints `FILE:LINE: word → replacement`.

`tests/english.toml` has the words and the phrases in which they are right. It reads every file that Git tracks,
with names in code. Lock files, files that are not text, and the word list itself are left out.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "tests" / "english.toml"
LOCKS = ("requirements.txt", "requirements-dev.txt")
HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class English:
    """The rules: old words, and their replacements."""

    def __init__(self, *, words: dict[str, str], allowed: Sequence[str] = ()) -> None:
        self._words = {re.compile(_pattern(word)): better for word, better in words.items()}
        self._allowed = re.compile("|".join(map(_pattern, allowed)) or r"(?!)")
        self._any = re.compile("|".join(map(_pattern, words)))

    def old_words(self, text: str) -> Iterator[tuple[int, str, str]]:
        """Line, word and replacement of each old word, in the order of the text."""
        plain = HUMP.sub(" ", text).replace("_", " ").lower()
        plain = self._allowed.sub(lambda found: re.sub(r"\S", "·", found[0]), plain)
        for found in self._any.finditer(plain):
            better = next(better for word, better in self._words.items() if word.match(plain, found.start()))
            word = re.sub(r"\s+(?:[#*>|]\s+)?", " ", found[0])
            yield plain.count("\n", 0, found.start()) + 1, word, better


def _pattern(word: str) -> str:
    """The expression for whole words, whose white space may be a line break and the sign of a comment after it."""
    spaced = word.replace(" ", r"\s+(?:[#*>|]\s+)?")
    return rf"(?<![a-z])(?:{spaced})(?![a-z])"


def rules() -> English:
    """The rules of `english.toml`."""
    said = tomllib.loads(RULES.read_text(encoding="utf-8"))
    return English(words=said["words"], allowed=said["allowed"])


def files(places: Sequence[str]) -> Iterator[str]:
    """Tracked text files in some folders, by their names from the root on."""
    listed = subprocess.run(["git", "ls-files", "-z", "--", *places], cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if PurePosixPath(name).name not in LOCKS and ROOT / name != RULES and (ROOT / name).is_file():
            yield name


def report(places: Sequence[str]) -> list[str]:
    """`FILE:LINE: word → replacement` of every old word in some folders."""
    english, lines = rules(), []
    for name in files(places):
        try:
            text = (ROOT / name).read_bytes().decode("utf-8")
        except UnicodeDecodeError:
            continue
        lines += [f"{name}: {word} → {better}" for _, word, better in english.old_words(name)]
        lines += [f"{name}:{line}: {word} → {better}" for line, word, better in english.old_words(text)]
    return lines


if __name__ == "__main__":
    found = report(sys.argv[1:] or ["."])
    print("\n".join(found))
    sys.exit(1 if found else 0)
