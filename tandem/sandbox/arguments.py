"""The arguments of `tandem sandbox`; what answers them is imported when it is called."""

import argparse
import gc
from pathlib import Path

from tandem.calling import EXIT_CODES, CallError, Commands, accepted, add_stack, stack_file

VERBS = {
    "up": "create or change the stack in the emulated cloud",
    "preview": "show what `up` would do",
    "refresh": "bring Pulumi's state up to what is in the emulated cloud",
    "destroy": "delete everything, and say what is left: that must be nothing",
    "status": "compare Pulumi's state with the emulated cloud, and say how to repair what differs",
    "pulumi": "run any other command of pulumi on the stack, e.g. `-- stack output`",
    "delete": "delete one thing from the emulated cloud behind Pulumi's back, as with the AWS console",
}
REPORTING = ("up", "refresh", "destroy", "status", "delete")
"""Verbs with `--json`. The others show what `pulumi` prints, whose own `--json` goes behind the `--`."""


def add(commands: Commands) -> None:
    """Adds the command and its verbs to those of `tandem`."""
    sandbox = commands.add_parser(
        "sandbox",
        help="run the real pulumi against an emulated AWS and Kubernetes",
        description="Runs the `pulumi` of the PATH against an emulated cloud, which is kept in .tandem/sandbox/: "
        "no AWS account, no network, nothing to pay. What follows `--` goes to pulumi.",
        epilog=EXIT_CODES,
    )
    verbs = sandbox.add_subparsers(required=True, metavar="VERB", dest="verb")
    for verb, what in VERBS.items():
        parser = verbs.add_parser(verb, help=what, description=f"{what[0].upper()}{what[1:]}.", epilog=EXIT_CODES)
        add_stack(parser, default=verb != "delete")
        parser.add_argument(
            "--pace",
            type=float,
            default=0.0,
            metavar="SECONDS",
            help="how long a minute of the cloud takes here (default: 0, everything is there at once)",
        )
        if verb in REPORTING:
            parser.add_argument(
                "--json", action="store_true", help="print one JSON object instead; what pulumi says goes to stderr"
            )
        if verb == "delete":
            parser.add_argument("thing", nargs=2, metavar=("TYPE", "ID"), help="what `status` named")
        parser.set_defaults(run=_run)


def _run(parsed: argparse.Namespace) -> int:
    path = stack_file(parsed.stack)
    homes = [path.absolute().parent, Path.cwd(), *Path.cwd().parents]
    projects = [folder for folder in homes if (folder / "Pulumi.yaml").is_file()]
    if not projects:
        raise CallError("there is no Pulumi.yaml here or above: go to the project's folder")
    if parsed.verb in ("up", "preview"):
        accepted(parsed.stack)

    from tandem import plan
    from tandem.sandbox.command import Place, command

    gc.enable()
    place = Place(plan.stack_name(path), path.absolute(), projects[0])
    more = parsed.thing if parsed.verb == "delete" else parsed.passed_on
    return command(parsed.verb, place, more, pace=parsed.pace, as_json=parsed.json)
