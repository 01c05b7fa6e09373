"""Prints how near the forecast of tokens per second comes to readings that it has not seen.

make bench            prints tables; fails nothing
"""

from catalogue.speed_report import Rows, accuracy, groups, prompts


def main() -> None:
    """Prints every table."""
    for title, rows in (("tokens per second", accuracy()), ("by group", groups()), ("prompts", prompts())):
        print(f"\nForecast against left-out readings: {title}")
        show(rows)


def show(rows: Rows) -> None:
    """Prints a table in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main()
