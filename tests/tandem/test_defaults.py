"""A number that the help calls the default is the one that the command uses."""

import re

import pytest

from tandem.arguments import all_parsers
from tandem.main import parser

DEFAULT = re.compile(r"\(default: ([0-9.,]+)[;)]")


@pytest.mark.parametrize(
    ("name", "count"), [("bench", 9), ("chat", 3), ("run", 1), ("open", 1), ("verify", 1), ("watch", 1)]
)
def test_the_default_in_the_help_is_used(name: str, count: int) -> None:
    [own] = (each for each in all_parsers(parser(name)) if each.prog == f"tandem {name}")
    # Of an option whose value may be left out, it is that value.
    used = {each: each.const if each.option_strings and each.nargs == "?" else each.default for each in own._actions}
    said = {each: DEFAULT.search(own._get_formatter()._expand_help(each)) for each in used if each.help}
    numbers = {each: own._get_value(each, match[1]) for each, match in said.items() if match}
    assert numbers == {each: used[each] for each in numbers}
    assert len(numbers) == count
