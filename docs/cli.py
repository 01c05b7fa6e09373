"""The reference of the command line and of its exit codes, from its parsers and docs/cli.yaml."""

import argparse
import re
import shlex
import shutil
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path

import samples
import yaml

from tandem.arguments import Parser, all_parsers
from tandem.main import COMMANDS, GROUPS, parser

ROOT = Path(__file__).resolve().parent.parent
GOLDENS = ROOT / "tests" / "golden"
EXAMPLES: dict[str, dict[str, str]] = yaml.safe_load((ROOT / "docs" / "cli.yaml").read_text(encoding="utf-8"))
COLOURS = re.compile(r"␛\[[\d;]*m")
HEAD = """# Command line

Each command has an example with its output, folded at 80 columns and sometimes shortened (`…`).
`tandem COMMAND --help` prints the arguments and exit codes.

"""
FROM_A_TEST = "In a test with stand-ins for the account, the cluster and the servers:"


def document() -> str:
    """Every command with an example and its arguments, in the order of `tandem --help`."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("Pulumi.yaml", *(f"Pulumi.{stack}.yaml" for stack in samples.STACKS)):
            shutil.copy(ROOT / name, folder)
        commands = [line for name in COMMANDS for line in _command(name, Path(folder))]
    return HEAD + "\n".join([*_overview(), *commands])


def _overview() -> Iterator[str]:
    """The commands by group."""
    yield "| | commands |\n| --- | --- |"
    for group, commands in GROUPS.items():
        yield f"| {group} | {', '.join(f'[`{name}`](#tandem-{name})' for name in commands)} |"
    yield ""


def _command(name: str, folder: Path) -> Iterator[str]:
    room = parser(name)
    [commands] = (action for action in room._actions if isinstance(action, argparse._SubParsersAction))
    yield from _section(commands.choices[name], COMMANDS[name][1], "##", folder)


def _example(command: str, folder: Path) -> str:
    """What a user types and sees, as docs/cli.yaml says."""
    if command not in EXAMPLES:
        raise ValueError(f"`{command}` has no example. Add a line to docs/cli.yaml.")
    example = EXAMPLES[command]
    if reason := example.get("none"):
        return f"{_block(example['command'], [])}\n*No output here. {reason}*\n"
    if "golden" in example:
        return f"{FROM_A_TEST}\n\n{from_a_test(command)}"
    code, said = samples.run(shlex.split(example["run"]), folder)
    shown = _block(example["run"], _shortened(said, example))
    return f"{shown}\nExit code: {code}.\n" if code else shown


def from_a_test(command: str) -> str:
    """The output of a command that needs more than this machine, as a golden has it."""
    example = EXAMPLES[command]
    said = COLOURS.sub("", (GOLDENS / example["golden"]).read_text(encoding="utf-8"))
    return _block(example["command"], _shortened(said, example))


def _shortened(said: str, example: Mapping[str, str]) -> list[str]:
    """The lines that `lines` names, or all."""
    every = [line.rstrip() for line in said.splitlines()]
    first, _, last = example.get("lines", f"1-{len(every)}").partition("-")
    lines = "\n".join(every[int(first) - 1 : int(last)]).strip("\n").splitlines()
    return [*samples.folded("\n".join(lines)), *["…"] * (int(last) < len(every))]


def _block(typed: str, lines: list[str]) -> str:
    # A shell reads a line that ends with a backslash and the next one as one command.
    command = " \\\n".join(textwrap.wrap(f"$ tandem {typed}", samples.WIDTH - 2, subsequent_indent="    "))
    return "\n".join(["```text", command, *lines, "```", ""])


def exit_codes_table() -> list[tuple[str, ...]]:
    """The meaning of each exit code of each command."""
    of_rooms = {each.prog: each for name in COMMANDS for each in all_parsers(parser(name))}
    found = [each for each in of_rooms.values() if each.exit_codes]
    columns = sorted({code for each in found for code in each.exit_codes})
    rows = [(f"`{each.prog}`", *(each.exit_codes.get(code, "") for code in columns)) for each in found]
    return [("command", *map(str, columns)), *rows]


def _section(parser: Parser, purpose: str | None, level: str, folder: Path) -> Iterator[str]:
    yield f"{level} {parser.prog}\n"
    if text := parser.description or purpose:
        yield f"{_sentence(text)}\n"
    usage = parser.format_usage().removeprefix("usage: ").strip()
    yield f"Usage: `{usage}`\n"
    yield _example(parser.prog, folder)
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
            yield from _section(inner, purposes.get(name), f"{level}#", folder)


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
