"""The table of `docs/reference/emulation.md`: the sources of the rules of the emulated cloud."""

from sandbox.world import RULES
from sandbox.world.rules.rule import Rule

OPENING, CLOSING = "<!-- rules: generated -->\n", "<!-- /rules -->"


def document(text: str) -> str:
    """The document with its table made from the rules."""
    before, opening, rest = text.partition(OPENING)
    _, closing, after = rest.partition(CLOSING)
    assert opening, "docs/reference/emulation.md has no place for the table of the rules"
    assert closing, "docs/reference/emulation.md does not end the table of the rules"
    return before + opening + _table() + closing + after


def without_rules(text: str) -> str:
    """The part of the document that is written by hand."""
    before, _, rest = text.partition(OPENING)
    return before + rest.partition(CLOSING)[2]


def _table() -> str:
    found: dict[str, list[Rule]] = {}
    for rule in RULES:
        found.setdefault(rule.source.removeprefix("https://"), []).append(rule)
    rows = [
        f"| {source} | {', '.join(sorted({one.code for one in rules}))} | {_moments(rules)} |\n"
        for source, rules in sorted(found.items())
    ]
    return "".join(["| source | errors | at |\n", "| --- | --- | --- |\n", *rows])


def _moments(rules: list[Rule]) -> str:
    return ", ".join(sorted({moment for one in rules for moment in one.on}))
