"""`tandem sandbox`: its arguments."""

import argparse
import math
from pathlib import Path
from typing import Any, NoReturn

from stacks.stack_file.judge import stack_name
from tandem.arguments import accepted, add_stack, existing, stack_file
from tandem.sandbox.verbs import Place, command
from tandem.terminal import EXIT_CODES, CallError, Commands, Parser

VERBS = {
    "up": "create or change the stack in the emulated cloud",
    "preview": "show what `up` would do",
    "refresh": "bring Pulumi's state up to what is in the emulated cloud",
    "destroy": "delete everything, and say what is left: that must be nothing",
    "status": "compare Pulumi's state with the emulated cloud, and say how to repair what differs",
    "pulumi": "run any other command of pulumi on the stack, e.g. `-- stack output`",
    "delete": "delete one thing from the emulated cloud behind Pulumi's back, as with the AWS console",
}
VERB_EXIT_CODES = (
    "Exit codes: 0 success, 1 failed, or state and cloud differ, 2 usage error, unreadable file or sandbox in use."
)
REPORTING = ("up", "refresh", "destroy", "status", "delete")
"""Verbs with `--json`. The others show what `pulumi` prints, whose own `--json` goes behind the `--`."""
PASSING_ON = ("up", "preview", "refresh", "destroy", "pulumi")
"""Verbs that give pulumi what follows `--`. argparse never sees that: `tandem.command` cuts it off."""


class VerbParser(Parser):
    """Reads the arguments of a verb; an argument of pulumi in the wrong place gets an error that says where it goes."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """What `tandem`'s own parser calls for a verb. It would complain with its own usage about what is left."""
        parsed, left = super().parse_known_args(args, namespace)
        if left:
            self.error(f"unrecognized arguments: {' '.join(left)}")
        return parsed, left

    def error(self, message: str) -> NoReturn:
        """Prints the usage of the verb and the error, and ends the command."""
        hint = ". Write what goes to pulumi after `--`" if message.startswith("unrecognized") else ""
        super().error(message + hint)


def add(commands: Commands) -> None:
    """Adds the command and its verbs to those of `tandem`."""
    sandbox = commands.add_parser(
        "sandbox",
        description="Runs the `pulumi` of the PATH against an emulated cloud, which is kept in .tandem/sandbox/: "
        "no AWS account, no network, nothing to pay. What follows `--` goes to pulumi.",
        epilog=EXIT_CODES,
    )
    verbs = sandbox.add_subparsers(required=True, metavar="VERB", dest="verb", parser_class=VerbParser)
    for verb, what in VERBS.items():
        parser = verbs.add_parser(verb, help=what, description=f"{what[0].upper()}{what[1:]}.", epilog=VERB_EXIT_CODES)
        if verb in PASSING_ON:
            command = "-- ARGUMENT ..." if verb == "pulumi" else "[-- ARGUMENT ...]"
            parser.usage = f"%(prog)s [OPTIONS] [STACK|FILE] {command}"
        add_stack(parser, default=verb != "delete")
        parser.add_argument(
            "--pace",
            type=_seconds,
            default=0.0,
            metavar="SECONDS",
            help="how long a minute of the cloud takes here (default: 0, everything is there at once)",
        )
        if verb in REPORTING:
            parser.add_argument(
                "--json", action="store_true", help="print one JSON object instead; what pulumi says goes to stderr"
            )
        if verb == "delete":
            parser.add_argument("type", metavar="TYPE", help="its type, e.g. aws:ec2/vpcEndpoint:VpcEndpoint")
            parser.add_argument(
                "id",
                metavar="ID",
                help="its id, as `status` or `tandem sandbox pulumi STACK -- stack --show-ids` shows it",
            )
        parser.set_defaults(run=_run)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, 0 or more")
    return value


def _run(parsed: argparse.Namespace) -> int:
    verb = parsed.verb
    if verb == "pulumi" and not parsed.passed_on:
        raise CallError("pulumi's command is missing. Write it after `--`, e.g. `-- stack output`.")
    if verb not in PASSING_ON and parsed.passed_on:
        raise CallError(f"`{verb}` passes nothing to pulumi. Remove `--` and what follows it.")
    path = stack_file(parsed.stack)
    homes = [path.absolute().parent, Path.cwd(), *Path.cwd().parents]
    projects = [folder for folder in homes if (folder / "Pulumi.yaml").is_file()]
    if not projects:
        raise CallError("there is no Pulumi.yaml here or above: go to the project's folder")
    if verb in ("up", "preview"):
        accepted(parsed.stack)

    place = Place(stack_name(path), path.absolute(), projects[0])
    if not place.folder.is_dir():  # a sandbox outlives its stack file
        existing(parsed.stack)
    more = (parsed.type, parsed.id) if verb == "delete" else parsed.passed_on
    return command(verb, place, more, pace=parsed.pace, as_json=parsed.json)
