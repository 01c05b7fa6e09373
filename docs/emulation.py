"""The table of `docs/reference/emulation.md`: the sources of the rules of the emulated cloud."""

from sandbox.world import RULES
from sandbox.world.rules.rule import Rule


def rows() -> list[tuple[str, ...]]:
    """The head of the table, and a row for each source."""
    found: dict[str, list[Rule]] = {}
    for rule in RULES:
        found.setdefault(rule.source.removeprefix("https://"), []).append(rule)
    return [
        ("source", "errors", "at"),
        *(
            (source, ", ".join(sorted({one.code for one in rules})), _moments(rules))
            for source, rules in sorted(found.items())
        ),
    ]


def _moments(rules: list[Rule]) -> str:
    return ", ".join(sorted({moment for one in rules for moment in one.on}))
