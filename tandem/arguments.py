"""How commands declare and read their arguments: one parser, with one form of help and errors. Cheap to import."""

import argparse
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias, TypeVar

from tandem.terminal import UsageError, short

DEFAULT_STACK = "timeslice"
Commands: TypeAlias = "argparse._SubParsersAction[Parser]"
"""What `add_subparsers` returns; argparse has no public name for it."""
REFUSED = "the stack is refused (invalid, does not fit, over budget)"
EXIT_CODES = {0: "success", 1: REFUSED, 2: "usage error or unreadable input", 130: "interrupted"}
"""What each exit code means, where a command has no words of its own for it."""
BY = ("price", "tokens", "per-token")
"""Values of `--by`: dollars, tokens per second of the slowest model while all are busy, dollars per token."""
WAYS = ("exclusive", "timeslice", "mps", "mps-per-model", "mig", "mig-single", "mig-mixed")
"""Names of sharing modes: those of `sharing.verdict.matrix.WAYS`, and the beginning that some of these have."""
Number = TypeVar("Number", int, float)


class _Help(argparse.HelpFormatter):
    """Keeps names such as us-east-1 on one line."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        import textwrap

        return textwrap.wrap(" ".join(text.split()), width, break_on_hyphens=False)


class Parser(argparse.ArgumentParser):
    """Reads the arguments of a command, or of one below it."""

    def __init__(self, **options: Any) -> None:
        # An abbreviation that works today would be ambiguous with the next option.
        super().__init__(allow_abbrev=False, formatter_class=_Help, **options)
        self._positionals.title = "arguments"
        self.exit_codes: Mapping[int, str] = {}
        self.tables: Mapping[str, Mapping[str, str]] = {}
        """Sections of the help after the arguments, each with words and their meanings."""
        self.option_hint = ""
        """Ends the error about an option that is not known."""
        self.word_hint = ""
        """Ends the error about a word that is not known, which replaces `{}`."""
        self.word_option = ""
        """The option whose value is a first word that is no command."""

    def format_usage(self) -> str:
        """One line: the help below it lists the options."""
        self.usage = self.usage or " ".join(["%(prog)s", "[OPTIONS]", *_usage_of_words(self)])
        return super().format_usage()

    def format_help(self) -> str:
        """The arguments, then the tables and exit codes, in the same layout."""
        self.format_usage()
        formatter = self._get_formatter()
        codes = {str(code): meaning for code, meaning in self.exit_codes.items()}
        for title, rows in {**self.tables, **({"exit codes": codes} if codes else {})}.items():
            formatter.start_section(title)
            formatter.add_arguments(argparse.Action([word], "", help=what) for word, what in rows.items())
            formatter.end_section()
        return "\n".join(filter(None, [super().format_help(), formatter.format_help()]))

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """What `tandem`'s own parser calls for a command. It would complain with its own usage about what is left."""
        if self.word_option and args and not args[0].startswith("-") and not self._is_like_command(args[0]):
            args = [self.word_option, *args]
        parsed, left = super().parse_known_args(args, namespace)
        # Before an option, it takes a missing word for an omitted one (Python 3.11, 3.12.0): `run dev --yes llama2:7b`.
        omitted = [action for action in self._actions if action.nargs == "?" and not action.option_strings]
        while left and not left[0].startswith("-") and (action := _first_omitted(omitted, parsed)):
            setattr(parsed, action.dest, self._get_value(action, left.pop(0)))
        for action in self._actions:
            given = getattr(parsed, action.dest, None)
            if (
                action.option_strings
                and given != action.default
                and "" in (given if isinstance(given, list) else [given])
            ):
                self.error(f"{action.option_strings[-1]}: expected one argument")  # `--write "$NAME"` without a NAME
        option = next((word.partition("=")[0] for word in left if word.startswith("-")), "")
        if option:
            known = [name for action in self._actions for name in action.option_strings if name.startswith("--")]
            self.error(_unknown("option", option, known, self.option_hint))
        if left:
            self.error(f"unknown argument `{short(left[0])}`. {self.word_hint.format(short(left[0])) or 'Remove it.'}")
        return parsed, left

    def _is_like_command(self, word: str) -> bool:
        """Whether the word is a command below this one, or probably a wrong spelling of one."""
        from sharing.problems import near

        below = [action for action in self._actions if isinstance(action, argparse._SubParsersAction)]
        return bool(near(word, [name for action in below for name in action.choices]))

    def error(self, message: str) -> NoReturn:
        """Raises `UsageError`: the command says what it says to people or to programs."""
        names, _, problem = message.removeprefix("argument ").partition(": ")
        action = self._option_string_actions.get(names.partition("/")[0])
        if names == "the following arguments are required":
            message = f"missing argument{'s' * (',' in problem)}: {problem}."
        elif action and problem == "expected one argument":
            message = f"{names}: has no value. Write `{action.option_strings[-1]}={action.metavar or 'VALUE'}`."
        raise UsageError(message.removeprefix("argument "), f"{self.format_usage()}Run `{self.prog} --help` for more.")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Says which of the choices was probably meant."""
        if action.choices is None or value in action.choices:
            return
        choices = [str(choice) for choice in action.choices]
        if isinstance(action, argparse._SubParsersAction):
            raise argparse.ArgumentError(None, _unknown("command", str(value), choices, self.word_hint))
        raise argparse.ArgumentError(action, _unknown("value", str(value), choices))


def _unknown(kind: str, word: str, known: Sequence[str], hint: str = "") -> str:
    """The error about a word that is not known: with the nearest known ones or, where none is near, with the hint."""
    from sharing.problems import did_you_mean, near

    fix = hint.format(short(word)) if hint and not near(word, known) else did_you_mean(word, known)
    return f"unknown {kind} `{short(word)}`. {fix}"


def _first_omitted(words: Sequence[argparse.Action], parsed: argparse.Namespace) -> argparse.Action | None:
    return next((action for action in words if getattr(parsed, action.dest) is None), None)


def _usage_of_words(parser: Parser) -> Iterator[str]:
    for action in parser._actions:
        if not action.option_strings:
            name = f"{action.metavar or action.dest}{' ...' if action.nargs in ('*', '+') else ''}"
            yield name if action.required and action.nargs not in ("*", "?") else f"[{name}]"


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


def add_isolation(parser: argparse.ArgumentParser, whom: str = "") -> None:
    """`--isolation`, which `isolations` reads; `whom` begins its help."""
    parser.add_argument(
        "--isolation",
        choices=("memory", "hardware"),
        help=f"{whom}leave out setups whose models are less isolated: `memory` needs an enforced limit for each model "
        "(MPS, MIG) or its own GPU, `hardware` a MIG slice or its own GPU (default: all setups)",
    )


def isolations(least: str | None) -> tuple[str, ...]:
    """The words of `sharing.verdict.choices.ISOLATIONS` that are enough for a value of `--isolation`."""
    from sharing.verdict.choices import ISOLATIONS

    return ISOLATIONS[ISOLATIONS.index(least or "none") :]


def add_write(parser: argparse.ArgumentParser, what: str) -> None:
    """`--write` and `--force`, which `tandem.search.new_stack_file` reads; `what` is written."""
    parser.add_argument(
        "--write",
        metavar="STACK|FILE",
        help=f"write {what} as this stack file, beside the Pulumi.yaml of a project",
    )
    parser.add_argument("--force", action="store_true", help="with --write: overwrite an existing file without asking")


def add_slots(parser: Parser, default: str, whose: str = "") -> None:
    """The number of parallel requests per model; `whose` begins the help."""
    parser.add_argument(
        "--slots",
        type=count,
        metavar="N",
        help=f"{whose}parallel requests of each model that generates text (default: {default})",
    )


def add_hours(parser: Parser, default: str, whose: str = "") -> None:
    """`--nights-off` and `--hours`, which `tandem.search.hours` reads; `whose` begins the help."""
    hours = parser.add_mutually_exclusive_group()
    hours.add_argument(
        "--nights-off",
        action="store_true",
        help=f"{whose}run GPU nodes from 8 to 20, Monday to Friday, in the time zone of the region",
    )
    hours.add_argument(
        "--hours",
        metavar="FROM-TO",
        help=f"{whose}run GPU nodes in these hours from Monday to Friday, as in '9-18 Europe/Paris', by default in the "
        f"time zone of the region (default: {default})",
    )


def add_measured(parser: argparse.ArgumentParser) -> None:
    """The argument that names results whose figures replace forecasts: `tandem.bench_results.measurements`."""
    parser.add_argument(
        "--measured",
        action="append",
        metavar="RESULT.json",
        help="a result of `tandem bench STACK`: its speeds replace the forecast of the same model, GPU, mode and "
        "slots; pass it once per file",
    )


def add_profile(parser: argparse.ArgumentParser) -> None:
    """The argument that names an AWS profile."""
    parser.add_argument(
        "--profile", metavar="NAME", help="AWS profile (default: the stack file's, or your default credentials)"
    )


def count(text: str) -> int:
    """A whole number from 1 up."""
    return _number(text, int, lambda number: number >= 1, "a whole number of at least 1")


def whole(text: str) -> int:
    """A whole number, also below 0."""
    return _number(text, int, lambda number: True, "a whole number")


def amount(text: str) -> float:
    """A number above 0."""
    return _number(text, float, lambda number: 0 < number < math.inf, "a number above 0")


def not_negative(text: str) -> float:
    """A number from 0 up."""
    return _number(text, float, lambda number: 0 <= number < math.inf, "a number of at least 0")


def _number(text: str, read: Callable[[str], Number], fits: Callable[[Number], bool], rule: str) -> Number:
    try:
        number = read(text)
    except ValueError:
        pass
    else:
        if fits(number):
            return number
    raise argparse.ArgumentTypeError(f"must be {rule}, not {text!r}")


def counts(text: str) -> list[int]:
    """Whole numbers from 1 up, with commas between: in order, each once."""
    return sorted({count(part.strip()) for part in text.split(",")})


def amounts(text: str) -> list[float]:
    """Numbers above 0, with commas between: in order, each once."""
    return sorted({amount(part.strip()) for part in text.split(",")})


@dataclass(frozen=True, slots=True)
class Budget:
    """A maximum price, in the unit that the user wrote."""

    usd: float
    unit: str
    """`hour` or `month`"""
    is_bare: bool
    """Whether the user wrote a number alone, which means per hour."""

    @property
    def settings(self) -> dict[str, float]:
        """The same limit as a key of the section `budget`."""
        return {f"max-usd-per-{self.unit}": self.usd}


def budget(text: str) -> Budget:
    """Dollars per hour or per month, e.g. `1`, `1/hour`, `730/month` or `$730/month`."""
    number, slash, unit = text.removeprefix("$").partition("/")
    try:
        usd = amount(number)
    except argparse.ArgumentTypeError:
        usd = 0.0
    is_known = not slash or unit in ("hour", "month")
    if not (usd and is_known):
        rule = "a number above 0" if is_known else "per hour or per month"
        raise argparse.ArgumentTypeError(f"must be {rule}, not {text!r}. Write 1 or 730/month, for example.")
    return Budget(usd, unit or "hour", is_bare=not slash)
