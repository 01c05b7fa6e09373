"""Tables whose columns are declared one by one; a narrow terminal lacks the least important ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from sharing.speed.estimate import Estimate
from tandem.terminal import in_range, say

if TYPE_CHECKING:
    from rich.console import Console

GAP = "  "
TOKENS_PER_S, PER_MILLION = "tokens/s", "$/million"
NOTES = {
    TOKENS_PER_S: f"{TOKENS_PER_S}: forecast for the slowest model, all busy",
    PER_MILLION: f"{PER_MILLION} at full load",
}
SPEEDS = f"{'; '.join(NOTES.values())}."
"""Below a table with these columns."""
Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """A column of a table."""

    head: str
    cell: Callable[[Row], str]
    to_the_right: bool = False
    """Numbers."""


def lay_out(
    columns: Sequence[Column[Row]], rows: Sequence[Row], width: int, least: Sequence[str], gap: str = GAP
) -> tuple[list[str], list[str]]:
    """The head with a line for each row, within that width if possible, and the heads of the columns that are left out.

    `least` has the heads of those that go where there is no room, the first one first. A column without any cell is
    not shown.
    """
    cells = {column: [column.cell(row) for row in rows] for column in columns}
    widths = {column: max(map(len, (column.head, *column_cells))) for column, column_cells in cells.items()}
    kept = [column for column in columns if any(cells[column])]
    dropped: list[str] = []
    for head in least:
        if sum(widths[each] for each in kept) + len(gap) * (len(kept) - 1) <= width:
            break
        if any(column.head == head for column in kept):
            kept = [column for column in kept if column.head != head]
            dropped.insert(0, head)
    lines = [[column.head for column in kept], *zip(*(cells[column] for column in kept), strict=True)]
    return [gap.join(map(_padded, kept, line, (widths[each] for each in kept))).rstrip() for line in lines], dropped


def print_table(
    console: "Console",
    columns: Sequence[Column[Row]],
    rows: Sequence[Row],
    least: Sequence[str] = (),
    width: int | None = None,
    gap: str = GAP,
) -> list[str]:
    """Prints the rows below the head; returns the heads of the columns that are left out."""
    lines, left_out = lay_out(columns, rows, width or console.width, least, gap)
    for line in lines:
        say(console, line, "bold" if line is lines[0] else "", fold=False)
    return left_out


def speed_cell(tokens_per_s: Estimate | None) -> str:
    """A cell of the column `TOKENS_PER_S`."""
    return in_range(tokens_per_s, speed_digits(tokens_per_s.value)) if tokens_per_s else ""


def speed_digits(tokens_per_s: float) -> int:
    """Digits after its point in that column."""
    return int(tokens_per_s < 10)


def price_cell(usd: Estimate | None) -> str:
    """A cell of the column `PER_MILLION`: two digits, as a forecast is no better."""
    return in_range(usd, (usd.high < 9.95) + (usd.high < 0.995)) if usd else ""


def _padded(column: Column[Row], cell: str, width: int) -> str:
    return f"{cell:>{width}}" if column.to_the_right else f"{cell:<{width}}"
