"""Arguments that several commands share: the stack, the servers, numbers. Cheap to import."""

import argparse
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tandem.terminal import CallError, short

# The rules and YAML are imported where they are used: most of the time of an answer is imports.
if TYPE_CHECKING:
    from stacks.stack_file.judge import Plan

DEFAULT_STACK = "timeslice"
STACK_NAME = re.compile(r"[A-Za-z0-9_.-]{1,100}")
"""Pulumi's own rule (pulumi 3.260, sdk/go/common/tokens/names.go)."""
MINUTES = {"d": 24 * 60, "h": 60, "m": 1}
MOST_MINUTES = 30 * 24 * 60


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


def stack_file(stack: str) -> Path:
    """The file that `stack` means: itself when it looks like one, else `Pulumi.<stack>.yaml` here or above.

    Raises `CallError` for one that no file system has.
    """
    path = Path(stack) if _is_path(stack) else _file_of(stack)
    try:
        path.is_file()
    except OSError as error:
        raise CallError(
            f"the stack `{short(stack)}` cannot be read ({error.strerror}). Name another stack or file."
        ) from None
    return path


def _is_path(stack: str) -> bool:
    return "/" in stack or stack in (".", "..") or stack.endswith((".yaml", ".yml"))


def _file_of(stack: str) -> Path:
    name = f"Pulumi.{stack}.yaml"
    here = Path.cwd()
    homes = [folder for folder in (here, *here.parents) if (folder / "Pulumi.yaml").is_file()]
    return (homes[0] if homes else here) / name


def resolve_path(name: str) -> Path:
    """The stack file of that name or path. Raises `CallError` for a file name that `pulumi` does not read.

    It reads `Pulumi.NAME.yaml` (pulumi 3.260, sdk/go/common/workspace/paths.go, DetectProjectStackPath).
    """
    from sharing.printable import one_line
    from stacks.stack_file.judge import stack_name

    path = stack_file(name)
    if path.name != f"Pulumi.{stack_name(path)}.yaml":
        raise CallError(
            f"the stack file {one_line(name)} has a name that Pulumi does not read. Use a stack name, or a path that "
            "ends in Pulumi.NAME.yaml."
        )
    _check_name(name, stack_name(path))
    return path


def _check_name(given: str, name: str) -> None:
    if not STACK_NAME.fullmatch(name):
        raise CallError(
            f"the stack name `{short(given)}` is not valid. Use letters, digits, dashes, dots and underscores."
        )


def called(path: Path) -> str:
    """How a command names this stack file from here: by the stack alone, where that is enough."""
    name = path.stem.removeprefix("Pulumi.")
    return name if stack_file(name) == path.absolute() else str(path)


def existing(stack: str) -> Path:
    """The file that `stack` means; raises `CallError`, with the nearest names, where it is not there."""
    path = stack_file(stack)
    if not _is_path(stack):
        _check_name(stack, stack)
    if path.is_file():
        return path
    if path.is_dir():
        raise CallError(f"{path} is a folder. Name a file in it.")
    if Path(stack).is_file():
        raise CallError(f"{stack} is not a stack file. Name a stack, or a file that ends in .yaml.")

    from sharing.problems import near

    known = sorted(
        found.name.removeprefix("Pulumi.").removesuffix(".yaml") for found in path.parent.glob("Pulumi.*.yaml")
    )
    close = near(path.stem.removeprefix("Pulumi."), known)
    others = f"Name one of the stacks there: {', '.join(known)}." if known else "Stacks there: none."
    hint = f"Did you mean {' or '.join(close)}?" if close else others
    raise CallError(f"there is no file {path}. {hint}")


def accepted(stack: str) -> "Plan":
    """The plan of a stack that is accepted; raises what `existing` raises, `RefusedError` and `UnreadableError`."""
    path = existing(stack)

    from stacks.stack_file.judge import judge_file

    return judge_file(path).plan()


def known_region(region: str) -> None:
    """Raises `CallError` where no table of ours knows the region."""
    from sharing.problems import did_you_mean
    from tandem.planned import kept_prices

    if region not in kept_prices.regions():
        raise CallError(f"there is no AWS region '{region}'. {did_you_mean(region, kept_prices.regions())}")


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
