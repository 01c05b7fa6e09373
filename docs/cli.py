"""The reference of the command line and of its exit codes, from its parsers."""

import argparse
from collections.abc import Iterator
from html import escape

from tandem.arguments import Parser, all_parsers
from tandem.main import COMMANDS, parser

HEAD = """# Command line

`make docs` writes this page from the parsers. `tandem COMMAND --help` prints the same.

"""


def document() -> str:
    """Every command with its arguments, in the order of `tandem --help`."""
    return HEAD + "\n".join(line for name in COMMANDS for line in _command(name))


def _command(name: str) -> Iterator[str]:
    room = parser(name)
    [commands] = (action for action in room._actions if isinstance(action, argparse._SubParsersAction))
    yield from _section(commands.choices[name], COMMANDS[name][1], "##")


def exit_codes_table() -> list[tuple[str, ...]]:
    """The meaning of each exit code of each command."""
    of_rooms = {each.prog: each for name in COMMANDS for each in all_parsers(parser(name))}
    found = [each for each in of_rooms.values() if each.exit_codes]
    columns = sorted({code for each in found for code in each.exit_codes})
    rows = [(f"`{each.prog}`", *(each.exit_codes.get(code, "") for code in columns)) for each in found]
    return [("command", *map(str, columns)), *rows]


def _section(parser: Parser, purpose: str | None, level: str) -> Iterator[str]:
    yield f"{level} {parser.prog}\n"
    if text := parser.description or purpose:
        yield f"{_sentence(text)}\n"
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if rows := [_row(parser, action) for action in parser._actions if _is_shown(action)]:
        yield "| argument | meaning |\n| --- | --- |"
        yield "\n".join(f"| {left} | {right} |" for left, right in rows) + "\n"
    if parser.exit_codes:
        codes = ", ".join(f"{code} {meaning}" for code, meaning in parser.exit_codes.items())
        yield f"Exit codes: {codes}.\n"
    for action in below:
        purposes = {choice.dest: choice.help for choice in action._choices_actions}
        for name, inner in action.choices.items():
            yield from _section(inner, purposes.get(name), f"{level}#")


def _is_shown(action: argparse.Action) -> bool:
    is_help = isinstance(action, argparse._HelpAction | argparse._SubParsersAction)
    return not is_help and action.help is not argparse.SUPPRESS


def _row(parser: argparse.ArgumentParser, action: argparse.Action) -> tuple[str, str]:
    formatter = parser._get_formatter()
    names = ", ".join(action.option_strings)
    values = ""
    if action.nargs != 0:
        default = formatter._get_default_metavar_for_optional(action) if names else action.dest
        values = formatter._format_args(action, default)
    # Not backticks: within them, GitHub needs `\\|` in a table, which the site would show as it is.
    left = f"<code>{escape(f'{names} {values}'.strip())}</code>"
    right = formatter._expand_help(action) if action.help else ""
    return left.replace("|", "&#124;"), right.replace("|", "\\|")


def _sentence(text: str) -> str:
    text = text[0].upper() + text[1:]
    return text if text.endswith((".", ":")) else f"{text}."
