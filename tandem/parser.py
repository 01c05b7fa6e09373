"""How commands read their arguments: one parser, whose help and errors are alike everywhere. Cheap to import."""

import argparse
import shutil
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

from sharing.printable import printable
from tandem.terminal import UsageError, short

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
"""What `add_subparsers` returns; argparse has no public name for it."""
REFUSED = "the stack is refused (invalid, does not fit, over budget)"
EXIT_CODES = {0: "success", 1: REFUSED, 2: "usage error or unreadable input", 130: "interrupted"}
"""What each exit code means, where a command has no words of its own for it."""


class Parser(argparse.ArgumentParser):
    """Reads the arguments of a command, or of one below it."""

    def __init__(self, **options: Any) -> None:
        # An abbreviation that works today would be ambiguous with the next option.
        super().__init__(allow_abbrev=False, **options)
        self._positionals.title = "arguments"
        for action in self._actions:
            action.help = "show this help"
        self.exit_codes: Mapping[int, str] = {}
        self.overview: Callable[[], str] | None = None
        """Writes the help, where argparse has no layout for it."""
        self.hint = ""
        """Ends the error about an argument that is not known."""
        self.instead = ""
        """Ends the error about a word that is not known, which replaces `{}`."""

    def format_help(self) -> str:
        """The arguments, then the exit codes."""
        if self.overview:
            return self.overview()
        lines = ["", "exit codes:"] if self.exit_codes else []
        for code, meaning in self.exit_codes.items():
            width = shutil.get_terminal_size().columns - 2
            lines += textwrap.wrap(meaning, width, initial_indent=f"  {code:<5}", subsequent_indent=" " * 7)
        return printable("".join([super().format_help(), *(f"{line}\n" for line in lines)]))

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """What `tandem`'s own parser calls for a command. It would complain with its own usage about what is left."""
        parsed, left = super().parse_known_args(args, namespace)
        if left:
            self.error(self._unknown(left))
        return parsed, left

    def _unknown(self, left: Sequence[str]) -> str:
        from sharing.problems import did_you_mean, near

        wrong = next((word for word in left if word.startswith("-")), "")
        if not wrong:
            word = short(left[0])
            return f"unknown argument `{word}`. {self.instead.format(word) or self.hint or 'Remove it.'}"
        name = wrong.partition("=")[0]
        options = [option for action in self._actions for option in action.option_strings if option.startswith("--")]
        fix = did_you_mean(name, options) if near(name, options) or not self.hint else self.hint
        return f"unknown option `{short(name)}`. {fix}"

    def error(self, message: str) -> NoReturn:
        """Raises `UsageError`: the command says what it says to people or to programs."""
        names = message.removeprefix("the following arguments are required: ")
        if names != message:
            message = f"missing argument{'s' * (',' in names)}: {names}."
        name = message.removeprefix("argument ").removesuffix(": expected one argument")
        if action := self._option_string_actions.get(name.partition("/")[0]):
            message = f"{name}: has no value. Write `{action.option_strings[0]}={action.metavar or 'VALUE'}`."
        raise UsageError(message.removeprefix("argument "), f"{self.format_usage()}Run `{self.prog} --help` for more.")

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """Refuses `--option=--`: argparse of Python 3.11 reads it as no value (github.com/python/cpython#59317)."""
        if action.option_strings and arg_strings == ["--"]:
            raise argparse.ArgumentError(action, "`--` is not a value. Write another one, or remove the option.")
        return super()._get_values(action, arg_strings)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Says which of the choices was probably meant."""
        if action.choices is None or value in action.choices:
            return
        from sharing.problems import did_you_mean, near

        is_command = isinstance(action, argparse._SubParsersAction)
        word, known = short(str(value)), [str(choice) for choice in action.choices]
        is_other = is_command and self.instead and not near(str(value), known)
        fix = self.instead.format(word) if is_other else did_you_mean(str(value), known)
        raise argparse.ArgumentError(
            None if is_command else action, f"unknown {'command' if is_command else 'value'} `{word}`. {fix}"
        )


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    description: str,
    exit_codes: Mapping[int, str] = EXIT_CODES,
    json: str = "print one JSON object instead",
    **options: Any,
) -> Parser:
    """A command that answers people or, with `--json`, programs.

    `exit_codes` are those with words of their own; one without words is never returned.
    """
    parser = commands.add_parser(name, description=description, **{"help": description, **options})
    parser.exit_codes = {code: meaning for code, meaning in {**EXIT_CODES, **exit_codes}.items() if meaning}
    if json:
        parser.add_argument("--json", action="store_true", help=json)
    parser.set_defaults(run=run)
    return parser


def all_parsers(parser: Parser) -> Iterator[Parser]:
    """The parser, and those of the commands below it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from all_parsers(below)


def shorten_usage(parser: Parser) -> None:
    """Gives each parser a usage of one line: the help below it lists the options."""
    width = shutil.get_terminal_size().columns - 2 - len("usage: ")
    for each in all_parsers(parser):
        usage = each.usage or " ".join(["%(prog)s", "[OPTIONS]", *_positionals(each)])
        each.usage = textwrap.fill(usage % {"prog": each.prog}, width, subsequent_indent=" " * 11)


def _positionals(parser: Parser) -> Iterator[str]:
    for action in parser._actions:
        if not action.option_strings:
            name = f"{action.metavar or action.dest}{' ...' if action.nargs in ('*', '+') else ''}"
            yield name if action.required and action.nargs not in ("*", "?") else f"[{name}]"
