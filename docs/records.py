"""The index of the decision records."""

import re
from pathlib import Path

HEAD = re.compile(r"# (\d{4})\. (.+)\n\nStatus: (accepted|superseded by (\d{4}))\. Date: (\d{4}-\d\d-\d\d)\.\n\n")
INTRODUCTION = """# Decisions

Each record gives a decision with its reasons and its evidence. A new record takes the next free number. A decision that
is no longer valid gets the status `superseded by NNNN`. Records 0101 to 0130 are older than the others. They had no
files of their own at first. The site's search leaves all decisions out. `make docs` writes this page.

| record | date |
| --- | --- |
"""
NO_LONGER_VALID = """
## No longer valid

| record | superseded by | date |
| --- | --- | --- |
"""


def index(folder: Path) -> str:
    """The text of the index, by number. Raises ValueError if a record has no title, status or date."""
    valid, superseded = "", ""
    names = {path.name[:4]: path.name for path in sorted(folder.glob("[0-9]*.md"))}
    for name in names.values():
        number, title, _, successor, date = _head(folder / name)
        record = f"| [{number}]({name}) {title} |"
        if successor:
            superseded += f"{record} [{successor}]({names[successor]}) | {date} |\n"
        else:
            valid += f"{record} {date} |\n"
    return INTRODUCTION + valid + NO_LONGER_VALID + superseded


def _head(path: Path) -> tuple[str, ...]:
    head = HEAD.match(path.read_text(encoding="utf-8"))
    if not head or not path.name.startswith(f"{head[1]}-"):
        raise ValueError(
            f"{path.name} has no proper head. Begin it with `# {path.name[:4]}. Title`, an empty line, and "
            "`Status: accepted. Date: YYYY-MM-DD.`"
        )
    return head.groups(default="")
