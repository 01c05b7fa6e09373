"""How commands declare and read their arguments: one parser, with one form of help and errors. Cheap to import."""

import argparse
import math
import re
import shutil
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

from sharing.printable import printable
from tandem.terminal import UsageError, short

DEFAULT_STACK = "timeslice"
MINUTES = {"d": 24 * 60, "h": 60, "m": 1}
MOST_MINUTES = 30 * 24 * 60
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


def add_stack(parser: argparse.ArgumentParser, *, default: bool = True) -> None:
    """The argument that says which stack is meant."""
    parser.add_argument(
        "stack",
        nargs="?" if default else None,
        default=DEFAULT_STACK,
        metavar="STACK|FILE",
        help="the stack (its file is Pulumi.STACK.yaml) or a stack file"
        + (f" (default: {DEFAULT_STACK})" if default else ""),
    )


def add_servers(parser: argparse.ArgumentParser) -> None:
    """The arguments that say which servers a command talks to."""
    parser.add_argument(
        "stack", nargs="?", metavar="STACK|FILE", help="use this stack's plan (mode, price, memory) and servers"
    )
    parser.add_argument(
        "--url", action="append", default=[], metavar="NAME=URL", help="an Ollama server; pass it once per server"
    )
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="NAME=TAG",
        help="model tag to use on server NAME; required if it has several models and none is named NAME",
    )
    add_cluster(parser)


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """The arguments that say by which way a stack's cluster is reached."""
    parser.add_argument("--kubeconfig", metavar="FILE", help="use this kubeconfig instead of the stack's outputs")
    parser.add_argument(
        "--context", metavar="NAME", help="with --kubeconfig: the context to use (default: the current one)"
    )


def add_region(parser: argparse.ArgumentParser, default: str = "the stack file's") -> None:
    """The argument that names an AWS region."""
    parser.add_argument("--region", metavar="REGION", help=f"AWS region (default: {default})")


def add_profile(parser: argparse.ArgumentParser) -> None:
    """The argument that names an AWS profile."""
    parser.add_argument(
        "--profile", metavar="NAME", help="AWS profile (default: the stack file's, or your default credentials)"
    )


def count(text: str) -> int:
    """A whole number from 1 up."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return number


def amount(text: str) -> float:
    """A number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not (number > 0 and math.isfinite(number)):
        raise argparse.ArgumentTypeError(f"must be a number above 0, not {text!r}")
    return number


@dataclass(frozen=True, slots=True)
class Budget:
    """A maximum price, in the unit that the user wrote."""

    usd: float
    unit: str
    """`hour` or `month`"""

    @property
    def settings(self) -> dict[str, float]:
        """The same limit as a key of the section `budget`."""
        return {f"max-usd-per-{self.unit}": self.usd}


def budget(text: str) -> Budget:
    """Dollars per hour or per month, e.g. `1`, `1/hour` or `730/month`."""
    number, slash, unit = text.partition("/")
    try:
        usd = amount(number)
    except argparse.ArgumentTypeError:
        usd = 0.0
    is_known = not slash or unit in ("hour", "month")
    if not (usd and is_known):
        rule = "a number above 0" if is_known else "per hour or per month"
        raise argparse.ArgumentTypeError(f"must be {rule}, not {text!r}. Write 1 or 730/month, for example.")
    return Budget(usd, unit or "hour")


def counts(text: str) -> list[int]:
    """Whole numbers from 1 up, with commas between: in order, each once."""
    return sorted({count(part.strip()) for part in text.split(",")})


def amounts(text: str) -> list[float]:
    """Numbers above 0, with commas between: in order, each once."""
    return sorted({amount(part.strip()) for part in text.split(",")})


def not_negative(text: str) -> float:
    """A number from 0 up."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of at least 0, not {text!r}")
    return number


def minutes(text: str) -> int:
    """A duration such as `8h` or `1h30m`, in minutes."""
    parts = re.findall(r"(\d+)([dhm])", text)
    found = sum(int(number) * MINUTES[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text or not 1 <= found <= MOST_MINUTES:
        raise argparse.ArgumentTypeError(f"must be a time from 1m to 30d, not {text!r}. Write 8h or 1h30m.")
    return found


def whole(text: str) -> int:
    """A whole number, also below 0."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, not {text!r}") from None
