"""The index of the decision records."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HEAD = re.compile(r"# (\d{4})\. (.+)\n\nStatus: (accepted|superseded by \d{4})\. Date: (\d{4}-\d\d-\d\d)\.\n\n")
INTRODUCTION = """# Decisions

Each record says what was decided, why, and on what evidence. A new record takes the next free number; a decision that
no longer holds gets the status `superseded by NNNN`. Records 0101 to 0130 are from the first day, before records had
files of their own. `make docs` writes this page.

| record | status | date |
| --- | --- | --- |
"""


@dataclass(frozen=True)
class Record:
    """The head of a decision record."""

    number: str
    title: str
    status: str
    date: str
    file: str


def read(folder: Path) -> Iterator[Record]:
    """The records in `folder`, by number; ValueError where one has no title, status or date."""
    for path in sorted(folder.glob("[0-9]*.md")):
        head = HEAD.match(path.read_text(encoding="utf-8"))
        if not head or not path.name.startswith(f"{head[1]}-"):
            raise ValueError(
                f"{path.name} has no proper head. Begin it with `# {path.name[:4]}. Title`, an empty line, and "
                "`Status: accepted. Date: YYYY-MM-DD.`"
            )
        yield Record(head[1], head[2], head[3], head[4], path.name)


def index(folder: Path) -> str:
    """The text of the index."""
    rows = [f"| [{one.number}]({one.file}) {one.title} | {one.status} | {one.date} |" for one in read(folder)]
    return INTRODUCTION + "\n".join(rows) + "\n"
