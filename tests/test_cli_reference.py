"""The reference of the command line has an example of each command, which the command would accept."""

import argparse
import re
import shlex
from html import unescape
from pathlib import Path

import pytest
import yaml

from tandem.arguments import Parser, all_parsers
from tandem.main import COMMANDS, parser

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
EXAMPLES: dict[str, dict[str, str]] = yaml.safe_load((ROOT / "docs" / "cli.yaml").read_text(encoding="utf-8"))
TYPED = {name: example["run" if "run" in example else "command"] for name, example in EXAMPLES.items()}
SECTIONS = dict(re.findall(r"^###? (tandem .+)\n\n((?:(?!^##).*\n)*)", PAGE, flags=re.MULTILINE))
MOST_LINES = 40
NUMBERS = ("N", "N,N", "R,R", "T", "SECONDS", "MS", "USD", "PORT", "[HOST:]PORT")
"""Placeholders of numbers; `init` reads its own at the question."""


@pytest.fixture(scope="module")
def parsers() -> dict[str, Parser]:
    """Of every command and verb."""
    found = {each.prog: each for name in COMMANDS for each in all_parsers(parser(name))}
    del found["tandem"]
    return found


def test_every_command_has_a_section_and_an_example_or_a_reason(parsers: dict[str, Parser]) -> None:
    assert set(EXAMPLES) == set(SECTIONS) == set(parsers)
    kinds = [{"run", "golden", "none"} & set(example) for example in EXAMPLES.values()]
    assert all(len(kind) == 1 for kind in kinds)


@pytest.mark.parametrize("command", SECTIONS)
def test_a_section_has_purpose_usage_arguments_and_exit_codes(command: str, parsers: dict[str, Parser]) -> None:
    section, own = SECTIONS[command], parsers[command]
    assert re.match(r"[A-Z].+\.\n", section)
    assert f"\nUsage: `{own.format_usage().removeprefix('usage: ').strip()}`\n" in section
    rows = re.findall(r"^\| <code>(.*)</code> \| (.*) \|$", section, flags=re.MULTILINE)
    read = [(unescape(typed), meaning.replace("\\|", "|")) for typed, meaning in rows]
    assert read == [(typed(own, action), own._get_formatter()._expand_help(action)) for action in arguments(own)]
    codes = re.findall(r"^Exit codes: (.*)\.$", section, flags=re.MULTILINE)
    assert codes == [", ".join(f"{code} {meaning}" for code, meaning in own.exit_codes.items())] * bool(own.exit_codes)


def arguments(own: Parser) -> list[argparse.Action]:
    hidden = (argparse._HelpAction, argparse._SubParsersAction)
    return [each for each in own._actions if not isinstance(each, hidden) and each.help is not argparse.SUPPRESS]


def typed(own: Parser, action: argparse.Action) -> str:
    """An argument with the placeholder of its value."""
    names = ", ".join(action.option_strings)
    default = action.dest.replace("_", "-").upper() if names else action.dest
    value = "" if action.nargs == 0 else own._get_formatter()._format_args(action, default)
    return f"{names} {value}".strip()


def test_a_number_is_read_when_it_is_given(parsers: dict[str, Parser]) -> None:
    every = [(own, each) for name, own in parsers.items() if name != "tandem init" for each in arguments(own)]
    numbers = [(own, each) for own, each in every if each.metavar in NUMBERS]
    assert len(numbers) > 30
    for own, each in numbers:
        with pytest.raises(argparse.ArgumentError):
            own._get_value(each, "x")


def test_an_option_that_may_be_passed_several_times_keeps_every_value(parsers: dict[str, Parser]) -> None:
    several = [each for own in parsers.values() for each in arguments(own) if "pass it once per" in str(each.help)]
    assert len(several) > 5
    for each in several:
        parsed = argparse.Namespace(**{each.dest: None})
        for value in ("a", "b"):
            each(argparse.ArgumentParser(), parsed, value)
        assert getattr(parsed, each.dest) == ["a", "b"], each.option_strings


@pytest.mark.parametrize("command", TYPED)
def test_an_example_is_of_its_command_and_has_output_or_a_reason(command: str) -> None:
    typed, *passed_on = TYPED[command].split(" -- ")
    assert f"tandem {typed} ".startswith(f"{command} ")
    parser(shlex.split(typed)[0]).parse_args(shlex.split(typed))
    [(shown, output)] = re.findall(
        r"^```text\n\$ (.+)\n((?s:.*?))^```$", SECTIONS[command].replace(" \\\n    ", " "), flags=re.MULTILINE
    )
    assert shown == " -- ".join([f"tandem {typed}", *passed_on])
    has_reason = "*No output here. " in SECTIONS[command]
    assert has_reason == ("none" in EXAMPLES[command]) == (not output)
    assert len(output.splitlines()) <= MOST_LINES
    assert not {"\x1b", "␛"} & {*output}
    assert "Traceback" not in output
